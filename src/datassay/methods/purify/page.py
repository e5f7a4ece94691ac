"""The page and files of a purification; its text stands in `page.md.j2`."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from datassay.act.review.decisions import REMOVE, Decision, Decisions
from datassay.commands.frame import compose_page, sample_gallery, sample_table, table
from datassay.commands.run.typed import Typed
from datassay.data.back.origin import Origin
from datassay.methods.purify.job import (
    OURS,
    Foreign,
    PurifyFindings,
    before_and_after,
    changes_by_order,
    foreign,
    score_change,
)
from datassay.methods.purify.loop import Purification
from datassay.methods.purify.stopping import SMOOTHED
from datassay.optional import text_if
from datassay.report.advice import N_CHECK_FIRST
from datassay.report.drawing import MAX_CARDS
from datassay.report.page import Gallery, Page, Table, View
from datassay.report.plots import change_chart, chart, level, line, marks
from datassay.report.style import BLUE, GREY, SKY, VERMILION
from datassay.report.tables import column, labels, standard_json
from datassay.report.wording import label_text, number, share
from datassay.stats import interval

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TEMPLATE = Path(__file__).with_name("page.md.j2")
REMOVALS = "removals.parquet"
FILES = {
    "purified.parquet": "every sample's verdict",
    "keep.parquet": "the ids to keep",
    REMOVALS: "what goes, for datassay apply",
    "trace.parquet": "the curves",
    "summary.json": "the figures above",
}
# A class that loses this many times the share that the whole set loses is worth a look.
UNEVEN = 2.0
X_TITLE = "samples removed"
Line = tuple[Purification, np.ndarray, str, str]  # values at each point, name, colour


def page(findings: PurifyFindings) -> Page:
    """Return the page of `datassay purify`."""
    samples = findings.samples
    ours = findings.purification
    truth = foreign(findings)
    start, stop = before_and_after(findings)[:2]
    n_removed = ours.trace.removed  # [points]
    numbers: dict[str, Any] = {
        "truth": truth,
        "start": start,
        "stop": stop,
        "crossed": ours.cross_fit and interval(ours.cross_fit.gain, ours.cross_fit.error),
        "change": score_change(findings),
        "changes": changes_by_order(findings),
        "written": Typed(findings).apply(file=REMOVALS),
        "hits": 0,
        "n_foreign": 0,
        "base_rate": math.nan,
        "first_surprise": float(np.nanmean(ours.trace.surprise[1:4]))
        if len(n_removed) > 1
        else 0.0,
        "worst": None,
        "batch": int(n_removed[1]) if len(n_removed) > 1 else max(1, len(samples) // 100),
        # The threshold is log 2K of linear models, log 4K of networks (`held_out_threshold`).
        "times": 2 if ours.threshold < math.log(3 * max(1, samples.n_classes)) else 4,
    }
    if truth is not None:
        numbers["hits"] = int(truth.mask[ours.removed].sum())
        numbers["n_foreign"] = int(truth.mask.sum())
        numbers["base_rate"] = float(truth.mask.mean())
    lines = [(p, p.trace.variance, name, colour) for p, name, colour in _list_rankings(findings)]
    values = np.concatenate([line[1] for line in lines])
    variance = chart(X_TITLE, "variance of influence V (log scale)", log_y=values)
    _draw_curves(variance, findings, lines, "V = %{y:.3g}")
    lines = [(p, p.trace.validation, name, colour) for p, name, colour in _list_rankings(findings)]
    if findings.majority:
        name = f"{lines[0][2]}, {findings.majority} alone"
        lines.append((ours, ours.trace.test, name, SKY))
    score = chart(X_TITLE, f"validation {findings.metric}")
    _draw_curves(score, findings, lines, "%{y:.3f}")
    blocks: dict[str, Any] = {
        "gain": lambda: change_chart(
            f"change of {findings.metric}, points", numbers["changes"], 100
        ),
        "before": _tabulate_stops(findings),
        "variance": variance,
        "score": score,
        "surprise": _plot_surprise(findings),
        "gallery": gallery(findings),
        "classes": None,
    }
    if samples.is_classification:
        blocks["classes"], numbers["worst"] = _tabulate_classes(findings)
    ids = tuple(str(i) for i in ours.ids[ours.removed[:N_CHECK_FIRST]])
    return compose_page(TEMPLATE, findings, blocks, numbers, FILES, ids={"foreign samples": ids})


def _tabulate_stops(findings: PurifyFindings) -> Table:
    """Return a table of figures for all samples, those kept, and those that the baseline keeps."""
    stops = before_and_after(findings)
    rows = [
        (name, *("–" if math.isnan(stop[key]) else to_text(stop[key]) for stop in stops))
        for key, name, to_text in (
            ("removed", "samples removed", "{:,}".format),
            ("variance", "V", number),
            ("loss", "mean training loss", number),
            ("validation", f"validation {findings.metric}", "{:.3f}".format),
            ("majority", f"the same, {findings.majority} alone", "{:.3f}".format),
            ("precision", "precision of removal", "{:.3f}".format),
            ("recall", "recall of removal", "{:.3f}".format),
        )
        if any(math.isfinite(stop[key]) for stop in stops)
    ]
    ours = OURS.get(findings.purification.order, "by influence")
    columns = ("", "all samples", ours, "by loss, same rule")[: len(stops) + 1]
    return table("Before and after", columns, rows, in_terminal=True)


def _tabulate_classes(findings: PurifyFindings) -> tuple[Table, dict[str, object] | None]:
    """Return a table of samples removed per class, and facts on the class that loses most."""
    samples = findings.samples
    removed = findings.purification.removed
    names, n = samples.class_names, samples.n_classes
    before = np.bincount(samples.y, minlength=n)
    lost = np.bincount(samples.y[removed], minlength=n)
    shares = lost / np.maximum(before, 1)
    rows = [
        (names[c], f"{before[c]:,}", f"{lost[c]:,}", f"{before[c] - lost[c]:,}", share(shares[c]))
        for c in np.flatnonzero(before)
    ]
    columns = ("class", "before", "removed", "after", "share removed")
    classes = table("Classes before and after", columns, rows, wraps=False)
    c = int(shares.argmax())
    if shares[c] < UNEVEN * len(removed) / len(samples) or lost[c] < N_CHECK_FIRST:
        return classes, None
    return classes, {"name": names[c], "lost": lost[c], "before": before[c], "share": shares[c]}


def gallery(findings: PurifyFindings) -> Gallery:
    """Return the first 400 removed samples at most; suspects where none was removed."""
    ours = findings.purification
    if not len(ours.removed):
        return _show_suspects(findings)
    n = len(ours.removed)
    truth = foreign(findings)
    views = (View("all", "all removed", sort="rank"),)
    if truth is not None:
        views += (View("right", truth.name), View("wrong", "removed in error"))
    if n <= MAX_CARDS:
        drawn = "All of them"
    else:
        drawn = f"The first {MAX_CARDS} of {n:,}"
    chance = ""
    sorts = [("rank", "order of removal"), ("id", "id")]
    if findings.samples.is_classification:
        chance = ", and p the chance that it gives the label as it stands"
        sorts.insert(1, ("chance", "chance of its label"))
    removed = ours.removed[:MAX_CARDS]
    steps = np.searchsorted(ours.trace.removed, np.arange(len(removed)), side="right")
    card_fields = (
        _describe_card(findings, truth, *row)
        for row in zip(range(1, n + 1), removed, steps, strict=False)
    )
    return sample_gallery(
        findings.samples,
        removed,
        card_fields,
        views=views,
        sorts=tuple(sorts),
        note=f"{drawn}, in the order of removal. The arrow gives the label that the model fitted "
        f"to the kept samples prefers{chance}.",
        advice_view="all",
    )


def _show_suspects(findings: PurifyFindings) -> Gallery:
    """Return the first 400 samples at most that contradict the others, none of them removed."""
    crossed = findings.purification.cross_fit
    if crossed is None:
        return Gallery((), note="No sample was removed.")
    suspects = np.flatnonzero(crossed.is_suspect)
    order = suspects[np.argsort(-crossed.surprise.numpy()[suspects], kind="stable")][:MAX_CARDS]
    fields = (
        {
            "suggested": _suggest_label(findings, i),
            "figures": ((f"no. {rank}", "order of surprise"),),
            "keys": {"rank": rank},
        }
        for rank, i in enumerate(order, 1)
    )
    return sample_gallery(
        findings.samples, order, fields, sorts=(("rank", "order of surprise"), ("id", "id")),
        note="The arrow gives the label that a fit without the sample prefers.",
    )  # fmt: skip


def _suggest_label(findings: PurifyFindings, i: int) -> str:
    """Return the label predicted for sample i; "" where it is the given one."""
    names = findings.samples.class_names
    suggested = label_text(names, findings.predicted[i])
    return text_if(suggested != label_text(names, findings.samples.y[i]), suggested)


def _describe_card(
    findings: PurifyFindings, truth: Foreign | None, rank: int, i: int, step: int
) -> dict[str, object]:
    """Return the card's fields for sample i, removed as number `rank`, in this step."""
    names = findings.samples.class_names
    view = ()
    if truth is not None:
        view = ("right" if truth.mask[i] else "wrong",)
    figures = ((f"no. {rank}, step {step}", "order of removal"),)
    keys: dict[str, float] = {"rank": rank}
    if names:
        keys["chance"] = chance = float(findings.chance[i])
        text = "< 0.001"
        if chance >= 1e-3:
            text = f"= {chance:.3f}"
        figures += ((f"p {text}", "chance of the given label"),)
    return {
        "suggested": _suggest_label(findings, i),
        "figures": figures,
        "verdict": text_if("wrong" in view, "removed in error"),
        "views": ("all", *view),
        "keys": keys,
    }


