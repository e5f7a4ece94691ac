"""The page and files of a weighting; its text stands in `page.md.j2`."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from datassay.commands.frame import (
    change_cells,
    compose_page,
    named_folder,
    sample_gallery,
    sample_table,
    table,
)
from datassay.data.samples import SampleSet, wrong_labels
from datassay.methods.weigh.doubt import FAR, NeighborTargets
from datassay.methods.weigh.gain import WeightGain
from datassay.methods.weigh.job import WeighFindings
from datassay.optional import map_optional, text_if
from datassay.report.advice import N_CHECK_FIRST
from datassay.report.page import Gallery, Page, Table, View
from datassay.report.plots import change_chart, chart, histogram, level, marks
from datassay.report.style import BLUE, GREY, VERMILION
from datassay.report.tables import column, labels, standard_json
from datassay.report.wording import in_points, label_text, number, share
from datassay.store.model_file import NAME
from datassay.store.outputs import Part

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TEMPLATE = Path(__file__).with_name("page.md.j2")
NO_NETWORK = {"weights.parquet": "every sample's weight", "summary.json": "the figures above"}
FILES = NO_NETWORK | {NAME: "the network trained with the weights: datassay predict"}
N_HEAVIEST = 144
N_LIGHTEST = 48
N_DOUBTFUL = 96
CLASSES_SHOWN = 3
N_BINS = 40
# Doubtful labels are worth a look where they make up this much of the heaviest tenth, or of all
# samples (clean sets measured: up to 1.3 %; ten per cent wrong labels: 8.6 % and more), and are to
# be acted on from twice as much on. With two classes the heaviest, half of whose neighbours have
# each label, are hardly ever doubtful themselves.
NOTABLE_HEAVY, NOTABLE = 0.05, 0.03


def page(findings: WeighFindings) -> Page:
    """Return the page of `datassay weigh`."""
    samples = findings.samples
    gain = findings.gain
    weight = findings.sample_weight
    heavy = findings.heaviest
    order = findings.order
    is_doubtful = findings.near.is_doubtful
    is_wrong = wrong_labels(samples)
    overall = float(is_doubtful.mean())
    among = float(is_doubtful[heavy].mean())
    doubts = {
        "n": int(is_doubtful.sum()),
        "overall": overall,
        "among": among,
        "heavy": int(is_doubtful[heavy].sum()),
        "weight": float(weight[is_doubtful].mean()) if is_doubtful.any() else 0.0,
        "is_notable": overall >= NOTABLE or (among >= NOTABLE_HEAVY and among > overall),
        "is_urgent": among >= 2 * NOTABLE_HEAVY or overall >= 2 * NOTABLE,
    }
    truth = None
    if is_wrong is not None:
        truth = {"n": int(is_wrong.sum()), "heavy": is_wrong[heavy].mean(), "all": is_wrong.mean()}
        truth["weight"] = 0.0
        if is_wrong.any():
            truth["weight"] = float(weight[is_wrong].mean())
    numbers = {
        "uneven": concentration(findings),
        "all_equal": np.ptp(findings.weights.weight) == 0,
        "tenth": len(heavy),
        "k": findings.local.neighbors.index.shape[1],
        "scores": [],
        "n_seeds": 0,
        "n_val": 0,
        "doubts": doubts,
        "known": truth,
        "far": FAR,
        "named": {findings.method},
        "folder": named_folder(findings.facts, "weights"),
    }
    blocks = {
        "weights": _plot_weights(findings),
        "classes": _tabulate_classes(findings) if samples.is_classification else None,
        "gallery": gallery(findings),
    }
    if gain is not None:
        numbers |= {
            "scores": [float(scores.mean()) for scores in gain.score.T],
            "n_seeds": gain.score.shape[0],
            "n_val": gain.each.shape[1],
            "named": {findings.method, *gain.names},
        }
        blocks |= {"table": _tabulate_gains(gain), "gain": _plot_gains(gain)}
    doubtful_ids = tuple(str(i) for i in samples.ids[order[is_doubtful[order]][:N_CHECK_FIRST]])
    ids = {"labels": doubtful_ids if doubts["is_notable"] else ()}
    files = NO_NETWORK
    if findings.fitted is not None:
        files = FILES
    return compose_page(TEMPLATE, findings, blocks, numbers, files, ids=ids)


def concentration(findings: WeighFindings) -> dict[str, float]:
    """Measure how uneven the weights are.

    Returns:
        `heaviest_share` of the weight, on the heaviest tenth of the samples; `effective`
        (Σ w)² / Σ w², samples; `ratio` of the largest weight to the smallest, infinite where some
        are 0; `constant`: samples whose neighbours all share their target.
    """
    weight = findings.weights.weight
    smallest = float(weight.min())
    return {
        "heaviest_share": float(weight[findings.heaviest].sum() / weight.sum()),
        "effective": float(weight.sum() ** 2 / np.square(weight).sum()),
        "ratio": float(weight.max()) / smallest if smallest else float("inf"),
        "constant": int((findings.local.variance == 0).sum()),
    }


def _tabulate_gains(gain: WeightGain) -> Table:
    """Return a table of scores with and without weights, a row per weighting."""
    unit = text_if(in_points(gain.metric), ", points")
    rows = []
    for i, name in enumerate(gain.names):
        cells = change_cells(gain.interval(i), gain.metric)
        rows.append((name, f"{gain.score[:, i].mean():.3f}", *(cells if i else "––")))
    columns = ("weights", gain.metric, "95 % interval", f"change{unit}")
    return table("Scores with and without weights", columns, rows, in_terminal=True)


def _tabulate_classes(findings: WeighFindings) -> Table:
    """Return a table of each class's share of the samples and of the weight."""
    samples = findings.samples
    weight = findings.sample_weight
    is_constant = findings.local.variance == 0
    rows = []
    for c in np.unique(samples.y):
        in_class = samples.y == c
        rows.append((
            samples.class_names[c],
            f"{in_class.sum():,}",
            share(in_class.mean()),
            share(weight[in_class].sum() / weight.sum()),
            number(float(weight[in_class].mean())),
            share(is_constant[in_class].mean()),
            f"{(findings.near.is_doubtful & in_class).sum():,}",
        ))
    columns = (
        "class", "samples", "share of samples", "share of weight", "mean weight", "variance 0",
        "doubtful",
    )  # fmt: skip
    return table("Weight by class", columns, rows)


