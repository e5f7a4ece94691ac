"use strict";
// The end of a review: what was done, what is left, and what the corrected data gain.
const reviewFinish = (root, store, { list, decisions, left, listed, more, tell, goTo, measured: follow }) => {
  const AGAIN = 1000; // ms between two looks at how far the comparison is
  const { make } = elements;
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const counted = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
  const canCarry = () => Boolean(store.finish) && store.writes();
  let commands = { commands: [], majority: [] }, isRunning = false, result = null;
  // What was measured, while the decisions are those that it was measured on.
  const measured = () => result?.decided === decisions.size ? result : null;

  function tally() {
    const all = [...decisions.values()], times = new Map();
    for (const { when } of all) times.set(when, (times.get(when) || 0) + 1);
    const of = (kind) => all.filter((one) => one.decision === kind);
    const unseen = of("relabel").filter((one) => times.get(one.when) > 1).length;
    const lines = [
      [of("relabel").length, "relabelled", unseen ? `, ${unseen} of them accepted at once, unseen` : ""],
      [of("keep").length, "kept", ""],
      [of("remove").length, "to be removed", ""],
      [of("unsure").length, "unsure: left as given", ""],
    ];
    return lines.filter(([n]) => n).map(([n, what, more]) =>
      make("li", "", `${n.toLocaleString("en")} ${what}${more}`));
  }

  function show(outcome) {
    const open = left();
    part("end-title").textContent = !decisions.size ? "Nothing was decided yet" :
      open ? `${open.toLocaleString("en")} of ${counted(listed(), "label")} to review ${open === 1 ? "is" : "are"} still open` :
        "The review is done";
    const back = root.querySelector("[data-act=back]"), carry = root.querySelector("[data-act=carry]");
    back.textContent = open ? "Continue the review" : "Back to the samples";
    back.classList.toggle("go", Boolean(open)); // what is next stands out
    carry.classList.toggle("go", !open);
    part("outcome").textContent = outcome;
    part("outcome").hidden = !outcome;
    part("tally").replaceChildren(...tally());
    const n = more(), button = root.querySelector("[data-act=more]");
    button.hidden = !n;
    button.textContent = `Review ${counted(n, "label")} more that look${n === 1 ? "s" : ""} wrong by what you decided`;
    const disputed = list().disputed();
    part("disputed").hidden = part("majority").hidden = !disputed;
    part("disputed").textContent = `Reviewers disagree about ${counted(disputed, "sample")}: Show: disputed has them.`;
    part("by-hand").textContent = canCarry() ? "Or by hand:" : "Download the decisions, then:";
    part("commands").textContent = list().apply || "";
    part("carry-out").hidden = !canCarry();
    look();
  }

  async function look() {
    if (!canCarry()) return;
    try {
      told(await store.finishing());
    } catch (error) {
      fail(error.message);
    }
  }

  function showCommands() {
    const isMajority = part("majority").querySelector("input").checked;
    const lines = isMajority ? commands.majority : commands.commands;
    part("commands").replaceChildren(...lines.map((line) => make("code", "", `${line}\n`)));
  }

  // What the server says of the comparison.
  function told(found) {
    if (found.commands) {
      commands = found;
    }
    showCommands();
    isRunning = found.state === "running";
    part("running").hidden = !isRunning;
    root.querySelector("[data-act=carry]").disabled = isRunning;
    part("stage-name").textContent = `${found.stage} · ${Math.round(found.seconds)} s`;
    if (isRunning) setTimeout(look, AGAIN);
    else if (found.state === "failed") fail(found.message);
    result = found.state === "done" ? found.result : null;
    if (result) part("gain").replaceChildren(...gain(result));
    // Labels flipped on purpose stand in no file.
    part("hand").hidden = Boolean(measured()) || !commands.commands.length;
    part("carry-out").hidden = part("hand").hidden || !decisions.size;
    root.dataset.finish = found.state;
    follow();
  }

  function fail(message) {
    part("gain").replaceChildren(make("p", "bad", message));
  }

  function gain({ verdict, rows, clean, page }) {
    const table = make("table", "groups"), head = table.createTHead().insertRow();
    for (const name of ["what", "before", "now", "change", "95 % interval"]) {
      const cell = make("th", "", name);
      cell.scope = "col";
      head.append(cell);
    }
    const body = table.createTBody();
    for (const [name, ...cells] of rows) {
      const line = body.insertRow(), first = make("th", "", name);
      first.scope = "row";
      line.append(first, ...cells.map((cell) => make("td", "", cell)));
    }
    const where = make("p", "note", `Corrected data: ${clean}. Their page: `);
    where.append(Object.assign(make("a", "", page), { href: store.after(), target: "_blank" }), ".");
    return [make("h4", "", verdict), table, where];
  }

  const acts = {
    async carry() {
      part("gain").replaceChildren();
      try {
        told(await store.finish(part("majority").querySelector("input").checked));
      } catch (error) {
        fail(error.message);
      }
    },
    async copy() {
      const text = part("commands").textContent.trim();
      try {
        await navigator.clipboard.writeText(text);
        tell("Copied.");
      } catch {
        getSelection().selectAllChildren(part("commands"));
        tell("Marked: press Ctrl-C to copy.");
      }
    },
    back: goTo,
  };
  part("majority").addEventListener("change", showCommands);
  return { show, look, measured, acts };
};
