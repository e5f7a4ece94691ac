"use strict";
(() => {
  // Training texts and their tokens for each token of an answer.
  const data = document.getElementById("told");
  if (!data) return;
  const { context, tokens, texts, picks, baselines } = JSON.parse(data.textContent);
  const { make } = elements;
  const minus = (text) => text.replace("-", "−");
  const nats = (value) => minus(`${value > 0 ? "+" : ""}${Number(value.toPrecision(3))}`);
  // A token that shows nothing (white space, a part of a letter) gets a sign to click.
  const visible = (piece) => piece.trim() || (piece.includes("\n") ? "⏎" : "·");

  function shade(place, strength) {
    const colour = strength > 0 ? "0 114 178" : "230 140 0";
    place.style.backgroundColor = `rgb(${colour} / ${(0.62 * Math.abs(strength)).toFixed(3)})`;
  }

  function words(text, parts, largest) {
    const quote = make("blockquote");
    quote.tabIndex = 0;
    text.pieces.forEach((piece, t) => {
      const token = make("span", "", piece);
      const effect = parts ? parts[t] : 0;
      if (effect) {
        shade(token, effect / largest);
        token.title = `${nats(effect)} nats`;
        if (effect < -0.2 * largest) token.className = "against";
      }
      quote.append(token);
    });
    return quote;
  }

  function textCard(place, pick, parts, largest, score) {
    const text = texts[place];
    const effect = text.effects[pick];
    const card = make("li", "card");
    card.dataset.text = text.id;
    const head = make("p", "head");
    if (score) head.append(make("span", "score", score));
    head.append(make("span", `effect ${effect > 0 ? "raised" : "lowered"}`, `${nats(effect)} nats`));
    card.append(head, words(text, parts, largest));
    card.append(make("p", "id", [`text ${text.id}`, ...text.ranks].join(" · ")));
    return card;
  }

  function show(pick) {
    const chosen = picks[pick];
    const largest = Math.max(...[...chosen.raised, ...chosen.lowered].flatMap(([, parts]) =>
      (parts || []).map(Math.abs)), 1e-30);
    for (const side of ["raised", "lowered"]) {
      const cards = chosen[side].map(([place, parts]) => textCard(place, pick, parts, largest));
      const list = document.querySelector(`[data-side=${side}]`);
      list.replaceChildren(...(cards.length ? cards : [make("li", "note", "none")]));
      for (const quote of list.querySelectorAll("blockquote")) uncover(quote);
    }
    baselines.forEach((named, k) => {
      const cards = named.map(([place, score]) => textCard(place, pick, null, 1, score));
      document.querySelector(`[data-baseline="${k}"]`).replaceChildren(...cards);
    });
    document.querySelector(".asked").textContent = chosen.says;
  }

  // A long text scrolls to its strongest token.
  function uncover(quote) {
    const strength = (token) => Number(token.style.backgroundColor.match(/[\d.]+\)$/)?.[0].slice(0, -1) || 0);
    const strongest = [...quote.children].reduce((a, b) => (strength(b) > strength(a) ? b : a));
    quote.scrollTop = strongest.offsetTop - quote.offsetTop - quote.clientHeight / 2;
  }

  function choice(pick, shown, name) {
    const label = make("label");
    label.title = picks[pick].says;
    label.append(elements.radio("pick", pick, name), make("span", "token", shown));
    return label;
  }

  const form = document.querySelector(".told-answer");
  form.querySelector(".whole").append(choice(0, "the whole answer", "the whole answer"));
  const line = form.querySelector(".words");
  if (context) line.append(make("span", "context", context));
  if (picks.length > 1) {
    tokens.forEach((piece, k) => {
      const shown = visible(piece);
      const space = piece.slice(0, piece.length - piece.trimStart().length);
      line.append(space, choice(k + 1, shown, `token ${k + 1}: ${shown}`));
    });
  } else {
    line.append(make("span", "", tokens.join("")));
  }
  form.addEventListener("change", (event) => show(Number(event.target.value)));
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const sample of document.querySelectorAll(".strengths [data-strength]")) {
    shade(sample, Number(sample.dataset.strength));
  }
  show(0);
})();
