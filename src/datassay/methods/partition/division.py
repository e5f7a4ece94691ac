"""The job and page of `datassay partition`; its text stands in `page.md.j2`."""

import math
import time
from dataclasses import asdict, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from datassay.collect.curvature.output_loss import task_loss
from datassay.commands.facts import closing_facts, data_facts, model_facts
from datassay.commands.frame import (
    SampleFindings,
    compose_page,
    named_folder,
    sample_gallery,
    sample_table,
    table,
)
from datassay.data.samples import SampleSet
from datassay.methods.partition.block_model import BlockModel, block_model, router_check
from datassay.methods.partition.blocks import Partition, agreement, oracle_agreement
from datassay.methods.partition.blocks import partition as divide
from datassay.methods.partition.command import PartitionSettings
from datassay.methods.partition.telling import is_indicator, telling_input
from datassay.models.build import linear_or_named
from datassay.models.names import BLOCK_HEAD, full_name
from datassay.optional import map_optional, text_if
from datassay.progress import Progress, silent
from datassay.report.drawing import PER_CLASS
from datassay.report.page import Gallery, Page, Pair, Table, View
from datassay.report.plots import bars, chart, stack_counts
from datassay.report.style import CLASS_COLOURS, plotly_text
from datassay.report.tables import standard_json
from datassay.report.wording import gain_numbers, in_points, number, share
from datassay.results import result
from datassay.score.variance.shuffled import FEW, ShuffledLabels, shuffled_labels
from datassay.store.model_file import NAME
from datassay.store.outputs import Part

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TEMPLATE = Path(__file__).with_name("page.md.j2")
FILES = {
    "blocks.parquet": "every sample's block",
    NAME: "the blocks' models and the router: datassay predict",
    "summary.json": "the figures above",
}
SUMMED_UP = (
    "sizes", "variance", "variance_together", "entropy", "held_out", "is_gated", "start", "is_hard",
)  # fmt: skip
MAX_SOURCES = 12
# A sample whose own block is less probable than this could belong to another.
SURE = 0.9
# Colours that stay apart for colour-blind readers.
BLOCK_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
N_WEIGHTS = 6  # inputs whose weights are told
AS_GIVEN = ("max_blocks", "ridge", "damping", "gate", "seed", "restarts")


@result
class PartitionFindings(SampleFindings):
    """A partition of the samples into blocks, and its checks."""

    partition: Partition
    model: BlockModel
    router: dict[str, float]  # whether the inputs tell the blocks apart
    # Adjusted Rand index between blocks and sources, and for assignment by models of the true
    # blocks; NaN where sources are not known.
    agreement: float = math.nan
    oracle: float = math.nan
    check: ShuffledLabels | None = None  # the labels against shuffled ones

    @property
    def own_responsibility(self) -> np.ndarray:
        """[n] probability of each sample's own block."""
        return self.partition.responsibility.max(axis=1)

    @property
    def telling(self) -> tuple[str, np.ndarray, list[str]]:
        """What `telling_input` gives; nothing where the inputs tell no blocks apart."""
        if not self.router["is_informative"]:
            return "", np.array([]), []
        return telling_input(self.samples, self.partition.block)

    @property
    def block_names(self) -> list[str]:
        """The blocks as page and table call them, counted from 0: "block 0, mean size 3.00"."""
        means = self.telling[-1]
        names = [f"block {k}" for k in range(self.partition.n_blocks)]
        if len(means) != len(names):  # a block is empty, or no input tells them apart
            return names
        return [f"{name}, {mean}" for name, mean in zip(names, means, strict=True)]


def source_counts(findings: PartitionFindings) -> tuple[list[str], np.ndarray]:
    """Return source names, and the number of samples of each source in each block, [K, s]."""
    source = findings.samples.source
    partition = findings.partition
    if source is None:
        return [], np.zeros((partition.n_blocks, 0), int)
    names, source_index = np.unique(source, return_inverse=True)
    counts = np.zeros((partition.n_blocks, len(names)), int)
    np.add.at(counts, (partition.block, source_index), 1)
    return [str(name) for name in names], counts


