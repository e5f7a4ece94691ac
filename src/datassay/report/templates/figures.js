"use strict";
(() => {
  // Bars: the page's security policy takes no style attributes, but what scripts set.
  for (const bar of document.querySelectorAll("[data-share]")) {
    bar.style.width = `${100 * bar.dataset.share}%`;
  }
  // Folds: what a link leads to is opened, and all of them before printing.
  const folds = [...document.querySelectorAll("main details")];
  function unfold() {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!target) return;
    let closed = false;
    for (const fold of folds.filter((one) => one.contains(target) && !one.open)) {
      fold.open = closed = true;
    }
    if (closed) target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  document.addEventListener("click", (event) => {
    if (event.target.closest("a[href^='#']")) setTimeout(unfold); // the same address once more
  });
  unfold();
  // Figures: plotly fills each placeholder from the JSON beside it.
  const narrow = window.matchMedia("(max-width: 760px)").matches;
  const waiting = [...document.querySelectorAll("[data-figure]")].map((place) => {
    const spec = JSON.parse(document.getElementById("figure-" + place.dataset.figure).textContent);
    const named = spec.data.filter((trace) => trace.name).length;
    if (narrow && spec.layout.showlegend !== false) {
      spec.layout.height += 14 * named; // the legend wraps below the plot and must not eat it
    }
    for (const axis of narrow ? ["xaxis", "yaxis"] : []) { // else a long title is cut
      if (spec.layout[axis]?.title) spec.layout[axis].title.font = { size: 12 };
    }
    place.style.minHeight = spec.layout.height + "px"; // nothing moves when it is drawn
    return [place, spec];
  });
  // Plotly is text until it is needed: to compile and run it takes longer than all the rest. The
  // page's security policy knows its digest.
  let code = "", coming;
  const unpacked = () => coming ||= unpack("plotly").then((text) => { code = text; });
  function plot(place, spec) {
    if (!window.Plotly) document.head.append(Object.assign(document.createElement("script"), { textContent: code }));
    Plotly.newPlot(place, spec.data, spec.layout, { responsive: true, displayModeBar: false });
    // Plotly leaves the legend where the margins of the width before had put it.
    place.on("plotly_relayout", (change) => change.autosize && Plotly.redraw(place));
  }
  // Who reviews with a server waits for no figure: each is drawn where scrolling brings it near.
  const review = document.querySelector("#reviewing[data-mode=server]");
  if (review) {
    const specs = new Map(waiting);
    const near = new IntersectionObserver((seen) => {
      for (const { target } of seen.filter((one) => one.isIntersecting)) {
        near.unobserve(target);
        unpacked().then(() => plot(target, specs.get(target)));
      }
    }, { rootMargin: "300px" });
    const watch = () => [...specs.keys()].forEach((place) => near.observe(place));
    const scrolled = () => window.addEventListener("scroll", watch, { once: true });
    review.addEventListener("ready", () => requestAnimationFrame(() => setTimeout(scrolled)));
    return;
  }
  // What is folded is drawn when it is opened: only then its width is known.
  for (const fold of folds) {
    fold.addEventListener("toggle", () => fold.open && waiting.length && unpacked().then(draw));
  }
  window.addEventListener("beforeprint", () => {
    for (const fold of folds) fold.open = true;
    if (code) for (const one of waiting.splice(0)) plot(...one);
  });
  const isShown = ([place]) => place.checkVisibility();
  // One at a time, what is on the screen first: a page of a hundred figures can be read at once.
  const distance = ([place]) => {
    const { top, bottom } = place.getBoundingClientRect();
    return Math.max(top - window.innerHeight, -bottom, 0);
  };
  function draw() {
    const shown = waiting.filter(isShown);
    if (!shown.length) return;
    const distances = shown.map(distance);
    const next = shown[distances.indexOf(Math.min(...distances))];
    waiting.splice(waiting.indexOf(next), 1);
    plot(...next);
    setTimeout(draw);
  }
  // The text first; what is folded can then be printed.
  if (waiting.length) requestAnimationFrame(() => setTimeout(() => unpacked().then(draw)));
})();
