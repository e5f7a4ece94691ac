"""Choose the number of blocks by held-out likelihood."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.act.partition.mixture import (
    MAX_ITERATIONS,
    Mixture,
    MixtureProblem,
    fit_mixture,
    log_densities,
    log_prior,
)
from datassay.progress import Progress, silent
from datassay.results import result

# A block more must raise the held-out log-likelihood by this, nats a sample, whatever its error: in
# draws other than those reported a true block gained 0.1 or more, a spurious one up to 0.011, with
# a gate up to 0.033.
LEAST_GAIN = 0.05


@result
class Choice:
    """The mixtures tried, one a number of blocks.

    Attributes:
        mixtures: by K, fitted to all samples.
        held_out: by K, [n], log p(y_i|x_i) under the fit without the fold of i, nats.
        best: the K chosen.
    """

    mixtures: dict[int, Mixture]
    held_out: dict[int, Float[Tensor, " n"]]
    best: int

    @property
    def mixture(self) -> Mixture:
        """The chosen one."""
        return self.mixtures[self.best]

    @property
    def chosen_held_out(self) -> Float[Tensor, " n"]:
        """Its held-out log-likelihoods."""
        return self.held_out[self.best]


def choose_blocks(
    problem: MixtureProblem,
    counts: Sequence[int],
    folds: Int[Tensor, " n"],
    *,
    restarts: int,
    seed: int,
    starts: dict[int, Float[Tensor, "n K"]] | None = None,
    progress: Progress = silent,
) -> Choice:
    """Fit a mixture for each K in turn until one is no better than the one before."""
    # Cost: for each K one `fit_mixture` and a warm fit for each fold.
    mixtures: dict[int, Mixture] = {}
    held_out: dict[int, Tensor] = {}
    last = None
    for done, k in enumerate(counts):
        own = [starts[k]] if starts and k in starts else []
        mixtures[k] = fit_mixture(
            problem.features,
            problem.targets,
            problem.loss,
            k,
            ridge=problem.ridge,
            gate_inputs=problem.gate_inputs,
            restarts=restarts if k > 1 else 1,
            seed=seed,
            starts=own,
        )
        held_out[k] = held_out_log_likelihood(problem, mixtures[k].responsibility, folds)
        progress("choose the number of blocks", done + 1, len(counts))
        if last is not None and held_out[k].mean() < held_out[last].mean():
            break
        last = k
    return Choice(mixtures, held_out, _smallest_good(held_out))


def is_better(likelihood: Float[Tensor, " n"], than: Float[Tensor, " n"]) -> bool:
    """Whether the first held-out log-likelihood is higher by a standard error and LEAST_GAIN."""
    gain = likelihood - than
    return bool(gain.mean() > max(LEAST_GAIN, float(gain.std() / len(gain) ** 0.5)))


def _smallest_good(held_out: dict[int, Float[Tensor, " n"]]) -> int:
    best = max(held_out, key=lambda k: float(held_out[k].mean()))
    return next(k for k in held_out if not is_better(held_out[best], held_out[k]))


def fold_numbers(
    targets: Float[Tensor, "n k"], loss: str, n_folds: int, seed: int
) -> Int[Tensor, " n"]:
    """Assign samples to folds at random and evenly, stratified by class."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(targets))
    if loss == "cross_entropy":
        label = (targets * torch.arange(1, targets.shape[1] + 1)).sum(1).numpy()
        order = order[np.argsort(label[order], kind="stable")]
    numbers = np.empty(len(targets), dtype=np.int64)
    numbers[order] = np.arange(len(targets)) % n_folds
    return torch.from_numpy(numbers)


def held_out_log_likelihood(
    problem: MixtureProblem,
    responsibility: Float[Tensor, "n K"],
    folds: Int[Tensor, " n"],
    progress: Progress = silent,
) -> Float[Tensor, " n"]:
    """Log p(y_i|x_i) under the mixture that was fitted without the fold of i."""
    # Cost: one run a fold, all in one batch.
    n_folds = int(folds.max()) + 1
    training = (folds != torch.arange(n_folds)[:, None]).to(problem.targets.dtype)  # [F, n]
    start = responsibility.T.expand(n_folds, -1, -1).contiguous()
    runs = problem.advance(problem.fitted(start, training), MAX_ITERATIONS, progress)
    outputs = problem.features.outputs(runs.weights)
    joint = log_prior(runs.mixing, runs.gate, problem.gate_inputs) + log_densities(
        outputs, problem.targets, problem.loss, runs.noise
    )
    return joint.logsumexp(1)[folds, torch.arange(len(folds))]
