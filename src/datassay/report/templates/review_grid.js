"use strict";
// A grid of any number of samples: only what is on the screen, and a line around it, exists.
const reviewGrid = (place, { rows, current, tile, pictures, chosen }) => {
  const { make } = elements;
  const GAP = 8, BEYOND = 2, BATCH = 24, MOST_KEPT = 1500;
  const space = make("div", "space");
  const drawn = new Map(); // row → its element
  const kept = new Map(); // row → its picture
  let asked = new Set(), queued = false;
  space.role = "presentation";
  place.append(space);

  const size = () => {
    const style = getComputedStyle(place);
    const [width, height] = ["--tile-width", "--tile-height"]
      .map((name) => parseFloat(style.getPropertyValue(name)));
    const across = Math.max(1, Math.floor((place.clientWidth - GAP) / (width + GAP)));
    return { across, width: (place.clientWidth - GAP) / across - GAP, height };
  };

  function fill(row, element) {
    const picture = kept.get(row);
    const old = element.querySelector(".drawn");
    if (picture && !old.firstChild) old.append(reviewCards.picture(picture, ""));
  }

  async function fetchMissing(wanted) {
    const missing = wanted.filter((row) => !kept.has(row) && !asked.has(row));
    for (let start = 0; start < missing.length; start += BATCH) {
      const some = missing.slice(start, start + BATCH);
      some.forEach((row) => asked.add(row));
      try {
        const found = await pictures(some);
        some.forEach((row, k) => kept.set(row, found[k]));
      } catch { /* the store says it; what scrolls into view again is asked for again */ }
      some.forEach((row) => asked.delete(row));
      for (const row of some) if (drawn.has(row)) fill(row, drawn.get(row));
    }
    for (const row of kept.keys()) {
      if (kept.size <= MOST_KEPT) break;
      if (!drawn.has(row)) kept.delete(row);
    }
  }

  function draw() {
    queued = false;
    if (place.hidden) return;
    const { across, width, height } = size();
    const all = rows(), line = height + GAP;
    const lines = Math.ceil(all.length / across);
    space.style.height = `${lines * line + GAP}px`;
    const first = Math.max(0, Math.floor(place.scrollTop / line) - BEYOND) * across;
    const last = (Math.ceil((place.scrollTop + place.clientHeight) / line) + BEYOND) * across;
    const wanted = new Map(all.slice(first, last).map((row, k) => [row, first + k]));
    for (const [row, element] of drawn) {
      if (!wanted.has(row)) { element.remove(); drawn.delete(row); }
    }
    for (const [row, at] of wanted) {
      let element = drawn.get(row);
      if (!element) {
        element = make("div", "tile");
        element.role = "option";
        element.id = `review-tile-${row}`;
        element.append(make("div", "drawn"), make("div", "told"));
        element.addEventListener("click", () => chosen(row));
        drawn.set(row, element);
        space.append(element);
      }
      element.ariaPosInSet = at + 1;
      element.ariaSetSize = all.length;
      element.style.width = `${width}px`;
      element.style.height = `${height}px`;
      element.style.transform =
        `translate(${GAP + (at % across) * (width + GAP)}px, ${GAP + Math.floor(at / across) * line}px)`;
      tile(row, element);
      fill(row, element);
    }
    place.setAttribute("aria-activedescendant", `review-tile-${current()}`);
    fetchMissing([...wanted.keys()]);
  }

  const later = () => {
    if (!queued) requestAnimationFrame(draw);
    queued = true;
  };
  place.addEventListener("scroll", later, { passive: true });
  new ResizeObserver(later).observe(place);

  // Bring a place of the list into view, and draw.
  function show(at) {
    draw(); // at its new height first: nobody can scroll beyond it
    const { across, height } = size();
    const top = Math.floor(at / across) * (height + GAP);
    if (top < place.scrollTop) place.scrollTop = top;
    const bottom = top + height + 2 * GAP;
    if (bottom > place.scrollTop + place.clientHeight) place.scrollTop = bottom - place.clientHeight;
    draw();
  }

  return { draw, show, across: () => size().across };
};
