"use strict";
// The top of the page follows the review: heading, button, card and samples.
const reviewTop = ({ list, decisions, left, finish, after }) => {
  const find = (selector) => document.querySelector(selector);
  const heading = find("h1.finding"), button = find(".start a.button");
  const card = find(".advice [data-kind='label errors']"), note = find("#next > .note");
  const rows = new Map(list.id.map((id, row) => [id, row]));
  const before = { heading: heading?.textContent, button: button?.textContent,
    title: card?.querySelector("h3").textContent, text: card?.querySelector("p").textContent, kind: card?.className };
  let next = "";

  function mark(element) {
    const { id } = element.dataset, one = decisions.get(rows.get(id));
    element.classList.toggle("done", Boolean(one));
    element.querySelector(".id").textContent = `id ${id}${one ? ` · ${reviewCards.decided(one)}` : ""}`;
  }

  function show(outcome, measured) {
    if (!heading || !button) return;
    const n = left(), labels = `${n.toLocaleString("en")} more label${n === 1 ? "" : "s"}`;
    document.querySelectorAll(".six .card").forEach(mark);
    next = measured ? "after" : decisions.size && !n ? "finish" : "";
    heading.textContent = measured?.verdict || (decisions.size && outcome) || before.heading;
    button.textContent = { after: "Open the page of the corrected data", finish: "Write the corrected data" }[next] ||
      (decisions.size ? `Review ${labels}` : before.button);
    button.href = next === "after" ? after() : "#review";
    button.target = next === "after" ? "_blank" : "";
    if (note) note.hidden = Boolean(measured);
    if (!card) return;
    card.className = measured ? "fine" : before.kind;
    card.querySelector("h3").textContent = measured?.headline || (decisions.size ? button.textContent : before.title);
    card.querySelector("p").textContent = measured?.sentence || (next ? "All labels to review are decided." :
      decisions.size ? "The most suspect come first." : before.text);
  }

  button?.addEventListener("click", () => next === "finish" && finish());
  return { show };
};
