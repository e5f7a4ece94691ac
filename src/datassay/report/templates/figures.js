"use strict";
(() => {
  // Bars: the page's security policy takes no style attributes, but what scripts set.
  for (const bar of document.querySelectorAll("[data-share]")) {
    bar.style.width = `${100 * bar.dataset.share}%`;
  }
  // Figures: plotly fills each placeholder from the JSON beside it.
  const narrow = window.matchMedia("(max-width: 760px)").matches;
  const waiting = [...document.querySelectorAll("[data-figure]")].map((place) => {
    const spec = JSON.parse(document.getElementById("figure-" + place.dataset.figure).textContent);
    const named = spec.data.filter((trace) => trace.name).length;
    if (narrow && spec.layout.showlegend !== false) {
      spec.layout.height += 14 * named; // the legend wraps below the plot and must not eat it
    }
    place.style.minHeight = spec.layout.height + "px"; // nothing moves when it is drawn
    return [place, spec];
  });
  // Plotly is text until it is needed: to compile and run it takes longer than all the rest. The
  // page's security policy knows its digest.
  function plot(place, spec) {
    if (!window.Plotly) {
      const code = document.createElement("script");
      code.textContent = document.getElementById("plotly").textContent;
      document.head.append(code);
    }
    Plotly.newPlot(place, spec.data, spec.layout, { responsive: true, displayModeBar: false });
  }
  // Who reviews with a server waits for no figure: each is drawn where scrolling brings it near.
  const review = document.querySelector("#reviewing[data-mode=server]");
  if (review) {
    const specs = new Map(waiting);
    const near = new IntersectionObserver((seen) => {
      for (const { target } of seen.filter((one) => one.isIntersecting)) {
        near.unobserve(target);
        plot(target, specs.get(target));
      }
    }, { rootMargin: "300px" });
    const watch = () => [...specs.keys()].forEach((place) => near.observe(place));
    const scrolled = () => window.addEventListener("scroll", watch, { once: true });
    review.addEventListener("ready", () => requestAnimationFrame(() => setTimeout(scrolled)));
    return;
  }
  // One at a time, what is on the screen first: a page of a hundred figures can be read at once.
  const distance = ([place]) => {
    const { top, bottom } = place.getBoundingClientRect();
    return Math.max(top - window.innerHeight, -bottom, 0);
  };
  function draw() {
    if (!waiting.length) return;
    const distances = waiting.map(distance);
    plot(...waiting.splice(distances.indexOf(Math.min(...distances)), 1)[0]);
    setTimeout(draw);
  }
  requestAnimationFrame(() => setTimeout(draw)); // the text first
})();
