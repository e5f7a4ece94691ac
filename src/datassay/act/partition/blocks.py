"""Divide a mixed training set into blocks, each explained by its own model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.act.partition.block_count import Choice, choose_blocks, fold_numbers, is_better
from datassay.act.partition.influence_blocks import LEAST_IN_BLOCK, influence_blocks, reassigned
from datassay.act.partition.mixture import Mixture, MixtureProblem
from datassay.act.partition.settings import Division
from datassay.collect.collection import check_sets
from datassay.collect.curvature.output_geometry import (
    OutputGeometry,
    SharedFeatures,
    output_geometry,
)
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError, SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.score.influence_moments import influence_variance
from datassay.score.variance.pair_influence import check_penalties, geometry_influence
from datassay.train.convex import fit_convex

# Of the restarts without one: a gate's likelihood has more optima, an eighth to a quarter arrive.
GATE_RESTARTS = 3


@result
class Partition(Tabular):
    """Which block each sample belongs to.

    Attributes:
        block: [n], in 0..K−1, the largest block first by its share.
        responsibility: [n, K], probability of each block given x and y; rows sum to 1.
        ids: [n].
        variance: [K], V of influence within each block under a model of that block alone; 0 where
            it has no two samples, or none that differ.
        variance_together: V of all samples under one model, at the same damping.
        held_out: for each K tried its held-out log-likelihood, nats a sample.
        is_gated: whether the block depends on the input (True) or only on chance.
        start: where the best fit began: "influence" (repeated purification) or "random".
        is_hard: whether hard reassignment explains held-out samples better than soft EM.
        mixture: the models behind it.
    """

    block: Int[np.ndarray, " n"]
    responsibility: Float[np.ndarray, "n K"]
    ids: np.ndarray
    variance: Float[np.ndarray, " K"]
    variance_together: float
    held_out: dict[int, float]
    is_gated: bool
    start: str
    is_hard: bool
    mixture: Mixture

    @property
    def n_blocks(self) -> int:
        """K."""
        return self.responsibility.shape[1]

    @property
    def sizes(self) -> Int[np.ndarray, " K"]:
        """Samples in each block."""
        return np.bincount(self.block, minlength=self.n_blocks)

    @property
    def entropy(self) -> float:
        """−Σ p log p of the sizes, nats; log K for an even mix."""
        share = self.sizes[self.sizes > 0] / len(self.block)
        return float(-(share * np.log(share)).sum())

    def to_table(self) -> pa.Table:
        """One row per sample: id, block, responsibility (of that block)."""
        own = self.responsibility[np.arange(len(self.block)), self.block]
        return pa.table({"id": self.ids, "block": self.block, "responsibility": own})


@checks_arguments
def partition(
    model: nn.Module,
    train: SampleSet,
    *,
    n_blocks: int | None = Division.n_blocks,
    max_blocks: int = Division.max_blocks,
    loss: str = Division.loss,
    ridge: float = Division.ridge,
    damping: float = Division.damping,
    gate: str = Division.gate,
    seed: int = Division.seed,
    restarts: int = Division.restarts,
    held_out: float = Division.held_out,
    progress: Progress = silent,
) -> Partition:
    """Divide samples into blocks, each explained by a model of its own.

    Two starts: repeated purification by influence with hard reassignment, and soft EM of a mixture
    from random responsibilities. The better one by held-out likelihood, Σ_k π_k p_k(y|x) of samples
    that were left out, is kept; K is the smallest within one standard error of the best.

    Args:
        model: whose one dense layer trains (a linear model; or a trained network with every other
            layer frozen by requires_grad_(False), so that its last features are the inputs). Its
            present weights do not matter.
        train: n samples.
        n_blocks: K; None chooses 1 to max_blocks.
        max_blocks: where K is to be chosen.
        loss: "cross_entropy" (one output: binary), "mse", a normal density with a variance a
            block, or "auto": by the task.
        ridge: of every block's model, (ridge/2)‖θ‖² beside its mean loss.
        damping: of the Hessian in the removal effects and V; not of the fits.
        gate: "on" lets the share of a block depend on the input (a linear softmax of the layer's
            inputs, as a router would), "off" makes it the same everywhere; "auto" takes what
            explains held-out samples better.
        seed: of folds and restarts.
        restarts: of soft EM; three times as many with a gate, whose likelihood has more optima.
        held_out: part of the samples that one fold leaves out, in (0, 0.5].
        progress: called with (step, units done, units in all).

    Returns:
        The blocks.

    Raises:
        SettingError: a setting is out of range, or K blocks of 20 samples are more than there are.
        DataError: one class, one target or one input only, or fewer than 20 samples.
        ModelError: more than a dense layer at the end trains, or outputs do not fit the targets.

    Cost: for each K tried `fit_mixture` with and without a gate and 1/held_out warm fits; seconds
    for 1000 samples of 41 features and 4 classes.
    Source: METHODS §4; S4 Fig. 1 names the task and leaves it open. Folds start at the
    optimum of all samples, so that the cross-validation is of the weights, not of the search.
    """
    check_penalties(ridge, damping)
    check_sets(train, None)
    _check_settings(n_blocks, max_blocks, gate, restarts, held_out)
    check_varied(train.x, train.y)
    geometry = output_geometry(model, train, loss, progress=progress)
    if not geometry.is_linear:
        raise ModelError(
            "partition needs a model in which only one dense layer, the last, trains; this one "
            "trains more, or changes that layer's outputs. Freeze the rest with "
            "requires_grad_(False)."
        )
    most = len(train) // LEAST_IN_BLOCK
    if most < 1:
        raise DataError(
            f"a partition needs at least {LEAST_IN_BLOCK} samples; got {len(train)}. Add samples."
        )
    if n_blocks is not None and n_blocks > most:
        raise SettingError(
            f"n_blocks must leave {LEAST_IN_BLOCK} samples a block; {n_blocks} blocks of "
            f"{len(train)} samples do not. Take at most {most}."
        )
    counts = [n_blocks] if n_blocks is not None else list(range(1, min(max_blocks, most) + 1))
    folds = fold_numbers(geometry.targets, geometry.loss, round(1 / held_out), seed)
    return geometry_partition(
        geometry,
        train.ids,
        counts,
        folds,
        ridge=ridge,
        damping=damping,
        gate=gate,
        seed=seed,
        restarts=restarts,
        progress=progress,
    )


def geometry_partition(
    geometry: OutputGeometry,
    ids: np.ndarray,
    counts: Sequence[int],
    folds: Int[Tensor, " n"],
    *,
    ridge: float,
    damping: float,
    gate: str,
    seed: int,
    restarts: int,
    progress: Progress = silent,
) -> Partition:
    """Divide samples whose geometry is already computed."""
    fit = {"ridge": ridge, "seed": seed, "restarts": restarts, "progress": progress}
    problem, choice = choose_gate(geometry, counts, folds, gate=gate, **fit)
    mixture, held_out, start, is_hard = choice.mixture, choice.chosen_held_out, "random", False
    if choice.best > 1:
        blocks = influence_blocks(
            geometry, choice.best, ridge=ridge, damping=damping, progress=progress
        )
        hard = reassigned(geometry, blocks, ridge)
        again = choose_blocks(
            problem,
            [choice.best],
            folds,
            restarts=0,
            seed=seed,
            starts={choice.best: _padded(hard.responsibility, choice.best)},
        )
        if again.chosen_held_out.mean() > held_out.mean():
            mixture, held_out, start = again.mixture, again.chosen_held_out, "influence"
        if is_better(*_hard_and_soft(geometry, hard, held_out, folds, ridge)):
            mixture, start, is_hard = hard, "influence", True
    block = mixture.responsibility.argmax(1)
    return Partition(
        block=block.numpy(),
        responsibility=mixture.responsibility.numpy(),
        ids=ids,
        variance=_variances(geometry, block, len(mixture.mixing), ridge, damping),
        variance_together=_variance(geometry, ridge, damping),
        held_out={k: float(v.mean()) for k, v in choice.held_out.items()},
        is_gated=mixture.gate.numel() > 0,
        start=start,
        is_hard=is_hard,
        mixture=mixture,
    )


def choose_gate(
    geometry: OutputGeometry,
    counts: Sequence[int],
    folds: Int[Tensor, " n"],
    *,
    ridge: float,
    gate: str,
    seed: int,
    restarts: int,
    progress: Progress = silent,
) -> tuple[MixtureProblem, Choice]:
    """Choose K, and whether the gate depends on the input."""
    tried = []
    for inputs, times in ((None, 1), (gate_inputs(geometry), GATE_RESTARTS)):
        if gate != ("on" if inputs is None else "off"):
            problem = MixtureProblem(
                geometry.features, geometry.targets, geometry.loss, ridge, inputs
            )
            choice = choose_blocks(
                problem, counts, folds, restarts=times * restarts, seed=seed, progress=progress
            )
            tried.append((problem, choice))
    gains = is_better(tried[-1][1].chosen_held_out, tried[0][1].chosen_held_out)
    return tried[-1] if gains else tried[0]


def gate_inputs(geometry: OutputGeometry) -> Float[Tensor, "n g"]:
    """Inputs of the gate: those of the layer that trains, and a column of ones."""
    assert isinstance(geometry.features, SharedFeatures)
    x = geometry.features.x
    has_ones = bool((x[:, -1] == 1).all())
    return x if has_ones else torch.cat([x, x.new_ones(len(x), 1)], 1)


def _padded(responsibility: Float[Tensor, "n k"], n_blocks: int) -> Float[Tensor, "n K"]:
    empty = responsibility.new_zeros(len(responsibility), n_blocks - responsibility.shape[1])
    return torch.cat([responsibility, empty], 1)


def _hard_and_soft(
    geometry: OutputGeometry,
    hard: Mixture,
    soft_held_out: Float[Tensor, " n"],
    folds: Int[Tensor, " n"],
    ridge: float,
) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
    """Log-likelihoods of the first fold's samples under both, fitted to the others."""
    out, training = (folds == 0).nonzero()[:, 0], (folds != 0).nonzero()[:, 0]
    block = hard.responsibility.argmax(1)
    without = reassigned(geometry.subset(training), block[training], ridge)
    rest = geometry.subset(out)
    likelihood = without.joint(rest.features, rest.targets, rest.loss).logsumexp(1)
    return likelihood, soft_held_out[out]


