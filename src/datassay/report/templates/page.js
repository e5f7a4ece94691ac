"use strict";
(() => {
  // Figures: plotly fills each placeholder from the JSON beside it.
  const narrow = window.matchMedia("(max-width: 760px)").matches;
  for (const place of document.querySelectorAll("[data-figure]")) {
    const spec = JSON.parse(document.getElementById("figure-" + place.dataset.figure).textContent);
    const named = spec.data.filter((trace) => trace.name).length;
    if (narrow && spec.layout.showlegend !== false) {
      spec.layout.height += 14 * named; // the legend wraps below the plot and must not eat it
    }
    Plotly.newPlot(place, spec.data, spec.layout, { responsive: true, displayModeBar: false });
  }

  // Gallery: every card is in the page; the controls choose, order and reveal.
  const PAGE = 48;
  const NATURAL = { most: ["information", "desc"], least: ["information", "asc"], issues: ["score", "desc"] };
  const form = document.querySelector(".controls");
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
      card.dataset.views.split(" ").includes(chosen.get("view")) &&
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
    if (event.target.name === "view") {
      [form.elements.sort.value, form.elements.order.value] = NATURAL[event.target.value];
    }
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

  // One prediction explained. Users' texts enter as text, never as markup.
  const data = document.getElementById("queries");
  if (!data) return;
  const { queries, samples } = JSON.parse(data.textContent);
  const make = (tag, classes, text) => {
    const element = document.createElement(tag);
    if (classes) element.className = classes;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  function picture(drawing, id, short) {
    if (drawing.image) {
      const image = make("img");
      image.src = drawing.image;
      image.alt = short ? "" : `sample ${id}`;
      return image;
    }
    if (short) return make("span", "words", drawing.text || `id ${id}`);
    if (!drawing.values) {
      const quote = make("blockquote", "", drawing.text);
      quote.title = drawing.full_text || drawing.text;
      return quote;
    }
    const values = make("dl", "values");
    for (const [name, value] of drawing.values) {
      const row = make("div");
      row.append(make("dt", "", name), make("dd", "", value));
      values.append(row);
    }
    return values;
  }

  function sampleCard([place, effect], side) {
    const sample = samples[place];
    const card = make("li", sample.suspect ? "card suspect" : "card");
    card.dataset.sample = sample.id;
    const sign = side === "raised" ? "+" : "";
    card.append(picture(sample.drawing, sample.id), make("p", "label", sample.label));
    card.append(make("p", `effect ${side}`, sign + effect));
    if (sample.suspect) card.append(make("p", "verdict", "suspect label"));
    card.append(make("p", "id", `id ${sample.id}`));
    return card;
  }

  function outputBars(outputs, query) {
    const list = make("dl", "bars");
    for (const [name, value, share] of outputs) {
      const row = make("div", name === query.predicted ? "best" : "");
      const bar = make("span", "bar");
      bar.style.width = `${100 * share}%`;
      const number = make("dd", "", value);
      number.append(bar);
      row.append(make("dt", "", name), number);
      list.append(row);
    }
    return list;
  }

  function explain(query) {
    const place = document.querySelector(".explained .query");
    place.className = query.drawing.image ? "query" : "query plain";
    const said = make("p", query.wrong ? "said wrong" : "said", `predicted: ${query.predicted}`);
    place.replaceChildren(picture(query.drawing, query.id), make("p", "label", `given: ${query.label}`));
    place.append(said, make("p", "id", `validation id ${query.id}`), outputBars(query.outputs, query));
    for (const side of ["raised", "lowered"]) {
      const cards = query[side].map((pair) => sampleCard(pair, side));
      const none = make("li", "note", "none");
      document.querySelector(`[data-side=${side}]`).replaceChildren(...(cards.length ? cards : [none]));
    }
  }

  const choices = document.querySelector(".choices");
  queries.forEach((query, k) => {
    const label = make("label", query.wrong ? "wrong" : "");
    const radio = make("input");
    radio.type = "radio";
    radio.name = "query";
    radio.value = k;
    radio.checked = k === 0;
    const says = query.predicted === query.label ? query.label : `${query.label} → ${query.predicted}`;
    label.title = `id ${query.id}: ${says}`;
    radio.setAttribute("aria-label", label.title);
    const tile = make("span", "tile");
    tile.append(picture(query.drawing, query.id, true), make("span", "says", says));
    label.append(radio, tile);
    choices.append(label);
  });
  choices.addEventListener("change", (event) => explain(queries[Number(event.target.value)]));
  explain(queries[0]);
})();
