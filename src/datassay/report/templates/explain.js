"use strict";
(() => {
  // One prediction explained.
  const data = document.getElementById("queries");
  if (!data) return;
  const { queries, samples, kind, flag } = JSON.parse(data.textContent);
  const { make } = elements;

  function picture(drawing, id, short) {
    if (drawing.image) return elements.image(drawing.image, short ? "" : `sample ${id}`);
    if (short) return make("span", "words", drawing.text || `id ${id}`);
    if (drawing.values) return elements.values(drawing.values);
    const quote = make("blockquote", "", drawing.text);
    quote.title = drawing.full_text || drawing.text;
    return quote;
  }

  function sampleCard([place, effect], side) {
    const sample = samples[place];
    const card = make("li", sample.suspect ? "card suspect" : "card");
    card.dataset.sample = sample.id;
    const sign = side === "raised" ? "+" : "";
    const drawing = sample.drawing ? picture(sample.drawing, sample.id) : make("p", "words", "id only");
    card.append(drawing, make("p", "label", sample.label));
    card.append(make("p", `effect ${side}`, sign + effect));
    if (sample.suspect) card.append(make("p", "verdict", flag));
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
    const predicted = query.predicted && `predicted: ${query.predicted}`;
    const said = make("p", query.wrong ? "said wrong" : "said", predicted);
    place.replaceChildren(picture(query.drawing, query.id), make("p", "label", `given: ${query.label}`));
    place.append(said, make("p", "id", `${kind} id ${query.id}`), outputBars(query.outputs, query));
    for (const side of ["raised", "lowered"]) {
      const cards = query[side].map((pair) => sampleCard(pair, side));
      const none = make("li", "note", "none");
      document.querySelector(`[data-side=${side}]`).replaceChildren(...(cards.length ? cards : [none]));
    }
  }

  const choices = document.querySelector(".choices");
  queries.forEach((query, k) => {
    const label = make("label", query.wrong ? "wrong" : "");
    const same = !query.predicted || query.predicted === query.label;
    const says = same ? query.label : `${query.label} → ${query.predicted}`;
    label.title = `id ${query.id}: ${says}`;
    const tile = make("span", "tile");
    tile.append(picture(query.drawing, query.id, true), make("span", "says", says));
    label.append(elements.radio("query", k, label.title), tile);
    choices.append(label);
  });
  choices.addEventListener("change", (event) => explain(queries[Number(event.target.value)]));
  explain(queries[0]);
})();