def run(
    train: SampleSet, val: SampleSet, settings: PartitionSettings, progress: Progress = silent
) -> PartitionFindings:
    """Compute everything that `datassay partition` shows, without writing anything."""
    started = time.perf_counter()
    seed = settings.seed
    settings = replace(settings, model=full_name(settings.model, train, BLOCK_HEAD))
    model = linear_or_named(settings.model, train, seed)
    loss = task_loss(train)
    arguments = {name: getattr(settings, name) for name in AS_GIVEN}
    partition = divide(
        model, train, n_blocks=settings.blocks, loss=loss, progress=progress, **arguments
    )
    progress("compare", 0, 1)
    is_gated = partition.is_gated
    results: dict[str, Any] = {}
    if train.source is not None and len(np.unique(train.source)) > 1:
        results["agreement"] = agreement(partition, train)
        results["oracle"] = oracle_agreement(
            model, train, loss=loss, ridge=settings.ridge, is_gated=is_gated, seed=seed
        )
    may_route = is_gated or settings.gate == "off"
    fitted = block_model(train, partition, may_route=may_route, seed=seed)
    router = router_check(train, val, fitted)
    progress("compare", 1, 1)
    results["check"] = shuffled_labels(
        model, train, loss=loss, ridge=settings.ridge, damping=settings.damping, seed=seed,
        progress=progress,
    )  # fmt: skip
    penalties = f"ridge {settings.ridge:g}, damping {settings.damping:g}"
    facts = {
        **data_facts(train, val),
        **model_facts(settings.model, f"{settings.model} in each block, {penalties}"),
        "Blocks": "chosen by held-out likelihood" if settings.blocks is None else "given",
        "Gate": ("on" if is_gated else "off") + text_if(settings.gate == "auto", " (auto)"),
        "Start": f"{partition.start}, {'hard' if partition.is_hard else 'soft'} assignment",
        **closing_facts(started, seed, settings.command),
    }
    return PartitionFindings(train, val, partition, fitted, router, facts=facts, **results)


def page(findings: PartitionFindings) -> Page:
    """Return the page of `datassay partition`."""
    samples = findings.samples
    partition = findings.partition
    names = findings.block_names
    telling, values, _ = findings.telling
    draw = partial(_plot_input, values, telling)
    blocks = {
        "table": _tabulate_blocks(findings),
        "rules": _rule_table(findings),
        "map": lambda: draw(partition.block, names),
        "targets": _plot_targets(findings),
        "figures": _figures(findings),
        "gallery": gallery(findings),
    }
    sources = np.array([])
    source_index = np.zeros(len(samples), int)
    if samples.source is not None:
        sources, source_index = np.unique(samples.source, return_inverse=True)
    if has_sources := 1 < len(sources) <= len(BLOCK_COLOURS):
        blocks["sources"] = lambda: draw(source_index, list(map(str, sources)))
    numbers = {
        "tried": max(partition.held_out, default=1),
        "named": float(partition.responsibility[:, partition.sizes.argmax()].mean()),
        "lead": _format_lead(findings),
        "telling": telling,
        "raised": samples.class_names[-1] if samples.is_classification else "",
        "folder": named_folder(findings.facts, "blocks"),
        "is_scored": math.isfinite(findings.router["routed"]),
        "unsure": float(np.mean(findings.own_responsibility < SURE)),
        "sure": SURE,
        "few": FEW,
        "knows_sources": math.isfinite(findings.agreement),
        "has_sources": has_sources,
    }
    return compose_page(TEMPLATE, findings, blocks, numbers, FILES)


def _format_lead(findings: PartitionFindings) -> str:
    """Return the lead of a model per block: "20.8 points (95 % interval 13.1 to 28.6)"."""
    low, high = (findings.router[name] for name in ("ahead_low", "ahead_high"))
    text, low_text, high_text = gain_numbers((low + high) / 2, low, high, findings.metric)
    unit = " points more" if in_points(findings.metric) else " more"
    return f"{text}{unit} (95 % interval {low_text} to {high_text})"


