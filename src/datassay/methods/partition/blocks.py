"""Divide a mixed training set into blocks, each explained by its own model."""

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from datassay import rules
from datassay.collect.collection import check_sets
from datassay.collect.curvature.output_geometry import (
    OutputGeometry,
    SharedFeatures,
    output_geometry,
)
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError, SettingError
from datassay.machine import threads_for
from datassay.methods.partition.block_count import (
    LEAST_IN_BLOCK,
    Choice,
    choose_blocks,
    held_out_joint,
    influence_blocks,
    is_better,
    reassign_blocks,
    weighted_mean,
)
from datassay.methods.partition.mixture import MOST_NEWTON, Mixture, MixtureProblem
from datassay.methods.partition.settings import Division
from datassay.optional import select_rows, take_first
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.score.influence_moments import influence_variance
from datassay.score.variance.pair_influence import check_penalties, geometry_influence
from datassay.train.convex import fit_convex
from datassay.train.folds import fold_numbers

# A gate multiplies the restarts of models whose steps are Newton's: only an eighth to a quarter of
# them reach the optimum. Of larger models each restart costs too much.
GATE_RESTARTS = 3
TRUE_FOLDS = 10  # in which models of the true blocks are fitted


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
        held_out: for each K tried its held-out log-likelihood, nats per sample.
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
        """Number of blocks, K."""
        return self.responsibility.shape[1]

    @property
    def sizes(self) -> Int[np.ndarray, " K"]:
        """Number of samples in each block."""
        return np.bincount(self.block, minlength=self.n_blocks)

    @property
    def entropy(self) -> float:
        """−Σ p log p of the sizes, nats; log K for an even mix."""
        share = self.sizes[self.sizes > 0] / len(self.block)
        return float(-(share * np.log(share)).sum())

    def to_table(self) -> pa.Table:
        """Return one row per sample: id, block, and the responsibility of that block."""
        of_block = self.responsibility[np.arange(len(self.block)), self.block]
        return pa.table({"id": self.ids, "block": self.block, "responsibility": of_block})


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
        ridge: of every block's model, (ridge/2)‖θ‖² added to its mean loss.
        damping: of the Hessian in the removal effects and V; not of the fits.
        gate: "on" lets the share of a block depend on the input (a linear softmax of the layer's
            inputs, as a router would), "off" makes it the same everywhere; "auto" takes what
            explains held-out samples better.
        seed: of folds and restarts.
        restarts: of soft EM; three times as many with a gate, whose likelihood has more optima, up
            to 200 weights a model.
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
    for name, value in (("n_blocks", n_blocks), ("max_blocks", max_blocks), ("restarts", restarts)):
        if value is not None:
            rules.at_least(name, value, 1)
    gate_is_known = gate in {"auto", "on", "off"}
    rules.require(gate_is_known, "gate", "be 'auto', 'on' or 'off'", repr(gate))
    rules.in_interval("held_out", held_out, 0, 0.5, "(]")
    for name, values in (("inputs", train.x), ("targets", train.y)):
        if (values == values[:1]).all():
            raise DataError(
                f"the {name} must differ between samples; all {len(values)} are the same. Check "
                "how they were read."
            )
    geometry = output_geometry(model, train, loss, progress=progress)
    if not geometry.is_linear:
        raise ModelError(
            "partition needs a model in which only one dense layer, the last, trains; this one "
            "trains more, or changes that layer's outputs. Freeze the rest with "
            "requires_grad_(False); sub-networks of divided samples did not reach one network of "
            "their size (docs/measured.md, Mixed data)."
        )
    most_blocks = len(train) // LEAST_IN_BLOCK
    if most_blocks < 1:
        raise DataError(
            f"a partition needs at least {LEAST_IN_BLOCK} samples; got {len(train)}. Add samples."
        )
    if n_blocks is not None and n_blocks > most_blocks:
        raise SettingError(
            f"n_blocks must leave {LEAST_IN_BLOCK} samples a block; {n_blocks} blocks of "
            f"{len(train)} samples do not. Take at most {most_blocks}."
        )
    with threads_for(len(train) * geometry.features.n_parameters):
        return geometry_partition(
            geometry, train.ids, n_blocks, max_blocks=min(max_blocks, most_blocks),
            n_folds=round(1 / held_out), ridge=ridge, damping=damping, gate=gate, seed=seed,
            restarts=restarts, progress=progress,
        )  # fmt: skip


