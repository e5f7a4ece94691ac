"use strict";
// Elements that scripts make. Users' texts enter as text, never as markup.
const elements = (() => {
  function make(tag, classes, text) {
    const element = document.createElement(tag);
    if (classes) element.className = classes;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function values(pairs) {
    const list = make("dl", "values");
    for (const [name, value] of pairs) {
      const row = make("div");
      const [head, cell] = [make("dt", "", name), make("dd", "", value)];
      [head.title, cell.title] = [name, value];
      row.append(head, cell);
      list.append(row);
    }
    return list;
  }

  function image(source, alt) {
    return Object.assign(make("img"), { src: source, alt });
  }

  function radio(name, value, label) {
    const input = Object.assign(make("input"), { type: "radio", name, value, checked: value === 0 });
    input.setAttribute("aria-label", label);
    return input;
  }

  return { make, values, image, radio };
})();
