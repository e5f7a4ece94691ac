"use strict";
(() => {
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
  // One at a time: a page of a hundred figures can be read and scrolled while it fills.
  (function draw() {
    const [place, spec] = waiting.shift() || [];
    if (!place) return;
    Plotly.newPlot(place, spec.data, spec.layout, { responsive: true, displayModeBar: false });
    setTimeout(draw);
  })();
})();