def gallery(findings: WeighFindings) -> Gallery:
    """Return cards of the 144 heaviest, 48 lightest and 96 doubtful samples."""
    samples = findings.samples
    order = findings.order
    targets = findings.near
    is_doubtful = targets.is_doubtful
    weight = findings.sample_weight
    views = {
        "heaviest": order[: min(N_HEAVIEST, (len(order) + 1) // 2)],
        "lightest": order[::-1][: min(N_LIGHTEST, len(order) // 2)],
        "doubtful": order[is_doubtful[order]][:N_DOUBTFUL],
    }
    rows = order[np.isin(order, np.concatenate(list(views.values())))]
    card_fields = (
        {
            "figures": (
                (f"w {number(float(weight[i]))}", "sample weight, mean 1"),
                (f"neighbours {_describe_neighbors(samples, targets, i)}", ""),
            ),
            "verdict": text_if(is_doubtful[i], "doubtful"),
            "views": tuple(name for name, positions in views.items() if i in positions),
            "keys": {"weight": float(weight[i]), "agreement": float(targets.agreement[i])},
        }
        for i in rows
    )
    agreement_sort = ()
    if samples.is_classification:
        agreement_sort = (("agreement", "neighbours of its label"),)
    return sample_gallery(
        samples,
        rows,
        card_fields,
        views=tuple(
            View(name, name, sort="weight", descending=name != "lightest")
            for name, positions in views.items()
            if name != "doubtful" or len(positions)
        ),
        sorts=(("weight", "weight"), *agreement_sort, ("id", "id")),
        descending=True,
        note=_explain_weights(findings),
        advice_view="doubtful",
    )


def _describe_neighbors(samples: SampleSet, targets: NeighborTargets, i: int) -> str:
    """Return the labels or targets of a sample's neighbours in words."""
    if not samples.is_classification:
        mean = targets.mean[i]
        spread = targets.spread[i]
        if len(mean) > 1:
            return label_text((), mean)
        return f"{number(float(mean[0]))} ± {number(float(spread[0]))}"
    n_of_class = targets.counts[i]
    top = [c for c in np.argsort(-n_of_class, kind="stable")[:CLASSES_SHOWN] if n_of_class[c]]
    n_hidden = int((n_of_class > 0).sum()) - len(top)
    names = ", ".join(f"{samples.class_names[c]} (×{n_of_class[c]})" for c in top)
    return f"{names}{text_if(n_hidden, f', {n_hidden} more')}"


def _explain_weights(findings: WeighFindings) -> str:
    """Return the gallery's note: what weight means, and when a label is doubtful."""
    n = len(findings.samples)
    k = findings.local.neighbors.index.shape[1]
    if findings.samples.is_classification:
        doubt = "the neighbours agree on another label than the sample's own"
    else:
        doubt = f"the target is more than {FAR:g} standard deviations from its neighbours' mean"
    return (
        f"w is the weight (mean 1), with the labels of the {k - 1} nearest other samples. The "
        f"heaviest {share(len(findings.heaviest) / n)} are {len(findings.heaviest):,} samples"
    ) + (f"; doubtful: {doubt}." if findings.near.is_doubtful.any() else ".")


def files(findings: WeighFindings, page: Page) -> dict[str, Part]:
    """Return the files written with the page, by name."""
    network = {}
    if findings.fitted is not None:
        network = {NAME: findings.fitted.save}
    table = weight_table(findings)
    summary = _summarize(findings, page)
    return {"weights.parquet": table, **network, "summary.json": summary}


def weight_table(findings: WeighFindings) -> pa.Table:
    """Return every sample's weight (mean 1), local variance, and its neighbours' targets."""
    samples = findings.samples
    targets = findings.near
    scores = {"sample_weight": findings.sample_weight, "local_variance": findings.local.variance}
    if samples.is_classification:
        columns = {"neighbor_label": labels(samples, targets.counts.argmax(1))}
        columns["neighbor_agreement"] = pa.array(targets.agreement)
    else:
        columns = {"neighbor_mean": column(targets.mean.reshape(samples.y.shape))}
    return sample_table(samples, scores, {**columns, "is_doubtful": pa.array(targets.is_doubtful)})


def _summarize(findings: WeighFindings, page: Page) -> str:
    """Return the text of summary.json."""
    samples = findings.samples
    is_doubtful = findings.near.is_doubtful
    heavy = findings.heaviest
    gain = findings.gain
    search = findings.search
    is_wrong = wrong_labels(findings.samples)
    neighbors = findings.local.neighbors
    tuned = None
    if search is not None:
        tuned = {name: getattr(search, name) for name in ("n_neighbors", "max_ratio", "score")}
        tuned |= {"no_weights": search.uniform, "metric": search.metric}
        tuned["trials"] = search.trials.to_pylist()
    return standard_json({
        **page.head,
        "counts": {
            "train": len(samples),
            "validation": len(findings.validation),
            "heaviest": len(heavy),
            "doubtful": int(is_doubtful.sum()),
            "known_label_errors": map_optional(np.count_nonzero, is_wrong),
        },
        "method": findings.weights.method,
        "sample_weight_mean": 1.0,
        "settings": dict(findings.weights.details),
        "neighbors": {
            "k": neighbors.index.shape[1],
            "space": findings.space,
            "search": neighbors.search,
            "recall": neighbors.recall,
        },
        "concentration": concentration(findings),
        "doubtful_share": {
            "heaviest": float(is_doubtful[heavy].mean()),
            "all": float(is_doubtful.mean()),
        },
        "metric": None if gain is None else gain.metric,
        "seeds": 0 if gain is None else gain.score.shape[0],
        "gain": None if gain is None else gain.to_table().to_pylist(),
        "search": tuned,
    })


def _plot_weights(findings: WeighFindings) -> "Figure":
    """Return a histogram of the weights, doubtful samples in another colour."""
    weight = findings.sample_weight
    is_doubtful = findings.near.is_doubtful
    low = float(weight.min())
    high = float(weight.max())
    if high - low <= 1e-9 * high:  # all weights are the same, but for rounding
        low = low - 0.5
        high = high + 0.5
    edges = np.linspace(low, high, N_BINS + 1)
    figure = chart(
        "sample weight",
        "samples (log scale)",
        barmode="overlay",
        showlegend=bool(is_doubtful.any()),
    )
    hover = "weight about %{x:.3g}: %{y:,}"
    histogram(figure, weight, edges, "all samples", BLUE, hover)
    if is_doubtful.any():
        name = "contradicted by their neighbours"
        histogram(figure, weight[is_doubtful], edges, name, VERMILION, hover)
    level(figure, x=1)
    figure.add_annotation(
        x=1, y=1, yref="paper", yanchor="bottom", xanchor="left", text="mean 1", showarrow=False
    )
    figure.update_yaxes(type="log", dtick=1)
    return figure


def _plot_gains(gain: WeightGain) -> "Figure":
    """Return a chart of the score's change by each weighting: seeds, mean, interval."""
    points = in_points(gain.metric)
    unit = 100 if points else 1
    n = len(gain.names) - 1
    title = f"change of {gain.metric}{text_if(points, ', points')}"
    rows = [(name, gain.interval(i)) for i, name in enumerate(gain.names[1:], 1)]
    figure = change_chart(title, rows, unit)
    for i, (name, _) in enumerate(rows, 1):
        seed_gains = unit * (gain.score[:, i] - gain.score[:, 0])
        # Seeds of equal gain are one dot, the larger the more there are.
        values, counts = np.unique(seed_gains.round(9), return_counts=True)
        height = np.full(len(values), n - i) - 0.28
        hover = "%{x:+.3g} (seeds: %{customdata})"
        marks(
            figure, values, height, name, BLUE if i == 1 else GREY, hover,
            size=8 * np.sqrt(counts), opacity=0.45, customdata=counts,
        )  # fmt: skip
    figure.update_xaxes(range=None, autorange=True)  # seeds may lie beyond all intervals
    return figure
