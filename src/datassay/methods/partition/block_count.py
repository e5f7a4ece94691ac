"""Find blocks: their number by held-out likelihood, and a start by influence.

By influence: purify, purify what was left out, and so on; then reassign until stable.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from datassay.collect.curvature.output_geometry import OutputGeometry, SharedFeatures
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.methods.partition.mixture import (
    MAX_ITERATIONS,
    Mixture,
    MixtureProblem,
    fit_mixture,
    log_densities,
    log_prior,
)
from datassay.methods.purify.loop import purify
from datassay.models.networks import seeded
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.score.labels.likelihood import by_class
from datassay.train.convex import fit_convex

# A block more must raise the held-out log-likelihood by this, nats per sample, whatever its error:
# in draws other than those reported a true block gained 0.1 or more, a spurious one up to 0.011,
# with a gate up to 0.033.
LEAST_GAIN = 0.05
# A block of fewer samples is no block: its own model and its variance mean nothing.
LEAST_IN_BLOCK = 20
MAX_REASSIGNMENTS = 50


@result
class Choice:
    """Mixtures with several numbers of blocks, and the number chosen.

    Attributes:
        mixtures: by K, fitted to all samples.
        held_out: by K, [n], log p(y_i|x_i) under the fit without the fold of i, nats.
        n_blocks: the chosen K.
    """

    mixtures: dict[int, Mixture]
    held_out: dict[int, Float[Tensor, " n"]]
    n_blocks: int

    @property
    def mixture(self) -> Mixture:
        """The mixture with the chosen number of blocks."""
        return self.mixtures[self.n_blocks]

    @property
    def chosen_held_out(self) -> Float[Tensor, " n"]:
        """Held-out log-likelihoods of the chosen mixture."""
        return self.held_out[self.n_blocks]


def choose_blocks(
    problem: MixtureProblem,
    counts: Sequence[int],
    folds: Int[Tensor, " n"],
    *,
    restarts: int,
    seed: int,
    starts: dict[int, Float[Tensor, "n K"]] | None = None,
    single: Choice | None = None,
    progress: Progress = silent,
) -> Choice:
    """Return mixtures of rising K, and the smallest K that is no worse than the best held out."""
    # K rises through `counts` until a mixture is not better than the one before. `single` already
    # holds K = 1, where a gate changes nothing; `starts` holds responsibilities by K.
    mixtures: dict[int, Mixture] = {}
    held_out: dict[int, Tensor] = {}
    previous_held_out = None
    for done, k in enumerate(counts):
        if single is not None and k == 1:
            mixtures[k] = single.mixtures[k]
            held_out[k] = single.held_out[k]
        else:
            k_starts = [starts[k]] if starts and k in starts else []
            n_restarts = restarts if k > 1 else 1
            mixtures[k] = fit_mixture(problem, k, restarts=n_restarts, seed=seed, starts=k_starts)
            start = mixtures[k].responsibility
            held_out[k] = held_out_joint(problem, start, folds, MAX_ITERATIONS).logsumexp(0)
        progress("choose the number of blocks", done + 1, len(counts))
        previous = previous_held_out
        previous_held_out = held_out[k]
        if previous is not None and not is_better(held_out[k], previous, problem.weight):
            break
    weight = problem.weight
    best_k = max(held_out, key=lambda k: weighted_mean(held_out[k], weight))
    best_held_out = held_out[best_k]
    smallest_k = next(k for k in held_out if not is_better(best_held_out, held_out[k], weight))
    return Choice(mixtures, held_out, smallest_k)


def is_better(
    likelihood: Float[Tensor, " n"],
    reference: Float[Tensor, " n"],
    weight: Float[Tensor, " n"] | None = None,
) -> bool:
    """Return whether mean log-likelihood is higher by a standard error and by LEAST_GAIN."""
    gain = likelihood - reference
    mean = weighted_mean(gain, weight)
    n = len(gain)
    # The error of a weighted mean: unequal weights raise it.
    if weight is None:
        share = torch.full_like(gain, 1 / n)
    else:
        share = weight / weight.sum()
    error = float(((share * (gain - mean)).square().sum() * n / max(1, n - 1)).sqrt())
    return mean > max(LEAST_GAIN, error)


def weighted_mean(values: Float[Tensor, " n"], weight: Float[Tensor, " n"] | None) -> float:
    """Return the mean of values that count by their weights; None: all alike."""
    if weight is None:
        return float(values.mean())
    return float((values * weight).sum() / weight.sum())


def held_out_joint(
    problem: MixtureProblem,
    responsibility: Float[Tensor, "n K"],
    folds: Int[Tensor, " n"],
    iterations: int = 0,
) -> Float[Tensor, "K n"]:
    """Return log π_k + log p_k(y_i|x_i), [K, n], by mixtures fitted without each fold."""
    # Every fold starts at `responsibility`, of the mixture of all samples: cold restarts in each
    # often end elsewhere, and then compare optima and not numbers of blocks. So held-out samples
    # decide which optimum it is, but none of its weights.
    n_folds = int(folds.max()) + 1
    train_weight = (folds != torch.arange(n_folds)[:, None]) * problem.sample_weight  # [F, n]
    start = responsibility.T.expand(n_folds, -1, -1).contiguous()
    if not iterations:  # then the models fitted to `responsibility` are asked for, not a start
        problem = replace(problem, is_exact=True)
    runs = problem.advance(problem.fit_to(start, train_weight), iterations)
    joint = log_prior(runs.mixing, runs.gate, problem.gate_inputs) + log_densities(
        problem.features.outputs(runs.weights), problem.targets, problem.loss, runs.noise
    )
    return joint[folds, :, torch.arange(len(folds))].T


def influence_blocks(
    geometry: OutputGeometry,
    n_blocks: int,
    *,
    ridge: float,
    damping: float,
    progress: Progress = silent,
) -> Int[Tensor, " n"]:
    """Return each sample's block, [n]: `purify` keeps one block after another."""
    block = torch.full((len(geometry),), n_blocks - 1)
    open_idx = torch.arange(len(geometry))
    for k in range(n_blocks - 1):
        remaining = geometry.subset(open_idx)
        if len(open_idx) < LEAST_IN_BLOCK or (remaining.targets == remaining.targets[:1]).all():
            break
        model, samples = _to_linear_model(remaining)
        options = {"loss": geometry.loss, "ridge": ridge, "damping": damping, "order": "fixed"}
        try:
            kept_idx = purify(model, samples, **options).keep
        except DataError:  # V is 0, so no removal can lower it: keep all
            kept_idx = np.arange(len(remaining))
        block[open_idx[kept_idx]] = k
        open_idx = open_idx[np.setdiff1d(np.arange(len(remaining)), kept_idx)]
        progress("purify", k + 1, n_blocks)
    return block


