"use strict";
(() => {
  // One prediction explained. Users' texts enter as text, never as markup.
  const data = document.getElementById("queries");
  if (!data) return;
  const { queries, samples, kind } = JSON.parse(data.textContent);
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
    const drawing = sample.drawing ? picture(sample.drawing, sample.id) : make("p", "words", "id only");
    card.append(drawing, make("p", "label", sample.label));
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
    const radio = make("input");
    radio.type = "radio";
    radio.name = "query";
    radio.value = k;
    radio.checked = k === 0;
    const same = !query.predicted || query.predicted === query.label;
    const says = same ? query.label : `${query.label} → ${query.predicted}`;
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