def _tabulate_blocks(findings: PartitionFindings) -> Table:
    """Return a table with a row per block, then all samples under one model."""
    partition = findings.partition
    n = len(findings.samples)
    names, counts = source_counts(findings)
    rows = []
    for k, (name, size) in enumerate(zip(findings.block_names, partition.sizes, strict=True)):
        responsibility = findings.own_responsibility[partition.block == k]
        mean = "–"
        if size:
            mean = number(float(responsibility.mean()))
        row = [name, f"{size:,}", share(size / n), number(float(partition.variance[k])), mean]
        if names:
            largest = int(counts[k].argmax())
            row.append(f"{names[largest]} ({100 * counts[k, largest] / max(1, size):.0f} %)")
        rows.append(row)
    variance = number(partition.variance_together)
    rows.append(["together", f"{n:,}", "100 %", variance, *["–"] * (1 + bool(names))])
    columns = ("block", "samples", "share", "V", "mean responsibility", "largest source")
    return table("Blocks", columns[: 5 + bool(names)], rows, in_terminal=True)


def _rule_table(findings: PartitionFindings) -> Table | None:
    """Return the largest weights of each block's model; None of several outputs or no columns."""
    samples = findings.samples
    coef = findings.model.coef  # [K, k, d]
    n_outputs = coef.shape[1] - samples.is_classification
    if n_outputs != 1 or samples.kind != "row" or len(samples.feature_names) != coef.shape[2]:
        return None
    weights = coef[:, -1]
    if samples.is_classification:
        weights = coef[:, 1] - coef[:, 0]  # of two classes the log odds of the second
    names = list(map(findings.block_names.__getitem__, findings.model.block))
    largest = np.abs(weights).max(axis=0)
    columns = np.argsort(-largest, kind="stable")[:N_WEIGHTS].tolist()
    columns = [j for j in columns if largest[j] >= 0.005] or columns[:1]  # else it reads 0.00
    rows = [
        (samples.feature_names[j], *(f"{w:+.2f}".replace("-", "−") for w in weights[:, j]))
        for j in columns
    ]
    return table("Weights of the inputs in each block", ("", *names), rows, wraps=False)


def _figures(findings: PartitionFindings) -> Pair:
    """Return the figures of the whole partition, and the samples of each source in each block."""
    partition = findings.partition
    router = findings.router
    metric = findings.metric
    entropy = number(partition.entropy)
    limit = number(math.log(partition.n_blocks))
    rows = [("entropy of the blocks, nats", f"{entropy} of log K = {limit}")]
    for k, value in sorted(partition.held_out.items()):
        text = f"{value:.3f}".replace("-", "−") + text_if(k == partition.n_blocks, " (chosen)")
        rows.append((f"held-out log-likelihood, K = {k}", text))
    if partition.n_blocks > 1:
        rows.append(("block depends on the input", "yes" if partition.is_gated else "no"))
        rows.append(("gain of a router", f"{router['gain']:.3f} ± {router['gain_error']:.3f}"))
    for name, value in (
        (f"validation {metric}, one model", router["single"]),
        (f"validation {metric}, a model per block", router["routed"]),
        ("adjusted Rand index with the sources", findings.agreement),
        ("the same, models of the true blocks", findings.oracle),
    ):
        if math.isfinite(value):
            rows.append((name, f"{value:.3f}"))
    tables = [table("The partition in figures", ("", "value"), rows, in_terminal=True)]
    names, counts = source_counts(findings)
    if 1 < len(names) <= MAX_SOURCES:
        title = "Samples of each source"
        by_block = zip(findings.block_names, counts, strict=True)
        rows = [(name, *map("{:,}".format, row)) for name, row in by_block]
        tables.append(table(title, ("block", *names), rows, caption=title, wraps=False))
    return Pair(tuple(tables))


def gallery(findings: PartitionFindings) -> Gallery:
    """Return cards of the 12 samples most surely in each block."""
    block = findings.partition.block
    responsibility = findings.own_responsibility
    names = findings.block_names
    order = np.lexsort((-responsibility, block))  # by block, the surest first
    starts = np.searchsorted(block[order], block[order])  # where a sample's block begins
    rank_in_block = np.arange(len(order)) - starts
    rows = order[rank_in_block < PER_CLASS]
    card_fields = (
        {
            "figures": ((f"{names[block[i]]}, {responsibility[i]:.3f}", ""),),
            "views": (str(block[i]),),
            "keys": {"rank": rank, "responsibility": float(responsibility[i])},
        }
        for rank, i in enumerate(rows, 1)
    )
    return sample_gallery(
        findings.samples, rows, card_fields,
        views=(View("", "all blocks"), *(View(str(k), name) for k, name in enumerate(names))),
        views_name="Block",
        sorts=(
            ("rank", "block, surest first"), ("responsibility", "responsibility"), ("id", "id"),
        ),
        note="At most twelve of each block, those of highest responsibility.",
    )  # fmt: skip


