"use strict";
// How one sample of a review looks.
const reviewCards = (() => {
  const ACROSS = 3; // rows of a group beside this one
  const MOST = 22; // screen pixels a pixel of a small image: more hide what it shows
  const PHOTOGRAPH = 64; // pixels from which on an image is smoothed where it is enlarged
  const { make } = elements;

  function picture(drawing, alt) {
    if (drawing.image) {
      const image = elements.image(drawing.image, alt);
      image.decoding = "sync"; // one picture: the next sample appears at once, whole
      image.addEventListener("load", () => {
        image.style.maxWidth = `${MOST * image.naturalWidth}px`;
        if (image.naturalWidth > PHOTOGRAPH) image.style.imageRendering = "auto";
      });
      return image;
    }
    if (drawing.values) return elements.values(drawing.values);
    return make("blockquote", "", drawing.text || "(empty)");
  }

  function small(sample) {
    const card = make("li", sample.suspect ? "card suspect" : "card");
    card.append(picture(sample.drawing, `sample ${sample.id}`), make("p", "label", sample.label));
    card.append(...notes(sample).map((note) => make("p", "figures", note)));
    return card;
  }

  const notes = (sample) => [
    ...(sample.suspect ? ["suspect label"] : []),
    ...(sample.distance === 0 ? ["the same input"] : []),
    `id ${sample.id}`,
  ];

  const group = ({ heading, samples }) => {
    const part = make("div");
    const cards = make("ul", "cards");
    cards.append(...samples.map(small));
    const none = make("p", "note", "none");
    part.append(make("h3", "", heading), samples.length ? cards : none);
    return part;
  };

  // Rows are compared column by column: a table, this sample first.
  function compared(detail) {
    const groups = detail.groups.map(({ heading, samples }) =>
      ({ heading, samples: samples.slice(0, ACROSS) }));
    const samples = groups.flatMap((one) => one.samples);
    const table = make("table", "compared rows");
    const heads = table.createTHead();
    const above = heads.insertRow();
    above.append(make("td"), make("th", "own", "this row"));
    for (const { heading, samples: some } of groups) {
      const cell = make("th", "", heading);
      cell.colSpan = Math.max(1, some.length);
      cell.scope = "colgroup";
      if (some.length) above.append(cell);
    }
    const ids = heads.insertRow();
    ids.append(make("td"), make("td", "own"));
    for (const one of samples) {
      const cell = make("th", one.suspect ? "suspect" : "", one.label);
      cell.scope = "col";
      for (const note of notes(one)) cell.append(make("small", "", note));
      ids.append(cell);
    }
    const body = table.createTBody();
    detail.drawing.values.forEach(([name, value], k) => {
      const line = body.insertRow();
      const head = make("th", "", name);
      head.scope = "row";
      line.append(head, make("td", "own", value));
      for (const one of samples) {
        const other = one.drawing.values[k][1];
        line.append(make("td", other === value ? "same" : "", other));
      }
    });
    const scroller = make("div", "scroll");
    [scroller.tabIndex, scroller.role] = [0, "region"];
    scroller.ariaLabel = "This row beside those most like it";
    scroller.append(table);
    return scroller;
  }

  const aligned = (detail) => detail.drawing.values && detail.groups.every((one) =>
    one.samples.every((sample) => sample.drawing.values.every(
      ([name], k) => name === (detail.drawing.values[k] || [])[0])));

  const unmarked = (group) =>
    ({ ...group, samples: group.samples.map((sample) => ({ ...sample, suspect: false })) });

  // What stands beside the sample: nothing where the table holds the sample itself.
  function beside(known, isMarked) {
    const detail = isMarked ? known : { ...known, groups: known.groups.map(unmarked) };
    return aligned(detail) ? [compared(detail)] : detail.groups.map(group);
  }

  const subject = (detail, id) =>
    aligned(detail) ? [] : [picture(detail.drawing, `sample ${id}`)];

  const percent = (share) => share > 0.99 ? "over 99 %" : share < 0.01 ? "under 1 %" :
    `${Math.round(100 * share)} %`;
  const chance = (wrong) => wrong === null ? "" : `${percent(wrong)} likely wrong`;

  const words = { keep: "kept", remove: "to be removed", unsure: "unsure" };
  const decided = (one) =>
    !one ? "" : one.decision === "relabel" ? `relabelled ${one.label}` : words[one.decision];

  return { picture, beside, subject, percent, chance, decided };
})();
