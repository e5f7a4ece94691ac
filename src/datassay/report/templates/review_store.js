"use strict";
// Where a review's samples come from and where its decisions go: the server of `datassay view`, or
// this page and this browser. A decision: { decision, label, when, seen }.
const reviewStore = (() => {
  const CHUNK = 1000; // changes in one message
  const AGAIN = 1500; // ms until what was not saved is tried again

  // The browser keeps the decisions, under a key of these samples and labels.
  function keeper(list, told) {
    const key = `datassay review ${list.key}`;
    const place = new Map(list.id.map((id, row) => [id, row]));
    const from = ([id, decision, label, when, seen]) => ({
      row: place.get(id), decision, label, when, seen,
    });
    return {
      read() {
        try {
          const kept = JSON.parse(localStorage.getItem(key) || "[]");
          told("kept in this browser");
          return kept.map(from).filter((one) => one.row !== undefined);
        } catch {
          told("this browser keeps nothing: download the decisions before you leave", true);
          return [];
        }
      },
      save(changes, all) {
        const rows = [...all].map(([row, one]) =>
          [list.id[row], one.decision, one.label, one.when, one.seen]);
        try {
          localStorage.setItem(key, JSON.stringify(rows));
          told("kept in this browser");
        } catch {
          told("this browser keeps nothing: download the decisions before you leave", true);
        }
      },
    };
  }

  function inPage(told) {
    let data, kept;
    return {
      async open() {
        data = JSON.parse(await unpack("review-data"));
        kept = keeper(data, told);
        return { ...data, decisions: kept.read() };
      },
      pictures: async (rows) => rows.map((row) => data.details[row].drawing),
      details: async (rows) => rows.map((row) => data.details[row]),
      save: (changes, all) => kept.save(changes, all),
    };
  }

  function onServer(told) {
    const token = new URLSearchParams(location.search).get("token") || "";
    const waiting = [];
    let busy = false, writes = true, kept = null;

    async function ask(path, body) {
      const headers = { "X-Datassay-Token": token };
      if (body) headers["Content-Type"] = "application/json";
      const asked = { method: body ? "POST" : "GET", headers, cache: "no-store" };
      const answer = await fetch(path, body ? { ...asked, body: JSON.stringify(body) } : asked);
      const said = await answer.json();
      if (!answer.ok) throw new Error(said.error);
      return said;
    }

    async function send() {
      if (busy) return;
      busy = true;
      while (waiting.length) {
        const some = waiting.slice(0, CHUNK);
        try {
          await ask("/api/decisions", { changes: some });
          waiting.splice(0, some.length);
        } catch (error) {
          const gone = error instanceof TypeError;
          const why = gone ? "the server does not answer; start datassay view again" : error.message;
          told(`${waiting.length} not saved: ${why}`, true);
          busy = false;
          setTimeout(send, AGAIN);
          return;
        }
      }
      busy = false;
      told("all saved");
    }

    window.addEventListener("beforeunload", (event) => {
      if (waiting.length) event.preventDefault();
    });
    return {
      async open() {
        const list = await ask("/api/samples");
        writes = list.writable;
        kept = writes ? null : keeper(list, told);
        if (writes) told(`saved in ${list.file}`);
        return writes ? list : { ...list, decisions: kept.read() };
      },
      pictures: (rows) => ask(`/api/pictures?at=${rows.join(",")}`),
      details: (rows) => ask(`/api/details?at=${rows.join(",")}`),
      // What other windows decided; and the corrected data with what they gain.
      news: (version) => ask(`/api/news?since=${version}`),
      isWaiting: (row) => waiting.some((one) => one.row === row),
      writes: () => writes,
      finishing: () => ask("/api/finish"),
      after: () => `/after?token=${encodeURIComponent(token)}`,
      async finish(majority) {
        while (waiting.length) await new Promise((done) => setTimeout(done, 20));
        return ask("/api/finish", { majority });
      },
      async learn() { // from what is saved: all of it
        while (waiting.length) await new Promise((done) => setTimeout(done, 20));
        return ask("/api/remaining");
      },
      save(changes, all) {
        if (!writes) return kept.save(changes, all);
        waiting.push(...changes);
        told("saving …");
        send();
      },
    };
  }

  // The file that `datassay apply` reads; ids are texts, since numbers beyond 2^53 lose digits.
  function download(list, decisions) {
    const about = {
      digest: list.digest, name: list.name, class_names: list.classes, inputs: list.inputs,
      integer_ids: list.integer_ids,
    };
    const rows = [...decisions].map(([row, one]) => ({
      id: list.id[row], decision: one.decision, label: one.label || null,
      given: list.classes.length ? list.classes[list.given[row]] : list.given[row],
      when: one.when, seen_score: one.seen, reviewer: list.reviewer || null,
    }));
    const text = JSON.stringify({ "datassay.decisions": about, decisions: rows }, null, 1);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = "decisions.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const open = (root, told) => root.dataset.mode === "server" ? onServer(told) : inPage(told);
  return { open, download };
})();
