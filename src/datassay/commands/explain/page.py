"""The page of an explanation and its files; its text stands in `report/text/`."""

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from datassay.collect.curvature.output_loss import predicted_class
from datassay.commands.explain.job import ExplainFindings
from datassay.commands.frame import type_command
from datassay.optional import text_if
from datassay.report.advice import N_CHECK_FIRST
from datassay.report.compose import compose
from datassay.report.drawing import draw, sample_texts
from datassay.report.page import Card, Gallery, Page, Row, Table, View
from datassay.report.predictions import effect_words, picker
from datassay.report.tables import column, effect_table, standard_json
from datassay.report.wording import label_text, number, shortened

N_ROWS, N_CARDS, N_FIRST = 20, 60, 6
INTERNALS = ("Data SHA-256", "Seed")
HARMS = {"loss": "raise the losses", "margin": "lower the margins"}
FIRST = View("labels", "largest self-influence", sort="own", descending=True)
FILES = {
    "effects.parquet": "the samples that raised and lowered each query's measure most",
    "samples.parquet": "every sample's self-influence and total effect",
    "summary.json": "the figures above",
}


def page(findings: ExplainFindings) -> Page:
    """Return the page of `datassay explain`."""
    f = findings
    influence = findings.self_influence
    cards = gallery(findings)
    harmful_rows = harmful(f)
    n_rows = min(N_ROWS, len(influence))
    is_ranked = bool(np.isfinite(influence).all())
    ids = {"harm": tuple(str(i) for i in f.ids[harmful_rows[:N_CHECK_FIRST]])}
    leading = f.first[:N_CHECK_FIRST]
    ids["labels"] = tuple(str(i) for i in f.ids[leading])
    n_contradicted = None  # of the leading samples; of an index some may not be in DATA
    if f.contradicted is not None and leading.max() < len(f.samples):
        n_contradicted = int(f.contradicted[leading].sum())
    numbers = {
        "f": f,
        "typed": partial(type_command, f.facts),
        "is_ranked": is_ranked,
        "first": ids["labels"],
        "n_contradicted": n_contradicted,
        "harm": ids["harm"],
        "n_harm": len(harmful_rows),
        "harms": HARMS.get(f.attribution.measure, ""),
        "n_rows": n_rows,
        "effect_on": effect_words(f.predictions)[0],
    }
    blocks = {
        "why": picker(f.predictions, cards.kind),
        "table": lambda: _tabulate_samples(f, n_rows),
        "gallery": cards,
    }
    page = compose(
        "explain", blocks, numbers, ids=ids, facts=f.facts,
        warnings=f.samples.warnings + f.warnings, files=FILES, columns=f.samples.columns,
        internals=INTERNALS,
    )  # fmt: skip
    return replace(page, samples=first_samples(f) if is_ranked else None)


def first_samples(findings: ExplainFindings) -> Gallery | None:
    """Draw the first six samples by self-influence; None where they cannot be drawn."""
    top = findings.first[:N_FIRST]
    top = top[top < len(findings.samples)]
    names = findings.samples.class_names
    median = float(np.median(findings.self_influence)) or float("nan")
    cards = []
    for i, drawing in zip(top.tolist(), draw(findings.samples, top), strict=True):
        label = label_text(names, findings.samples.y[i])
        predicted = predicted_text(findings, i)
        ending = text_if(predicted not in {"", label}, f", predicted {shortened(predicted, 40)}")
        times = number(float(findings.self_influence[i]) / median)
        text = f"labelled {shortened(label, 40)}{ending}, self-influence {times} × the median"
        cards += [Card(str(findings.ids[i]), text, drawing)]
    return Gallery(tuple(cards)) if cards else None


