"use strict";
(() => {
  // A review: one sample at a time or a grid; every key saves.
  const root = document.getElementById("reviewing");
  if (!root) return;
  const AHEAD = 16, MOST_KEPT = 120, MOST_MATCHES = 40;
  const STEPS = ["probe", "suspects"]; // lists, one after the other
  const NEWS = 2000; // ms between two looks at what other windows decided
  const UNSEEN = 700; // ms in which nobody can have seen what another window brought under the keys
  const { make } = elements;
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const dialog = (name) => root.querySelector(`[data-dialog="${name}"]`);
  const form = root.querySelector("form.controls");
  const store = reviewStore.open(root, (text, bad) => {
    part("saved").textContent = text;
    part("saved").className = bad ? "bad" : "";
  });
  let list, rows = [], at = 0, visited, grid, end, heading, learned = 0, isNew = false;
  let isFinished = false, outcome = "", edits = 0, isLearning = false, seenFrom = 0, version = 0;
  // Rows that decisions made suspect, beside those of the run: all, and those under review now.
  const later = new Set(), finds = new Set();
  const decisions = new Map(); // row → decision, in the order in which they were made
  const done = []; // what undo takes back: [[row, what it was], ...] each
  const details = new Map(), asked = new Map();

  const row = () => rows[at]; // none where all are decided: we stand behind the last
  const isDecided = (k) => decisions.has(k);
  const counted = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
  const isGrid = () => form.elements.layout.value === "grid";
  const text = (label) => list.classes.length ? list.classes[label] : label;
  // What was done, and where we are now: that is on the screen, so only read aloud.
  const say = (told, now = "") => {
    part("told").textContent = told;
    part("now").textContent = now;
  };
  const rowsOf = (name) => list.order.filter((k) => name === "probe" ? list.probe.includes(k) :
    name === "finds" ? finds.has(k) : list.suspect[k]);
  const isOpen = (name) => rowsOf(name).some((k) => !decisions.has(k));
  const canType = () => ["class", "number"].includes(list.relabels);
  const differs = (k) => list.relabels && list.suggested[k] !== list.given[k];

  // ---- which samples, and where we are among them
  function choose(isAsked = true) {
    if (isAsked && form.elements.show.value === "finds") renew();
    const before = row(), stays = reviewPlace.stays(isDecided, before, isAsked, visited);
    const { show, class: given, source, least } = Object.fromEntries(new FormData(form));
    const fits = (k) => (
      (show === "all" || (show === "done" ? decisions.has(k) :
        show === "probe" ? list.probe.includes(k) : show === "finds" ? finds.has(k) :
          show === "disputed" ? isDisputed(k) : list.suspect[k] || show === "open")) &&
      (show !== "open" || !decisions.has(k)) &&
      (!given || list.given[k] === Number(given)) &&
      (!source || list.source[k] === Number(source)) &&
      (!Number(least) || list.wrong[k] >= Number(least)));
    rows = list.order.filter((k) => fits(k) || (!isAsked && stays && k === before));
    at = reviewPlace.again(rows, isDecided, before, stays);
    if (isAsked && show === "done" && row() === undefined) at = 0; // whoever asks for these goes to them
    if (isAsked) visited = row();
    if (isAsked) isFinished = false;
    form.elements.shown.value = counted(rows.length, "sample");
    draw();
  }

  function go(to) {
    if (to < 0 || to >= rows.length) return say(to < 0 ? "This is the first." : "This is the last.");
    at = to;
    visited = row();
    isFinished = false;
    draw();
    say("", here());
  }

  // A list stays as it was begun; what was found since is the next.
  const foundSince = () => [...later].filter((k) => !decisions.has(k) && !finds.has(k));
  function renew() {
    if (isOpen("finds")) return;
    const next = foundSince();
    if (!next.length) return;
    finds.clear();
    next.forEach((k) => finds.add(k));
  }

  // The next list, once all of one are decided; behind the last the review is done.
  function advance() {
    const { show } = form.elements, after = STEPS.indexOf(show.value);
    if (row() !== undefined || isOpen(show.value)) return;
    const next = STEPS.slice(Math.max(0, after)).find(isOpen);
    if (!next || show.value === "finds") isFinished = decisions.size > 0;
    else if (after >= 0) {
      show.value = next;
      choose();
      visited = undefined;
    }
  }

  function afterDecision() {
    const isAsked = form.elements.show.value === "done"; // one after the other
    at = isAsked ? at + 1 : reviewPlace.open(rows, isDecided, isNew ? 0 : at + 1); // new: at its top
    visited = isAsked ? row() : undefined;
    isNew = false;
    const before = form.elements.show.value;
    advance();
    count();
    draw();
    if (row() === undefined) return ` ${ended()}`;
    return form.elements.show.value === before ? "" : ` ${part("learned").textContent}`;
  }

  const ended = () => isFinished ? "This is the end of the review." : !rows.length ? "No sample fits these controls." :
    `All of these are reviewed; Previous goes back to them.${form.elements.show.value === "all" ? "" :
      " Show: all samples has the others."}`;

  // ---- deciding
  function change(pairs, when = new Date().toISOString()) {
    const before = pairs.map(([k]) => [k, decisions.get(k)]);
    apply(pairs.map(([k, decision, label]) =>
      [k, { decision, label: label || "", when, seen: list.wrong[k] }]));
    done.push(before);
  }

  function apply(pairs) {
    const changes = pairs.map(([k, one]) => {
      decisions.delete(k); // a new one comes last
      if (one) decisions.set(k, one);
      return one ? { row: k, ...one } : { row: k, decision: null };
    });
    store.save(changes, decisions);
    edits += 1;
    count();
    learn();
  }

  function decide(decision, label) {
    if (row() === undefined) return say(ended());
    const id = list.id[row()];
    change([[row(), decision, label]]);
    const told = reviewCards.decided(decisions.get(row()));
    const left = afterDecision();
    say(`${id}: ${told}.${left}`, here());
  }

  function undo() {
    const last = done.pop();
    if (!last) return say("Nothing is left to undo.");
    apply(last);
    const back = rows.indexOf(last[0][0]);
    if (back >= 0) at = back;
    visited = row();
    isFinished = false;
    draw();
    say(`Undone: ${last.length > 1 ? counted(last.length, "decision") : list.id[last[0][0]]}.`, here());
  }

  // ---- what is shown
  const title = () =>
    `Sample ${(at + 1).toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;

  const isProbe = () => form.elements.show.value === "probe"; // a count that nothing may sway
  const chance = (k) => isProbe() ? "" : reviewCards.chance(list.wrong[k]);

  const claim = () => {
    const proposed = list.suggested[row()] !== list.given[row()];
    const given = `Given ${text(list.given[row()])}`;
    return `${given}${proposed ? `, suggested ${text(list.suggested[row()])}` : ""}. ` +
      chance(row());
  };

  const here = () => row() === undefined ? "" : `${title()}. ${claim()}`;

  function draw() {
    const isEnd = isFinished || row() === undefined, focused = document.activeElement;
    part("none").textContent = isEnd && !isFinished ? ended() : "";
    part("none").hidden = !isEnd || isFinished;
    part("finish").hidden = !isFinished;
    part("learned").hidden = isFinished || !part("learned").textContent; // the end says the same
    if (isFinished) end.show(isLearning ? "Counting what is left …" : outcome);
    part("stage").hidden = isEnd || isGrid();
    part("tiles").hidden = !rows.length || !isGrid() || isFinished;
    if (root.contains(focused) && focused.closest("[hidden]")) place().focus({ preventScroll: true });
    if (!rows.length || isFinished) return;
    if (isGrid()) grid.show(at);
    else if (!isEnd) drawOne(row());
    prefetch();
  }

  // Where the keys go.
  const place = () => isFinished ? part("finish") : isGrid() && rows.length ? part("tiles") :
    row() === undefined ? part("none") : part("stage");

  function drawOne(k) {
    const source = list.source ? ` · ${list.sources[list.source[k]]}` : "";
    part("place").textContent = `${title()} · id ${list.id[k]}${source}`;
    part("given").textContent = text(list.given[k]);
    part("suggested").textContent = text(list.suggested[k]);
    part("proposed").hidden = list.suggested[k] === list.given[k];
    part("proposed").classList.toggle("plain", isProbe());
    part("chance").textContent = chance(k);
    part("take").textContent = differs(k) ? `Take “${text(list.suggested[k])}”` : "No suggestion";
    part("keep").textContent = `Keep “${text(list.given[k])}”`;
    root.querySelector("[data-act=take]").disabled = !differs(k);
    // Of two classes the other is the one suggested.
    root.querySelector("[data-act=other]").hidden = !canType() || (list.classes.length === 2 && differs(k));
    const bar = ["class", "set"].includes(list.relabels) ? 0.8 : 0.5; // above it a label is probably wrong
    const likelier = list.wrong[k] > bar ? "take" : list.wrong[k] <= 0.5 ? "keep" : "";
    for (const act of ["take", "keep"]) { // what is probably right stands out
      root.querySelector(`[data-act=${act}]`).classList.toggle("likelier", !isProbe() && act === likelier);
    }
    const one = decisions.get(k);
    part("decided").textContent = one ? [`Decided: ${reviewCards.decided(one)}`,
      ...(list.others?.[k] || [])].join(" · ") : "";
    part("decided").classList.toggle("disputed", isDisputed(k));
    for (const button of root.querySelectorAll(".acts button")) {
      button.ariaPressed = String(Boolean(one) && button.dataset.act === actOf(k, one));
    }
    const detail = details.get(k);
    part("stage").classList.toggle("waiting", !detail);
    if (!detail) return; // what was there stays, pale, until the sample comes
    part("subject").replaceChildren(...reviewCards.subject(detail, list.id[k]));
    part("subject").hidden = !part("subject").firstChild;
    part("beside").replaceChildren(...reviewCards.beside(detail, !isProbe()));
  }

  const actOf = (k, one) => one.decision !== "relabel" ? one.decision :
    one.label === String(text(list.suggested[k])) ? "take" : "other";

  function tile(k, element) {
    const one = decisions.get(k), told = element.querySelector(".told");
    const state = `${one ? one.decision + one.label : ""} ${chance(k)} ${list.suggested[k]}`;
    element.classList.toggle("current", k === row());
    element.ariaSelected = String(k === row());
    if (element.dataset.state === state) return;
    element.dataset.state = state;
    element.classList.toggle("done", Boolean(one));
    const proposed = list.suggested[k] !== list.given[k];
    told.replaceChildren(
      make("p", "label", text(list.given[k])),
      make("p", "suggested", proposed ? `→ ${text(list.suggested[k])}` : ""),
      make("p", one ? "decided" : "", one ? reviewCards.decided(one) : chance(k)));
  }

  function count() {
    const { value } = form.elements.show, isFinds = value === "finds";
    const some = rowsOf(isProbe() || isFinds ? value : "suspects");
    const among = some.length ? some : list.order;
    const reviewed = among.filter(isDecided).length, beyond = decisions.size - reviewed;
    const bar = root.querySelector("progress");
    [bar.max, bar.value] = [Math.max(1, among.length), reviewed];
    const step = !list.probe.length || isFinds || !list.suspect.some(Boolean) ? "" :
      isProbe() ? "Step 1 of 2, a random check: " : "Step 2 of 2: ";
    const what = isFinds ? "find" : "sample";
    part("count").textContent = `${step}${reviewed.toLocaleString("en")} of ` +
      `${counted(among.length, what)} reviewed` +
      (beyond > 0 ? `; ${beyond.toLocaleString("en")} not of this list` : "");
    root.querySelector("[data-act=skip]").hidden = !isProbe();
    const option = form.elements.show.querySelector("[value=finds]");
    option.hidden = !isFinds && !foundSince().length;
    option.textContent = "found since";
    showTop();
  }

  const left = () => ["suspects", "finds"].flatMap(rowsOf).filter((k) => !decisions.has(k)).length;
  const showTop = () => heading.show(outcome, end.measured());

  // ---- samples come in pages, ahead of where we are
  async function fetchDetails(wanted) {
    const missing = wanted.filter((k) => !details.has(k) && !asked.has(k));
    if (!missing.length) return asked.get(wanted[0]);
    const coming = receive(missing);
    missing.forEach((k) => asked.set(k, coming));
    await coming;
  }

  async function receive(missing) {
    try {
      const found = await store.details(missing);
      missing.forEach((k, i) => details.set(k, found[i]));
    } catch (error) {
      say(`Samples cannot be read: ${error.message}`);
    }
    missing.forEach((k) => asked.delete(k));
    for (const k of details.keys()) {
      if (details.size <= MOST_KEPT) break;
      if (k !== row()) details.delete(k);
    }
    if (missing.includes(row()) && !isGrid()) drawOne(row());
  }

  function prefetch() {
    const ahead = rows.slice(at, at + AHEAD + 1).concat(rows.slice(Math.max(0, at - 2), at));
    const missing = ahead.filter((k) => !details.has(k) && !asked.has(k));
    if (isGrid() || !missing.length) return;
    if (missing[0] === row()) fetchDetails([row()]); // alone: it is waited for
    const rest = missing.filter((k) => k !== row());
    if (rest.length > AHEAD / 2 || missing[0] === row()) fetchDetails(rest);
  }

  // ---- the server learns from what was decided
  async function learn() {
    if (!store.learn || isLearning || !decisions.size) return;
    isLearning = true;
    try {
      for (let before = -1; before !== edits;) {
        before = edits;
        take(await store.learn());
      }
    } catch (error) {
      say(`The order stays as it is: ${error.message}`);
    }
    isLearning = false;
    if (isFinished) draw();
  }

  // How many are wrong follows every decision, the order every batch of them.
  function take(found) {
    outcome = found.outcome;
    part("learned").textContent = found.sentence;
    part("learned").hidden = isFinished || !found.sentence;
    part("learned").classList.toggle("enough", found.enough);
    root.querySelector("[data-act=finish]").classList.toggle("go", found.enough);
    showTop();
    if (found.learned > learned) reorder(found);
    root.dataset.taught = decisions.size;
  }

  // The first list stays as it is; what decisions made suspect is a second one.
  function reorder(found) {
    const { order, wrong, suggested } = found;
    const changed = (k) => suggested[k] !== list.suggested[k];
    for (const k of [...details.keys()].filter(changed)) details.delete(k); // others speak for it
    Object.assign(list, { order, wrong, suggested });
    found.finds.forEach((k) => later.add(k));
    learned = root.dataset.learned = found.learned;
    choose(false);
    isNew = true;
    advance();
    count();
    draw();
    if (list.relabels === "class") {
      say(`${counted(decisions.size, "decision")}: what is left has a new order.`, found.sentence);
    }
  }

  // ---- what other windows and other reviewers decided
  const same = (one, other) => one ? one.decision === other.decision && one.label === other.label &&
    Date.parse(one.when) === Date.parse(other.when) : !other.decision;
  const kindOf = (one) => one.decision === "relabel" ? `→ ${one.label}` : one.decision;
  const isDisputed = (k) => {
    const mine = decisions.get(k), others = (list.others?.[k] || []).map((one) => one.slice(one.indexOf(" ") + 1));
    const all = new Set([...(mine ? [kindOf(mine)] : []), ...others].filter((one) => one !== "unsure"));
    return all.size > 1;
  };

  function adopt(some) {
    const fresh = some.filter(({ row: k, ...one }) => !store.isWaiting(k) && !same(decisions.get(k), one));
    if (!fresh.length) return;
    const current = row(), wasOpen = current !== undefined && !decisions.has(current);
    for (const { row: k, ...one } of fresh) {
      decisions.delete(k);
      if (one.decision) decisions.set(k, one);
      done.forEach((step, i) => { done[i] = step.filter(([other]) => other !== k); }); // not ours to undo
    }
    done.splice(0, done.length, ...done.filter((step) => step.length));
    edits += 1;
    count();
    learn();
    if (!wasOpen || !decisions.has(current)) return draw(); // whoever went to a decided one stays
    seenFrom = performance.now() + UNSEEN;
    visited = undefined;
    choose(false);
    advance();
    count();
    draw();
    say(`${list.id[current]} was decided in another window: ${reviewCards.decided(decisions.get(current))}.`, here());
  }

  async function follow() {
    try {
      const news = await store.news(version);
      version = news.version;
      adopt(news.decisions);
    } catch { /* saving says that the server is gone */ }
    setTimeout(follow, NEWS);
  }

  // Those that tell how many are wrong come first; once they are reviewed, the suspects.
  const hasProbe = () => isOpen("probe") && !rowsOf("suspects").some((k) => isDecided(k) && !list.probe.includes(k));

  function skip() {
    if (!isProbe()) return say("The random check is over.");
    form.elements.show.value = list.suspect.some(Boolean) ? "suspects" : "all";
    choose();
    visited = undefined;
    count();
    say("The random check is skipped. Show: random check goes back to it.", here());
  }

  // ---- dialogs
  function ask(name, ready) {
    const box = dialog(name);
    ready?.(box);
    box.returnValue = "";
    box.showModal();
  }

  function closed(name, then) {
    dialog(name).addEventListener("close", () => {
      if (dialog(name).returnValue === "ok") then();
      place().focus({ preventScroll: true });
    });
  }

  const other = dialog("other").querySelector("input");
  let matches = [], match = 0;

  function showMatches() {
    const typed = other.value.trim().toLowerCase();
    const rank = (name) => name.toLowerCase() === typed ? 0 : name.toLowerCase().startsWith(typed) ? 1 : 2;
    matches = list.classes.filter((name) => name.toLowerCase().includes(typed))
      .sort((a, b) => rank(a) - rank(b)).slice(0, MOST_MATCHES);
    match = Math.min(match, Math.max(0, matches.length - 1));
    part("matches").replaceChildren(...matches.map((name, i) => {
      const option = make("li", "", name);
      [option.id, option.role, option.ariaSelected] = [`review-class-${i}`, "option", String(i === match)];
      option.addEventListener("click", () => { match = i; takeOther(); });
      return option;
    }));
    other.setAttribute("aria-activedescendant", matches.length ? `review-class-${match}` : "");
    part("matches").children[match]?.scrollIntoView({ block: "nearest" });
    part("other-note").textContent = list.relabels !== "class" ? "" :
      matches.length ? "Enter takes the marked class, ↑ and ↓ move the mark." : "No class is called so.";
  }

  function takeOther() {
    const typed = other.value.trim().replace("−", "-");
    const label = list.relabels === "class" ? matches[match] : typed;
    const good = list.relabels === "class" ? label !== undefined : typed !== "" && Number.isFinite(Number(typed));
    if (!good) {
      part("other-note").textContent = list.relabels === "class" ? "No class is called so." : "Type a number.";
      return;
    }
    dialog("other").close("");
    const given = String(text(list.given[row()]));
    if (label === given) decide("keep");
    else decide("relabel", label);
  }

  const k = dialog("accept").querySelector("input");
  const takeable = () => rows.filter((one) => !decisions.has(one) && differs(one));
  const top = () => takeable().slice(0, Math.max(0, Math.floor(Number(k.value)) || 0));

  let offered = []; // what the dialog names, whatever order comes meanwhile

  function precision() {
    const some = offered = top();
    const right = some.reduce((sum, one) => sum + (list.wrong[one] ?? 0), 0);
    part("accept-ok").disabled = !some.length;
    part("accept-ok").textContent = some.length ? `Accept ${some.length}` : "Accept";
    const labels = new Set(some.map((one) => list.suggested[one])).size;
    part("precision").textContent = !some.length ? "None of the samples shown is left to accept." :
      `Of these ${some.length} given labels, with ${labels === 1 ? "one new label" : `${labels} new labels`}, ${reviewCards.percent(right / some.length)} are expected to ` +
      `be wrong (${right.toFixed(1)} of ${some.length}). They are the first of those shown that are not ` +
      "reviewed. Undo takes all of them back.";
  }

  function accept() {
    const some = offered.filter((one) => !decisions.has(one));
    if (!some.length) return;
    change(some.map((one) => [one, "relabel", String(text(list.suggested[one]))]));
    const left = afterDecision();
    say(`${some.length} suggestions accepted.${left}`, here());
  }

  // ---- keys and buttons
  const acts = {
    take: () => row() === undefined || differs(row()) ? decide("relabel", String(text(list.suggested[row()]))) :
      say("No other label is suggested: K keeps the given one, O gives it another."),
    keep: () => decide("keep"),
    remove: () => decide("remove"),
    unsure: () => decide("unsure"),
    other: () => canType() && row() !== undefined && ask("other", () => {
      [other.value, match] = ["", 0];
      showMatches();
    }),
    accept: () => list.relabels === "class" && (!takeable().length ?
      say("None of these samples has a suggestion that is not decided.") : ask("accept", () => {
      k.value = Math.max(1, Math.min(10, takeable().length));
      precision();
      k.select();
    })),
    skip,
    finish: () => {
      isFinished = true;
      draw();
      place().focus();
      say("", `${part("end-title").textContent}. ${outcome}`);
    },
    next: () => go(at + 1),
    previous: () => go(isFinished && row() !== undefined ? at : at - 1),
    down: () => go(Math.min(at + grid.across(), rows.length - 1)),
    up: () => go(Math.max(at - grid.across(), 0)),
    first: () => go(0),
    last: () => go(rows.length - 1),
    undo,
    keys: () => ask("keys"),
    download: () => reviewStore.download(list, decisions),
    layout: () => {
      form.elements.layout.value = isGrid() ? "one" : "grid";
      draw();
      place().focus();
    },
  };
  const keys = {
    t: "take", k: "keep", r: "remove", u: "unsure", o: "other", a: "accept", z: "undo", g: "layout",
    f: "finish", s: "skip", n: "next", p: "previous", arrowright: "next", arrowleft: "previous", "?": "keys",
    arrowdown: "down", arrowup: "up", home: "first", end: "last",
  };
  const inGrid = new Set(["arrowdown", "arrowup", "home", "end"]);
  const repeats = new Set(["next", "previous", "down", "up"]); // a key held down decides once

  function pressed(event) {
    const { target, key } = event, name = key.toLowerCase();
    const ours = root.contains(target) || root.dataset.mode === "server" || location.hash === "#review";
    if (!ours || event.altKey || target.closest("dialog, input, select")) return;
    if (target.closest(".scroll") && name.startsWith("arrow")) return;
    if ((event.ctrlKey || event.metaKey) && name !== "z") return;
    if (!(name in keys) || (inGrid.has(name) && !isGrid())) return;
    event.preventDefault();
    if (event.repeat && !repeats.has(keys[name])) return;
    const isDeciding = ["take", "keep", "remove", "unsure", "other"].includes(keys[name]);
    if (isDeciding && isFinished) return say(ended());
    if (isDeciding && performance.now() < seenFrom) return say("Another sample is here now: press again.");
    acts[keys[name]]();
  }

  function prepare() {
    const fill = (name, values) => {
      const select = form.elements[name];
      select.append(...values.map((value, i) => Object.assign(make("option", "", value), { value: i })));
      select.closest("label").hidden = values.length < 2;
    };
    fill("class", list.classes);
    fill("source", list.sources);
    form.elements.least.closest("label").hidden = list.wrong.every((p) => p === null);
    if (!list.suspect.some(Boolean)) {
      form.elements.show.querySelector("[value=suspects]").remove();
      form.elements.show.value = "all";
    }
    const show = form.elements.show;
    if (hasProbe()) {
      show.value = "probe";
      part("learned").textContent = `These ${list.probe.length} labels are drawn at random from all ${list.order.length.toLocaleString("en")}, doubtful ones more often: what you decide tells how many of all are wrong.` +
        (list.suspect.some(Boolean) ? ` Then come the ${counted(rowsOf("suspects").length, "label")} to review, most suspect first.` : "");
      part("learned").hidden = false;
    }
    if (!list.probe.length) show.querySelector("[value=probe]").remove();
    if (!list.order.some(isDisputed)) show.querySelector("[value=disputed]").remove();
    root.querySelector("[data-act=take]").hidden = !list.relabels;
    root.querySelector("[data-act=other]").hidden = !canType();
    part("fixed").hidden = Boolean(list.relabels);
    root.querySelector("[data-act=accept]").hidden = list.relabels !== "class";
    if (list.relabels === "number") {
      part("other").textContent = "Other number";
      part("other-words").textContent = "another number";
      part("other-title").textContent = "Another number";
      part("other-label").textContent = "Type it";
      part("matches").hidden = true;
      other.inputMode = "decimal";
      other.removeAttribute("role");
    }
    part("stage").classList.add(list.kind);
    part("tiles").classList.add(list.kind);
    part("filters").open = !window.matchMedia("(max-width: 760px)").matches;
    grid = reviewGrid(part("tiles"), {
      rows: () => rows, current: row, tile, pictures: store.pictures,
      chosen: (k) => {
        if (k === row()) form.elements.layout.value = "one"; // a second click opens it
        go(rows.indexOf(k));
      },
    });
    end = reviewFinish(root, store, {
      list: () => ({ apply: list.apply, disputed: () => list.order.filter(isDisputed).length }),
      decisions, tell: say,
      left, measured: showTop,
      listed: () => ["suspects", "finds"].flatMap(rowsOf).length,
      more: () => foundSince().length,
      goTo: () => {
        isFinished = false;
        if (row() === undefined && rows.length) at = rows.length - 1;
        visited = row();
        draw();
        place().focus();
      },
    });
    heading = reviewTop({ list, decisions, left, finish: () => acts.finish(), after: store.after });
    Object.assign(acts, end.acts, {
      more: () => {
        form.elements.show.value = "finds";
        choose();
        visited = undefined;
        count();
        place().focus();
      },
    });
  }

  function listen() {
    document.addEventListener("keydown", pressed);
    root.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button?.dataset.act) acts[button.dataset.act]();
      if (button?.dataset.close !== undefined) button.closest("dialog").close();
    });
    form.addEventListener("change", (event) => event.target.name === "layout" ? draw() : choose());
    form.addEventListener("submit", (event) => event.preventDefault());
    other.addEventListener("input", () => { match = 0; showMatches(); });
    other.addEventListener("keydown", ({ key }) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[key];
      if (step) { match = Math.max(0, Math.min(matches.length - 1, match + step)); showMatches(); }
    });
    dialog("other").querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      takeOther();
    });
    closed("other", () => {});
    closed("keys", () => {});
    closed("accept", accept);
    k.addEventListener("input", precision);
  }

  async function start() {
    form.reset(); // browsers keep controls over a reload
    list = await store.open();
    list.probe ||= [];
    for (const { row: k, ...one } of list.decisions) decisions.set(k, one);
    const times = new Map(); // what was decided together is undone together
    for (const [k, { when }] of decisions) times.set(when, [...(times.get(when) || []), [k, undefined]]);
    done.push(...times.values());
    prepare();
    listen();
    count();
    if (decisions.size >= list.batch) await learn(); // coming back: the order as it was left
    choose();
    advance();
    draw();
    if (row() !== undefined) await fetchDetails([row()]);
    root.dataset.ready = "true";
    if (root.dataset.mode === "server") {
      root.closest("section").scrollIntoView();
      place().focus({ preventScroll: true });
    }
    learn();
    end.look();
    version = list.version;
    if (store.news && store.writes()) follow();
  }
  start().catch((error) => {
    part("saved").textContent = `The review cannot start: ${error.message}`;
    part("saved").className = "bad";
  }).finally(() => root.dispatchEvent(new Event("ready"))); // figures wait for it
})();
