"use strict";
(() => {
  // Sortable tables: a heading sorts, first upwards; a text chooses the rows that hold it.
  const order = new Intl.Collator(undefined, { numeric: true }).compare;
  const number = (text) => {
    const plain = text.replace(/[,%\s]|over|under/g, "").replace("−", "-");
    return plain === "" ? NaN : Number(plain);
  };
  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? order(a, b) : x - y;
  };
  for (const form of document.querySelectorAll(".sorts")) {
    const body = form.nextElementSibling.querySelector("tbody");
    const heads = [...form.nextElementSibling.querySelectorAll("thead th")];
    const rows = [...body.rows];
    const text = (row, column) => row.cells[column].textContent.trim();
    heads.forEach((head, column) => {
      head.firstElementChild.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const last = (row) => (text(row, column) === "" ? 1 : 0); // what is missing, either way
        rows.sort((a, b) => last(a) - last(b) ||
          (up ? 1 : -1) * compare(text(a, column), text(b, column)));
        body.append(...rows);
      });
    });
    const choose = () => {
      const held = form.elements.holds.value.toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(held);
      const shown = rows.filter((row) => !row.hidden).length;
      form.elements.shown.value = `showing ${shown} of ${rows.length}`;
    };
    form.addEventListener("input", choose);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.reset(); // browsers keep controls over a reload
    choose();
  }
})();