def _list_rankings(findings: PurifyFindings) -> list[tuple[Purification, str, str]]:
    """Return (purification, name, colour) of ours and, if measured, of the baseline."""
    ours = findings.purification
    baseline = findings.baseline
    curves = [(ours, OURS.get(ours.order, "by influence"), BLUE)]
    if baseline is None:
        return curves
    return [*curves, (baseline, "by loss, same rule", VERMILION)]


def _draw_curves(
    figure: "Figure", findings: PurifyFindings, lines: list[Line], y_hover: str
) -> None:
    """Draw each line in full up to its stop, and dotted over what was only tried beyond it."""
    for purification, y, name, colour in lines:
        x = purification.trace.removed
        stop = purification.steps
        mode = "lines" if stop else "lines+markers"
        up_to = slice(stop + 1)
        beyond = slice(stop, None)
        hover = f"%{{x}} removed: {y_hover}"
        line(figure, x[up_to], y[up_to], name, colour, hover, width=3, mode=mode, legendgroup=name)
        if len(x) > stop + 1:
            hover = f"%{{x}} removed, beyond the stop: {y_hover}"
            line(
                figure, x[beyond], y[beyond], name, colour, hover, dash="dot", legendgroup=name,
                showlegend=False,
            )  # fmt: skip
    _mark_stop(figure, findings)


