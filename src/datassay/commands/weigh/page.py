"""The page of a weighting."""

from __future__ import annotations

import numpy as np

from datassay.act.weigh.gain import WeightGain
from datassay.commands.weigh.advice import weigh_advice
from datassay.commands.weigh.figures import weigh_figures
from datassay.commands.weigh.findings import WeighFindings, concentration, doubtful
from datassay.commands.weigh.gallery import gallery_note, weight_cards
from datassay.commands.weigh.method import weigh_notes
from datassay.report.html import advice_cards, card_kind, render
from datassay.report.page import GroupRow
from datassay.report.wording import count, interval_text, number, percent, signed

SCRIPTS = ("figures.js", "gallery.js")
GAIN_COLUMNS = ["weights", "{metric}", "change{unit}", "95 % interval", "verdict"]
CLASS_COLUMNS = [
    "class", "samples", "share of samples", "share of weight", "mean weight", "variance 0",
    "doubtful",
]  # fmt: skip
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


def render_weigh_page(findings: WeighFindings) -> str:
    """The weighting as one self-contained HTML page; see `html.render` for what it promises.

    Args:
        findings: one weighting.

    Returns:
        HTML.
    """
    return render("weigh.html", SCRIPTS, _context(findings), weigh_figures(findings))


def _context(findings: WeighFindings) -> dict[str, object]:
    samples, shown = findings.samples, weight_cards(findings)
    found = concentration(findings)
    sections = [("next", "What to do next")]
    sections += [("help", "Does it help")] * (findings.gain is not None)
    sections += [("boundary", "Boundary")] * (findings.boundary is not None)
    sections += [("weights", "Weights"), ("gallery", "Heaviest samples")]
    return {
        "brand": "datassay weigh · how much each training sample should count",
        "title": samples.name,
        "lead": f"{count(len(samples), 'weight')} by {findings.method}, effective sample size "
        f"{found.effective:,.0f}",
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": advice_cards(weigh_advice(findings)),
        "gallery_view": "doubtful",
        "sections": [*sections, ("use", "Use them"), ("method", "Method")],
        "gain_columns": gain_columns(findings.gain),
        "gain_rows": gain_rows(findings.gain),
        "help_note": _help_note(findings),
        "class_columns": CLASS_COLUMNS,
        "class_rows": class_rows(findings),
        "samples": samples,
        "cards": shown,
        "any_doubtful": any(card.is_doubtful for card in shown),
        "card_kind": card_kind(shown),
        "gallery_note": gallery_note(findings),
        "snippet": snippet(findings),
        "method": weigh_notes(findings),
    }


def snippet(findings: WeighFindings) -> str:
    """Python that uses the column, for this task.

    Args:
        findings: one weighting.

    Returns:
        Code in which ids, x, y, model and estimator are the user's.
    """
    return (
        SNIPPET
        if findings.samples.is_classification
        else SNIPPET.replace(CLASS_LOSS, REGRESSION_LOSS)
    )


def gain_columns(gain: WeightGain | None) -> list[str]:
    """Headings of `gain_rows`.

    Args:
        gain: the scores, or None.

    Returns:
        The first is of the row names.
    """
    metric = "" if gain is None else gain.metric
    unit = ", points" if metric == "accuracy" else ""
    return [column.format(metric=metric, unit=unit) for column in GAIN_COLUMNS]


def gain_rows(gain: WeightGain | None) -> list[GroupRow]:
    """Scores with and without weights as a table.

    Args:
        gain: the scores, or None.

    Returns:
        One row a weighting.
    """
    if gain is None:
        return []
    rows = []
    for i, name in enumerate(gain.names):
        change, half = gain.difference(i)
        cells = (f"{gain.score[:, i].mean():.3f}", "–", "–", "–")
        if i:
            low, high = (signed(change + s * half, gain.metric) for s in (-1, 1))
            cells = (
                cells[0],
                signed(change, gain.metric),
                f"{low} to {high}",
                gain.verdict(i),
            )
        rows.append(GroupRow(name, cells))
    return rows


def class_rows(findings: WeighFindings) -> list[GroupRow]:
    """What each class holds of samples and of weight.

    Args:
        findings: one weighting.

    Returns:
        One row a class that occurs; empty for a regression.
    """
    samples = findings.samples
    if not samples.is_classification:
        return []
    weight, bad = findings.sample_weight, doubtful(findings)
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
        rows.append(GroupRow(samples.class_names[c], cells))
    return rows


def _help_note(findings: WeighFindings) -> str:
    gain = findings.gain
    if gain is None:
        return ""
    n_seeds, n_val = gain.score.shape[0], gain.each.shape[1]
    how = (
        "The features stay as they are and the last layer is trained afresh (S0, Algorithm 1),"
        if findings.in_last_layer
        else "The whole network is trained"
    )
    change = interval_text(*gain.difference(1), gain.metric)
    return (
        f"{how} from {n_seeds} seeds without weights and with each weighting, and scored on "
        f"{count(n_val, 'validation sample')} that had no say in the weights: {change}."
        f"{_no_rival(findings, gain)}"
    )


def _no_rival(findings: WeighFindings, gain: WeightGain) -> str:
    if len(gain.names) > 2 or not findings.samples.is_classification:
        return ""
    return (
        " The usual rival, class-balanced weights, is left out: the classes are about equally "
        "frequent, so that those weights are as good as none."
    )
