"""Held-out log-likelihood of a mixture; it chooses K, the gate and the start."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.act.partition.mixture import MAX_ITERATIONS, MixtureProblem, log_densities, log_prior
from datassay.progress import Progress, silent


def fold_numbers(
    targets: Float[Tensor, "n k"], loss: str, n_folds: int, seed: int
) -> Int[Tensor, " n"]:
    """Assign samples to folds at random and evenly, stratified by class.

    Args:
        targets: as `output_losses` takes them.
        loss: "cross_entropy" or "mse".
        n_folds: F.
        seed: of the draw.

    Returns:
        Numbers in 0..F−1.
    """
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
    """Log p(y_i|x_i) under the mixture that was fitted without the fold of i.

    Args:
        problem: the samples and how they are fitted.
        responsibility: of the mixture of all samples, where every fold starts: cold restarts in
            each fold often end elsewhere, and then compare optima and not numbers of blocks. What
            the held-out samples contributed is which optimum, nothing of its weights.
        folds: from `fold_numbers`.
        progress: called with (step, iterations done, iterations at most).

    Returns:
        Nats.

    Cost: one run a fold, all in one batch.
    """
    n_folds = int(folds.max()) + 1
    training = (folds != torch.arange(n_folds)[:, None]).to(problem.targets.dtype)  # [F, n]
    start = responsibility.T.expand(n_folds, -1, -1).contiguous()
    runs = problem.advance(problem.fitted(start, training), MAX_ITERATIONS, progress)
    outputs = problem.features.outputs(runs.weights)
    joint = log_prior(runs.mixing, runs.gate, problem.gate_inputs) + log_densities(
        outputs, problem.targets, problem.loss, runs.noise
    )
    return joint.logsumexp(1)[folds, torch.arange(len(folds))]