def geometry_partition(
    geometry: OutputGeometry,
    ids: np.ndarray,
    n_blocks: int | None,
    max_blocks: int,
    n_folds: int,
    *,
    ridge: float,
    damping: float,
    gate: str,
    seed: int,
    restarts: int,
    weight: Float[Tensor, " n"] | None = None,
    progress: Progress = silent,
) -> Partition:
    """Divide samples whose geometry, of a model linear in its weights, is already computed."""
    # weight, of mean 1, counts in every fit but that of influence_blocks, which is a start.
    folds = fold_numbers(geometry.targets, geometry.loss, n_folds, seed)
    counts = range(n_blocks or 1, (n_blocks or max_blocks) + 1)
    gate_restarts = restarts
    if geometry.features.n_parameters <= MOST_NEWTON:
        gate_restarts = GATE_RESTARTS * restarts
    problems = []
    if gate != "on":
        problems.append((mixture_problem(geometry, ridge, None, weight), restarts))
    if gate != "off":
        problem = mixture_problem(geometry, ridge, gate_inputs(geometry), weight)
        problems.append((problem, gate_restarts))
    choices = list[Choice]()
    for problem, n_restarts in problems:
        choices.append(choose_blocks(
            problem, counts, folds, restarts=n_restarts, seed=seed, progress=progress,
            single=take_first(choices),
        ))  # fmt: skip
    # The first is without a gate, the last with one; where one alone is asked for, they are one.
    gate_gains = is_better(choices[-1].chosen_held_out, choices[0].chosen_held_out, weight)
    index = -1 if gate_gains else 0
    problem, _ = problems[index]
    choice = choices[index]
    mixture = choice.mixture
    held_out = choice.chosen_held_out
    start = "random"
    is_hard = False
    if choice.n_blocks > 1:
        blocks = influence_blocks(
            geometry, choice.n_blocks, ridge=ridge, damping=damping, progress=progress
        )
        hard = reassign_blocks(geometry, blocks, ridge, weight)
        n_empty = choice.n_blocks - hard.responsibility.shape[1]
        by_k = {choice.n_blocks: functional.pad(hard.responsibility, (0, n_empty))}
        warm = choose_blocks(problem, [choice.n_blocks], folds, restarts=0, seed=seed, starts=by_k)
        if weighted_mean(warm.chosen_held_out, weight) > weighted_mean(held_out, weight):
            mixture = warm.mixture
            held_out = warm.chosen_held_out
            start = "influence"
        is_hard = _is_hard_better(geometry, hard, held_out, folds == 0, ridge, weight)
        if is_hard:
            mixture = hard
            start = "influence"
    block = mixture.responsibility.argmax(1)
    members = [(block == k).nonzero()[:, 0] for k in range(len(mixture.mixing))]
    variances = [
        _measure(geometry.subset(m), ridge, damping) if len(m) > 1 else 0.0 for m in members
    ]
    return Partition(
        block=block.numpy(),
        responsibility=mixture.responsibility.numpy(),
        ids=ids,
        variance=np.array(variances),
        variance_together=_measure(geometry, ridge, damping),
        held_out={k: weighted_mean(v, weight) for k, v in choice.held_out.items()},
        is_gated=mixture.gate.numel() > 0,
        start=start,
        is_hard=is_hard,
        mixture=mixture,
    )