def _tabulate_samples(findings: ExplainFindings, n_rows: int) -> Table:
    """Return a table of the `n_rows` samples of largest self-influence."""
    samples = findings.samples
    effect = findings.self_influence
    total = findings.attribution.total
    median = float(np.median(effect))
    rows = []
    for i in findings.first[:n_rows].tolist():
        label = "not in DATA"
        prediction = ""
        if i < len(samples):
            label = label_text(samples.class_names, samples.y[i])
            prediction = predicted_text(findings, i)
        cells = (
            label,
            prediction,
            number(float(effect[i])),
            number(float(effect[i]) / median) if median > 0 else "–",
            number(float(total[i])).replace("-", "−"),
        )
        rows.append(Row(str(findings.ids[i]), cells))
    columns = ("id", "given", "predicted", "self-influence", "times the median", "total effect")
    return Table("Largest self-influence", columns, tuple(rows), in_terminal=True)


def gallery(findings: ExplainFindings) -> Gallery:
    """Return cards of sixty samples of largest self-influence, and sixty of most harm."""
    f = findings
    n = len(findings.samples)  # of an index: those that can be drawn
    strongest, most_harmful = (rows[rows < n][:N_CARDS].tolist() for rows in (f.first, harmful(f)))
    views = {i: ["labels"] for i in strongest}
    view_list = [FIRST]
    sorts = [("own", "self-influence"), ("id", "id")]
    if f.harm is not None:
        word = HARMS[f.attribution.measure]
        view_list.append(View("harm", f"{word} most", sort="harm", descending=True))
        sorts.insert(1, ("harm", "harm to all queries"))
        for i in most_harmful:
            views.setdefault(i, []).append("harm")
    cards = []
    for i, drawing in zip(views, draw(f.samples, np.array([*views], int)), strict=True):
        influence = float(f.self_influence[i])
        total = float(f.attribution.total[i])
        texts = sample_texts(f.samples, i)
        predicted = predicted_text(f, i)
        keys = {"own": float(np.nan_to_num(influence))}
        if f.harm is not None:
            keys["harm"] = float(f.harm[i])
        figures = (
            (f"self {number(influence)}", "self-influence"),
            (f"total {number(total).replace('-', '−')}", "effect on all queries together"),
        )
        suggested = text_if(predicted != texts["label"], predicted)
        cards.append(Card(**texts, drawing=drawing, suggested=suggested, figures=figures,
                          views=tuple(views[i]), keys=keys))  # fmt: skip
    return Gallery(
        cards=tuple(cards), views=tuple(view_list), sorts=tuple(sorts), descending=True,
        class_names=f.samples.class_names, advice_view="labels",
    )  # fmt: skip


def harmful(findings: ExplainFindings) -> np.ndarray:
    """Return positions of the samples that lower margins or raise losses, worst first, [s]."""
    harm = findings.harm
    if harm is None:
        return np.empty(0, int)
    order = np.argsort(-harm, kind="stable")
    return order[harm[order] > 0]


def predicted_text(findings: ExplainFindings, i: int) -> str:
    """Return a training sample's prediction in words; "" if the run made none."""
    if findings.fitted is None:
        return ""
    names = findings.samples.class_names
    row = findings.fitted[i : i + 1]
    return label_text(names, predicted_class(row)[0] if names else row[0])


def files(findings: ExplainFindings, page: Page) -> dict[str, pa.Table | str]:
    """Return the files written with the page, by name."""
    f = findings
    attribution = findings.attribution
    counts = {
        "train": len(f.ids),
        "queries": len(f.queries),
        "classes": f.samples.n_classes,
        "predicted_wrongly": f.n_wrong,
    }
    summary = {
        **page.head,
        "counts": counts,
        "queries": f.kind,
        "loss": f.loss,
        "measure": attribution.measure,
        "method": attribution.method,
        "median_self_influence": float(np.median(f.self_influence)),
        "largest_self_influence": [str(i) for i in f.ids[f.first[:20]]],
    }
    samples = {
        "id": column(f.ids),
        "self_influence": pa.array(f.self_influence, from_pandas=True),  # null: not known
        "total": pa.array(attribution.total),
    }
    return {
        "effects.parquet": effect_table(attribution, f.queries),
        "samples.parquet": pa.table(samples),
        "summary.json": standard_json(summary),
    }
