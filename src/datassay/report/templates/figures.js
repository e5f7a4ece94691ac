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
})();
