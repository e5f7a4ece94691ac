"""The page of a weighting."""

from __future__ import annotations

import numpy as np

from datassay.act.weigh.decision_boundary import Boundary
from datassay.act.weigh.gain import WeightGain
from datassay.commands.weigh import figures
from datassay.commands.weigh.advice import advice
from datassay.commands.weigh.files import FILES
from datassay.commands.weigh.findings import WeighFindings, concentration, doubtful
from datassay.commands.weigh.gallery import gallery
from datassay.commands.weigh.method import notes
from datassay.report.page import Block, Code, Figure, Heading, Page, Pair, Row, Section, Table, Text
from datassay.report.wording import count, interval_text, number, percent, signed

SNIPPET = """\
import pyarrow.parquet as pq
import torch

table = pq.read_table("weights.parquet")
by_id = dict(zip(table["id"].to_pylist(), table["sample_weight"].to_pylist()))
w = torch.tensor([by_id[i] for i in ids], dtype=torch.float32)  # your order, mean 1

# 1. in the loss: keep the samples' losses apart, weight them, then take the mean
loss = (w * torch.nn.functional.cross_entropy(model(x), y, reduction="none")).mean()

# 2. in the sampler: heavy samples are drawn more often, the loss stays as it is
sampler = torch.utils.data.WeightedRandomSampler(w, num_samples=len(w))
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(x, y), batch_size=25, sampler=sampler
)

# 3. scikit-learn and everything that takes sample_weight
estimator.fit(x.numpy(), y.numpy(), sample_weight=w.numpy())
"""
REGRESSION_LOSS = 'torch.nn.functional.mse_loss(model(x)[:, 0], y, reduction="none")'
CLASS_LOSS = 'torch.nn.functional.cross_entropy(model(x), y, reduction="none")'


def page(findings: WeighFindings) -> Page:
    """Everything that the command says."""
    pieces = advice(findings)
    sections = [_help(findings, findings.gain)] if findings.gain is not None else []
    if findings.boundary is not None:
        sections.append(_boundary(findings, findings.boundary))
    sections += [_weights(findings), _gallery(findings), _use(findings)]
    return Page(
        brand="datassay weigh · how much each training sample should count",
        title=findings.samples.name,
        lead=f"{count(len(findings.samples), 'weight')} by {findings.method}, effective sample "
        f"size {concentration(findings).effective:,.0f}",
        facts=findings.facts,
        warnings=findings.samples.warnings + findings.warnings,
        advice=pieces,
        sections=tuple(sections),
        method=notes(findings),
        files=FILES,
        columns=findings.samples.columns,
        answer=tuple(f"{one.headline}." for one in pieces if one.kind != "contest"),
    )


def _help(findings: WeighFindings, gain: WeightGain) -> Section:
    text = f"Change of validation {gain.metric} with its interval, by weighting"
    return Section("help", "Does it help", "Does it help here?", (
        Text(_help_note(findings, gain)),
        _gain_table(gain),
        Text("A pale dot is one seed, the diamond their mean with its 95 % interval over seeds and "
             "validation samples.", note=True),
        Figure("gain", figures.gain_figure(gain), text),
    ))  # fmt: skip


def _gain_table(gain: WeightGain) -> Table:
    """Scores with and without weights, a row a weighting."""
    unit = ", points" if gain.metric == "accuracy" else ""
    rows = []
    for i, name in enumerate(gain.names):
        change, half = gain.difference(i)
        cells = (f"{gain.score[:, i].mean():.3f}", "–", "–", "–")
        if i:
            low, high = (signed(change + s * half, gain.metric) for s in (-1, 1))
            interval = f"{low} to {high}"
            cells = (cells[0], signed(change, gain.metric), interval, gain.verdict(i))
        rows.append(Row(name, cells))
    columns = ("weights", gain.metric, f"change{unit}", "95 % interval", "verdict")
    return Table("Scores with and without weights", columns, tuple(rows), in_terminal=True)


def _help_note(findings: WeighFindings, gain: WeightGain) -> str:
    n_seeds, n_val = gain.score.shape[0], gain.each.shape[1]
    how = (
        "The features stay as they are and the last layer is trained afresh (S0, Algorithm 1),"
        if findings.in_last_layer
        else "The whole network is trained"
    )
    change = interval_text(*gain.difference(1), gain.metric)
    rival = (
        " The usual rival, class-balanced weights, is left out: the classes are about equally "
        "frequent, so that those weights are as good as none."
    )
    without_rival = len(gain.names) == 2 and findings.samples.is_classification
    return (
        f"{how} from {n_seeds} seeds without weights and with each weighting, and scored on "
        f"{count(n_val, 'validation sample')} that had no say in the weights: {change}."
        f"{rival if without_rival else ''}"
    )


def _boundary(findings: WeighFindings, boundary: Boundary) -> Section:
    text = "Decision boundaries with and without weights over the samples, coloured by weight"
    return Section("boundary", "Boundary", "Where the boundary moves", (
        Text("The samples coloured by weight, and where networks trained without and with the "
             "weights change their mind, the mean over seeds."),
        Figure("boundary", figures.boundary_figure(findings, boundary), text),
    ))  # fmt: skip


def _weights(findings: WeighFindings) -> Section:
    histogram = Figure(
        "weights", figures.weight_figure(findings), "Histogram of the sample weights",
        title="How many samples have which weight",
    )  # fmt: skip
    share = Figure(
        "share", figures.share_figure(findings), "Share of the weight on the heaviest samples",
        title="How much the heaviest hold",
    )  # fmt: skip
    blocks: list[Block] = [Pair((histogram, share))]
    if findings.samples.is_classification:
        blocks += [Heading("By class"), _class_table(findings)]
    return Section("weights", "Weights", "Weights", tuple(blocks))


def _class_table(findings: WeighFindings) -> Table:
    """What each class that occurs holds of samples and of weight."""
    samples, weight, bad = findings.samples, findings.sample_weight, doubtful(findings)
    constant = findings.local.variance == 0
    rows = []
    for c in np.unique(samples.y):
        own = samples.y == c
        cells = (
            f"{own.sum():,}",
            percent(round(float(own.mean()), 3)),
            percent(round(float(weight[own].sum() / weight.sum()), 3)),
            number(float(weight[own].mean())),
            percent(round(float(constant[own].mean()), 3)),
            f"{(bad & own).sum():,}",
        )
        rows.append(Row(samples.class_names[c], cells))
    columns = (
        "class", "samples", "share of samples", "share of weight", "mean weight", "variance 0",
        "doubtful",
    )  # fmt: skip
    return Table("Weight by class", columns, tuple(rows))


def _gallery(findings: WeighFindings) -> Section:
    return Section("gallery", "Heaviest samples", "Heaviest samples", (gallery(findings),))


def _use(findings: WeighFindings) -> Section:
    text = (
        "`sample_weight` has mean 1: multiply each sample's loss by it and keep your learning rate."
        " It joins to your table by `id`. Here `ids`, `x`, `y`, `model` and `estimator` are yours; "
        "take one of the three."
    )
    return Section("use", "Use them", "Use the weights", (
        Text(text, code=True), Code(snippet(findings))
    ))  # fmt: skip


def snippet(findings: WeighFindings) -> str:
    """Python that uses the column; ids, x, y, model and estimator are the user's."""
    if findings.samples.is_classification:
        return SNIPPET
    return SNIPPET.replace(CLASS_LOSS, REGRESSION_LOSS)