def _plot_input(values: np.ndarray, title: str, group: np.ndarray, names: list[str]) -> "Figure":
    """Return a histogram of one input's values, split by group."""
    height = 300 if is_indicator(values) else 420
    figure = chart(plotly_text(title), "samples", showlegend=True, height=height)
    styles = zip(names, cycle(BLOCK_COLOURS), strict=False)
    groups = [(name, group == g, colour) for g, (name, colour) in enumerate(styles)]
    if is_indicator(values):
        stack_counts(figure, values, groups, np.linspace(-0.5, 1.5, 3), "%{y:,}")
        figure.update_xaxes(tickvals=[0, 1], ticktext=["no", "yes"])
        figure.update_layout(bargap=0.6)
        return figure
    edges = np.linspace(values.min(), values.max(), 31)
    stack_counts(figure, values, groups, edges, "about %{x:.3g}: %{y:,}")
    return figure


def _plot_targets(findings: PartitionFindings) -> "Figure":
    """Return a chart of each block's class shares, or of its first target's values."""
    samples = findings.samples
    partition = findings.partition
    names = findings.block_names
    if not samples.is_classification:
        figure = chart("", "target", showlegend=False)
        target = samples.y.reshape(len(samples), -1)[:, 0]
        for k, (name, colour) in enumerate(zip(names, cycle(BLOCK_COLOURS), strict=False)):
            figure.add_box(y=target[partition.block == k], name=name, marker={"color": colour})
        return figure
    figure = chart(
        "share of the block, %", barmode="stack", bargap=0.35, showlegend=True,
        height=180 + 48 * partition.n_blocks,
    )  # fmt: skip
    n_classes = samples.n_classes
    n_colours = len(CLASS_COLOURS)
    classes = np.arange(n_classes)
    if n_classes > n_colours:
        frequency = np.bincount(samples.y, minlength=n_classes)
        classes = np.sort(np.argsort(-frequency, kind="stable")[: n_colours - 1])
    groups = [(samples.class_names[c], samples.y == c) for c in classes]
    n_rare = n_classes - len(classes)
    if n_rare:
        groups.append((f"{n_rare} other classes", ~np.isin(samples.y, classes)))
    sizes = np.maximum(partition.sizes, 1)
    hover = "%{customdata} samples, %{x:.1f} %"
    for colour, (name, is_in_group) in zip(CLASS_COLOURS, groups, strict=False):
        counts = np.bincount(partition.block[is_in_group], minlength=partition.n_blocks)
        bars(
            figure, 100 * counts / sizes, names, name, colour, hover, edge="#fff", orientation="h",
            customdata=counts,
        )  # fmt: skip
    figure.update_xaxes(range=[0, 100])
    figure.update_yaxes(autorange="reversed")
    return figure


def files(findings: PartitionFindings, page: Page) -> dict[str, Part]:
    """Return the files written with the page: file name → table, text or what writes it."""
    partition = findings.partition
    names, counts = source_counts(findings)
    by_source = {f"block {k}": dict(zip(names, row, strict=True)) for k, row in enumerate(counts)}
    summary = {
        "blocks": partition.n_blocks,
        **{name: getattr(partition, name) for name in SUMMED_UP},
        "router": findings.router,
        "agreement": findings.agreement,
        "oracle_agreement": findings.oracle,
        "shuffled_labels": map_optional(asdict, findings.check),
        "sources": by_source if names else None,
    }
    table = block_table(findings)
    summary = standard_json({**page.head, **summary})
    return {"blocks.parquet": table, NAME: findings.model.save, "summary.json": summary}


def block_table(findings: PartitionFindings) -> pa.Table:
    """Return every sample's block, and how probable that is."""
    columns = {"block": findings.partition.block, "responsibility": findings.own_responsibility}
    return sample_table(findings.samples, columns, with_truth=False)