def _plot_surprise(findings: PurifyFindings) -> "Figure":
    """Return a chart of each removed batch's surprise under the model without it."""
    ours = findings.purification
    x = ours.trace.removed[1:]
    y = ours.trace.surprise[1:]
    hover = "%{y:.2f} nats<extra></extra>"
    figure = chart(X_TITLE, "surprise of the batch, nats")
    marks(figure, x, y, "one batch", GREY, f"batch up to %{{x}} removed: {hover}")
    if len(y) >= SMOOTHED:
        mean = np.convolve(y, np.ones(SMOOTHED) / SMOOTHED, mode="valid")
        name = f"mean of the last {SMOOTHED}"
        hover = f"mean up to %{{x}} removed: {hover}"
        line(figure, x[SMOOTHED - 1 :], mean, name, BLUE, hover, width=3)
    if math.isfinite(ours.threshold):
        _add_level(figure, ours.threshold, f"threshold {ours.threshold:.2f}", VERMILION, "dash")
    if findings.samples.is_classification:
        guess = math.log(findings.samples.n_classes)
        _add_level(figure, guess, f"blind guess {guess:.2f}", GREY, "dot", side="bottom left")
    _mark_stop(figure, findings)
    figure.update_yaxes(rangemode="tozero")
    return figure


def _mark_stop(figure: "Figure", findings: PurifyFindings) -> None:
    """Draw a vertical line at the stop, its text on the side that has more room."""
    n_removed = findings.purification.trace.removed
    stop = int(n_removed[findings.purification.steps])
    side = "right"
    if stop < max(1, int(n_removed[-1])) / 2:
        side = "left"
    level(figure, x=stop, text=f"stop: {stop:,}", position="top", xanchor=side)