def _is_hard_better(
    geometry: OutputGeometry,
    hard: Mixture,
    held_out: Float[Tensor, " n"],
    is_test: Bool[Tensor, " n"],
    ridge: float,
    weight: Float[Tensor, " n"] | None,
) -> bool:
    """Return whether a mixture with one block per sample predicts the test samples better."""
    test_idx = is_test.nonzero()[:, 0]
    train_idx = (~is_test).nonzero()[:, 0]
    block = hard.responsibility.argmax(1)[train_idx]
    train_weight = select_rows(weight, train_idx)
    model = reassign_blocks(geometry.subset(train_idx), block, ridge, train_weight)
    test = geometry.subset(test_idx)
    log_likelihood = model.joint(test.features, test.targets, test.loss).logsumexp(1)
    return is_better(log_likelihood, held_out[test_idx], select_rows(weight, test_idx))


def mixture_problem(
    geometry: OutputGeometry,
    ridge: float,
    gate_inputs: Float[Tensor, "n g"] | None,
    weight: Float[Tensor, " n"] | None = None,
) -> MixtureProblem:
    """Return the problem of fitting a mixture to these samples."""
    return MixtureProblem(
        geometry.features, geometry.targets, geometry.loss, ridge, gate_inputs, weight=weight
    )


def gate_inputs(geometry: OutputGeometry) -> Float[Tensor, "n g"]:
    """Return the gate's inputs: those of the layer that trains, and a column of ones."""
    assert isinstance(geometry.features, SharedFeatures)
    x = geometry.features.x
    has_ones = bool((x[:, -1] == 1).all())
    if has_ones:
        return x
    return torch.cat([x, x.new_ones(len(x), 1)], 1)


def _measure(geometry: OutputGeometry, ridge: float, damping: float) -> float:
    """Return V, the influence variance of a single model; 0 if below rounding."""
    refit = geometry.move_to(
        fit_convex(geometry.features, geometry.targets, geometry.loss, ridge).weights[0]
    )
    try:
        return influence_variance(geometry_influence(refit, np.arange(len(refit)), ridge, damping))
    except DataError:
        return 0.0


@checks_arguments
def agreement(partition: Partition, train: SampleSet) -> float:
    """Compute the adjusted Rand index of blocks and sources: 1 if equal, about 0 by chance.

    Args:
        partition: the blocks.
        train: what was divided, with `source`.

    Returns:
        The index (Hubert and Arabie, 1985).

    Raises:
        DataError: the samples have no source, or their number differs.
    """
    from sklearn.metrics import adjusted_rand_score  # slow to import

    source = _get_sources(train)
    if len(partition.block) != len(source):
        raise DataError(
            f"samples must be those that were divided, {len(partition.block)}; got {len(source)}."
        )
    return float(adjusted_rand_score(source, partition.block))


@checks_arguments
def oracle_agreement(
    model: nn.Module,
    train: SampleSet,
    *,
    loss: str = Division.loss,
    ridge: float = Division.ridge,
    is_gated: bool = False,
    seed: int = Division.seed,
) -> float:
    """Compute `agreement` when models (and shares) fitted to the true blocks assign the samples.

    It is below 1 where two blocks' rules give an input the same target, as nothing tells them apart
    there. A sample is assigned by models that did not see it: one that did would claim it.

    Args:
        model: as `partition` takes it.
        train: with `source`.
        loss: as `partition` takes it.
        ridge: of each model.
        is_gated: whether the share of a block may depend on the input.
        seed: of the ten folds.

    Returns:
        The adjusted Rand index, as `agreement` gives it.

    Raises:
        DataError: the samples have no source.
    """
    from sklearn.metrics import adjusted_rand_score

    source = _get_sources(train)
    block = torch.from_numpy(np.unique(source, return_inverse=True)[1])
    geometry = output_geometry(model, train, loss)
    problem = mixture_problem(geometry, ridge, gate_inputs(geometry) if is_gated else None)
    folds = fold_numbers(geometry.targets, geometry.loss, TRUE_FOLDS, seed)
    joint = held_out_joint(problem, functional.one_hot(block).double(), folds)
    return float(adjusted_rand_score(source, joint.argmax(0).numpy()))


def _get_sources(train: SampleSet) -> np.ndarray:
    """Return each sample's source, [n]; raise if samples have no sources."""
    if train.source is None:
        raise DataError(
            "samples must have a source, so that blocks can be compared with it; got none. Load "
            "them with source=..."
        )
    return train.source
