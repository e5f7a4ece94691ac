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
  // One at a time, what is on the screen first: a page of a hundred figures can be read at once.
  const distance = ([place]) => {
    const { top, bottom } = place.getBoundingClientRect();
    return Math.max(top - window.innerHeight, -bottom, 0);
  };
  (function draw() {
    if (!waiting.length) return;
    const distances = waiting.map(distance);
    const [place, spec] = waiting.splice(distances.indexOf(Math.min(...distances)), 1)[0];
    Plotly.newPlot(place, spec.data, spec.layout, { responsive: true, displayModeBar: false });
    setTimeout(draw);
  })();
})();