def _add_level(
    figure: "Figure", y: float, text: str, colour: str, dash: str, *, side: str = "top left"
) -> None:
    level(figure, y=y, text=text, colour=colour, dash=dash, position=side, font_size=11.5)


def files(findings: PurifyFindings, page: Page) -> dict[str, pa.Table | str]:
    """Return the files written with the page: file name → table or text."""
    ours = findings.purification
    return {
        "purified.parquet": purified_table(findings),
        "keep.parquet": pa.table({"position": ours.keep, "id": column(ours.ids[ours.keep])}),
        REMOVALS: _decide_removals(findings).to_table(),
        "trace.parquet": trace_table(findings),
        "summary.json": _summarize(findings, page),
    }


def _decide_removals(findings: PurifyFindings) -> Decisions:
    """Return the decision to remove each removed sample."""
    samples = findings.samples
    origin = findings.origin or Origin({}, "", 0.0)
    now = datetime.now(UTC)
    ids = samples.ids[findings.purification.removed].tolist()
    rows = tuple(Decision(sample_id, REMOVE, "", "", now) for sample_id in ids)
    return Decisions(rows, origin.digest, samples.name, samples.class_names, origin.inputs)


def purified_table(findings: PurifyFindings) -> pa.Table:
    """Return every sample's verdict: one row per sample; step 0 is kept."""
    verdicts = findings.purification.to_table()
    suggested = labels(findings.samples, findings.predicted)
    columns = {name: verdicts[name] for name in ("removed", "step")}
    return sample_table(findings.samples, columns, {"suggested_label": suggested})


def trace_table(findings: PurifyFindings) -> pa.Table:
    """Return a row per point: ranking, step, is_kept (up to the stop), then the trace."""
    tables = []
    for purification, _, _ in _list_rankings(findings):
        trace = purification.trace.to_table()
        steps = np.arange(trace.num_rows)
        columns = {"ranking": pa.array([purification.order] * len(steps)), "step": pa.array(steps)}
        columns["is_kept"] = pa.array(steps <= purification.steps)
        tables.append(
            pa.table({**columns, **dict(zip(trace.column_names, trace.columns, strict=True))})
        )
    return pa.concat_tables(tables)


def _summarize(findings: PurifyFindings, page: Page) -> str:
    """Return the text of summary.json."""
    ours = findings.purification
    truth = foreign(findings)
    return standard_json({
        **page.head,
        "counts": {
            "train": len(findings.samples),
            "validation": len(findings.validation),
            "removed": len(ours.removed),
            "kept": len(ours.keep),
            "steps": ours.steps,
            "known_foreign": None if truth is None else int(truth.mask.sum()),
        },
        "order": ours.order,
        "rule": ours.rule,
        "threshold": ours.threshold,
        "metric": findings.metric,
        "majority_source": findings.majority or None,
        **dict(zip(("start", "stop", "baseline"), before_and_after(findings), strict=False)),
    })