def _to_linear_model(geometry: OutputGeometry) -> tuple[nn.Module, SampleSet]:
    """Return a linear model and samples with this geometry, as `purify` needs them."""
    assert isinstance(geometry.features, SharedFeatures)
    x = geometry.features.x
    n, k = geometry.targets.shape
    with seeded(0):  # fits start at 0: nothing follows from these weights
        model = nn.Linear(x.shape[1], k, bias=False).double()
    names = ()
    if geometry.kind.has_one_class:
        names = tuple(map(str, range(max(2, k))))
    y = geometry.targets
    if names:
        y = by_class(y).argmax(1)
    return model, SampleSet(x.numpy(), y.numpy(), np.arange(n), class_names=names)


def reassign_blocks(
    geometry: OutputGeometry,
    block: Int[Tensor, " n"],
    ridge: float,
    weight: Float[Tensor, " n"] | None = None,
) -> Mixture:
    """Return the mixture after moving samples to their best model until none moves."""
    member = _mark_members(block)
    mixture = start = None
    for _ in range(MAX_REASSIGNMENTS):
        mixture = _fit_hard_mixture(geometry, member, ridge, start, weight)
        joint = mixture.joint(geometry.features, geometry.targets, geometry.loss)
        new_member = _mark_members(joint.argmax(1), len(member))
        if (new_member.sum(1) < LEAST_IN_BLOCK).any() or (new_member == member).all():
            break
        member = new_member
        start = mixture.weights
    assert mixture is not None
    return mixture


def _mark_members(block: Int[Tensor, " n"], n_blocks: int | None = None) -> Float[Tensor, "K n"]:
    """Return 1 where sample i is in block k, else 0, [K, n]."""
    if n_blocks is None:
        block = block.unique(return_inverse=True)[1]
        n_blocks = int(block.max()) + 1
    return functional.one_hot(block, n_blocks).T.double()


def _fit_hard_mixture(
    geometry: OutputGeometry,
    member: Float[Tensor, "K n"],
    ridge: float,
    start: Tensor | None,
    weight: Float[Tensor, " n"] | None,
) -> Mixture:
    """Fit a mixture in which each sample belongs to one block alone."""
    sample_weight = member  # [K, n]
    if weight is not None:
        sample_weight = member * weight
    weights = fit_convex(
        geometry.features, geometry.targets, geometry.loss, ridge, sample_weight=sample_weight,
        start=start,
    ).weights  # fmt: skip
    outputs = geometry.features.outputs(weights)
    noise = torch.ones(len(member), dtype=torch.float64)
    if not geometry.kind.has_one_class:
        losses = 2 * geometry.kind.value(outputs, geometry.targets) / outputs.shape[-1]
        # The prior weight of one sample, spread over all, as in the soft mixture.
        mass = sample_weight + 1 / len(geometry)
        noise = (losses * mass).sum(1) / mass.sum(1)
    mixing = sample_weight.mean(1)
    log_joint = mixing.log()[:, None] + log_densities(
        outputs, geometry.targets, geometry.loss, noise
    )
    log_likelihood = weighted_mean(log_joint.logsumexp(0), weight)
    order = mixing.argsort(descending=True, stable=True)
    return Mixture(
        weights[order], mixing[order], noise[order], weights.new_zeros(len(member), 0),
        member[order].T.contiguous(), log_likelihood, torch.tensor([log_likelihood]),
        converged=True,
    )  # fmt: skip
