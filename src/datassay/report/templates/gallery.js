"use strict";
(() => {
  // Gallery: every card is in the page; the controls choose, order and reveal.
  const PAGE = 48;
  const form = document.querySelector("#gallery .controls");
  if (!form) return;
  const list = document.querySelector("#gallery .cards");
  const more = document.querySelector(".more");
  const cards = [...list.children];
  const byId = new Intl.Collator(undefined, { numeric: true }).compare;
  let shown = PAGE;

  const compare = (key, sign) => (a, b) => {
    const tie = byId(a.dataset.id, b.dataset.id);
    if (key === "id") return sign * tie;
    return sign * (Number(a.dataset[key]) - Number(b.dataset[key])) || tie;
  };

  function update() {
    const chosen = new FormData(form);
    const fits = (card) =>
      (!chosen.get("view") || card.dataset.views.split(" ").includes(chosen.get("view"))) &&
      (!chosen.get("class") || card.dataset.class === chosen.get("class"));
    const fitting = cards.filter(fits);
    fitting.sort(compare(chosen.get("sort"), chosen.get("order") === "asc" ? 1 : -1));
    for (const card of cards) card.hidden = true;
    for (const card of fitting.slice(0, shown)) card.hidden = false;
    list.append(...fitting);
    const visible = Math.min(shown, fitting.length);
    form.elements.shown.value = `showing ${visible} of ${fitting.length}`;
    more.hidden = visible === fitting.length;
    document.querySelector(".none").hidden = fitting.length > 0;
  }

  function restart(event) {
    const { sort, order } = event.target.dataset; // a view may name the order that suits it
    if (sort) [form.elements.sort.value, form.elements.order.value] = [sort, order];
    shown = PAGE;
    update();
  }

  form.addEventListener("change", restart);
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => {
    const next = shown;
    shown += PAGE;
    update();
    const first = list.querySelectorAll(".card:not([hidden])")[next];
    first.tabIndex = -1; // the button may vanish: keep keyboard users where they were
    first.focus({ preventScroll: true });
  });
  for (const link of document.querySelectorAll("[data-show]")) {
    link.addEventListener("click", () => {
      const radio = form.querySelector(`[value="${link.dataset.show}"]`);
      radio.checked = true;
      restart({ target: radio });
    });
  }
  form.reset(); // browsers keep controls over a reload
  update();
})();