def _variances(
    geometry: OutputGeometry, block: Int[Tensor, " n"], n_blocks: int, ridge: float, damping: float
) -> Float[np.ndarray, " K"]:
    members = [(block == k).nonzero()[:, 0] for k in range(n_blocks)]
    variances = [
        _variance(geometry.subset(m), ridge, damping) if len(m) > 1 else 0.0 for m in members
    ]
    return np.array(variances)


def _variance(geometry: OutputGeometry, ridge: float, damping: float) -> float:
    """V under a model of these samples alone; 0 where that is what rounding leaves of it."""
    own = geometry.moved(
        fit_convex(geometry.features, geometry.targets, geometry.loss, ridge).weights[0]
    )
    try:
        return influence_variance(geometry_influence(own, np.arange(len(own)), ridge, damping))
    except DataError:
        return 0.0


def _check_settings(
    n_blocks: int | None, max_blocks: int, gate: str, restarts: int, held_out: float
) -> None:
    for name, value in (("n_blocks", n_blocks), ("max_blocks", max_blocks)):
        if value is not None and value < 1:
            raise SettingError(f"{name} must be at least 1; got {value}.")
    if restarts < 1:
        raise SettingError(f"restarts must be at least 1; got {restarts}.")
    if gate not in {"auto", "on", "off"}:
        raise SettingError(f"gate must be 'auto', 'on' or 'off'; got {gate!r}.")
    if not 0 < held_out <= 0.5:
        raise SettingError(f"held_out must lie in (0, 0.5]; got {held_out}.")


def check_varied(x: np.ndarray, y: np.ndarray) -> None:
    """Refuse samples that no two models could divide."""
    for name, values in (("inputs", x), ("targets", y)):
        if (values == values[:1]).all():
            raise DataError(
                f"the {name} must differ between samples; all {len(values)} are the same. Check "
                "how they were read."
            )
