"""Everything one weighting found out, gathered for its page, table and summary."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from datassay.act.weigh.gain import Boundary, WeightGain
from datassay.act.weigh.search import WeightSearch
from datassay.act.weigh.weights import SampleWeights
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.results import result
from datassay.score.neighbors.local_variance import LocalVariance

HEAVIEST = 0.1
# A label that fewer of the neighbours share, while more than half agree on another, is doubtful.
FEW = 0.2
# So many local standard deviations from its neighbours' mean, a target is doubtful.
FAR = 4.0


@result
class WeighFindings:
    """One weighting, in the order of the training samples.

    Attributes:
        samples: the n training samples.
        validation: what gains are measured on; decides nothing.
        weights: w, summing to 1, and how they came about.
        local: local variances and the neighbours that they and the labels' agreement are over.
        space: where neighbours were searched, in words.
        in_last_layer: whether that is what enters the network's last layer, and that layer alone
            was retrained; else the inputs, and whole networks were trained.
        gain: scores with and without weights; None where that was not asked for.
        method: this weighting's name in `gain`.
        boundary: of two columns and classes, where networks were trained; else None.
        search: of k and m; None where that was not asked for.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    samples: SampleSet
    validation: SampleSet
    weights: SampleWeights
    local: LocalVariance
    space: str
    in_last_layer: bool
    gain: WeightGain | None
    method: str
    boundary: Boundary | None = None
    search: WeightSearch | None = None
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not np.array_equal(self.weights.ids, self.samples.ids):
            raise DataError(
                "weights must have the samples' ids in the samples' order; they differ. Weigh the "
                "same SampleSet that the report shows."
            )

    @property
    def sample_weight(self) -> Float[np.ndarray, " n"]:
        """The weights with a mean of 1, as they are written and as estimators take them."""
        return self.weights.weight * len(self.samples)

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """Positions, heaviest first, ties in the samples' order."""
        return np.argsort(-self.weights.weight, kind="stable")

    @property
    def heaviest(self) -> Int[np.ndarray, " tenth"]:
        """Positions of the heaviest tenth, at least one sample."""
        return self.order[: max(1, round(HEAVIEST * len(self.samples)))]

    @property
    def others(self) -> Int[np.ndarray, "n k_1"]:
        """The neighbours of each sample without itself."""
        return self.local.neighbors.index[:, 1:]


@dataclass(frozen=True, slots=True)
class Concentration:
    """How uneven weights are.

    Attributes:
        heaviest_share: of the weight, on the heaviest tenth of the samples.
        effective: (Σ w)² / Σ w², samples.
        ratio: the largest weight over the smallest; infinite where some are 0.
        constant: samples whose neighbours all share their target.
    """

    heaviest_share: float
    effective: float
    ratio: float
    constant: int


def concentration(findings: WeighFindings) -> Concentration:
    """How uneven the weights are."""
    weight = findings.weights.weight
    least = float(weight.min())
    return Concentration(
        heaviest_share=float(weight[findings.heaviest].sum() / weight.sum()),
        effective=float(weight.sum() ** 2 / np.square(weight).sum()),
        ratio=float(weight.max()) / least if least else float("inf"),
        constant=int((findings.local.variance == 0).sum()),
    )


def neighbor_counts(findings: WeighFindings) -> Int[np.ndarray, "n classes"]:
    """[n, classes]: neighbours of each class, without the sample itself; rows sum to k − 1."""
    n_classes = findings.samples.n_classes
    near = findings.samples.y[findings.others]  # [n, k - 1]
    cells = near + n_classes * np.arange(len(near))[:, None]
    return np.bincount(cells.ravel(), minlength=len(near) * n_classes).reshape(-1, n_classes)


def agreement(findings: WeighFindings) -> Float[np.ndarray, " n"]:
    """[n], share of the neighbours that have the sample's own class, in [0, 1]."""
    counts = neighbor_counts(findings)
    own = counts[np.arange(len(counts)), findings.samples.y]
    return own / counts.sum(1)


def neighbor_mean(findings: WeighFindings) -> Float[np.ndarray, "n q"]:
    """[n, q], mean target of the neighbours, the sample itself left out, target unit."""
    y = findings.samples.y.reshape(len(findings.samples), -1)
    return y[findings.others].mean(1)


def doubtful(findings: WeighFindings) -> Bool[np.ndarray, " n"]:
    """Samples that their neighbours contradict, which is what a wrong label looks like.

    Returns:
        Classes: fewer than a fifth of the neighbours share the label and more than half agree on
        another. Targets: farther from the neighbours' mean than 4 of their standard deviations.
    """
    samples = findings.samples
    if samples.is_classification:
        counts = neighbor_counts(findings)
        share = counts / counts.sum(1, keepdims=True)
        return (agreement(findings) < FEW) & (share.max(1) > 0.5)
    y = samples.y.reshape(len(samples), -1)
    spread = y[findings.others].std(1)
    away = np.abs(y - neighbor_mean(findings))
    return (away > FAR * spread).any(1) & (findings.others.shape[1] > 2)
