"""Two judges of each label as one: ridge outputs beside another model's class probabilities."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Smaller probabilities count as this: folds of a few thousand samples know no smaller ones.
LEAST_PROBABILITY = 1e-4
# A prior of the weights, nats a sample, where either judge alone separates the classes.
WEAK = 1e-6
STEPS, STILL = 60, 1e-12


def log_probabilities(probabilities: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """Logarithms of class probabilities, none below LEAST_PROBABILITY.

    Args:
        probabilities: held out; rows sum to 1.

    Returns:
        Their logarithms, float64.
    """
    return probabilities.double().clamp_min(LEAST_PROBABILITY).log()


def judge_weight(
    held_out: Float[Tensor, "n k"], log_p: Float[Tensor, "n k"], labels: Int[Tensor, " n"]
) -> float:
    """How much a nat of the other model's log probability counts beside one unit of the outputs.

    softmax(a f + w log p + c log π), π the shares of the classes, is fitted to the labels; both
    judges are held out, so the fit says what each adds to the other.

    Args:
        held_out: outputs f of the ridge fit.
        log_p: of the other model.
        labels: given.

    Returns:
        w / a: 0 where the other model adds nothing, infinite where the outputs add nothing.

    Cost: at most 60 Newton steps of about 20 n k operations.
    Source: stacking (Wolpert 1992) by maximum likelihood.
    """
    n, k = held_out.shape
    share = labels.bincount(minlength=k).double().clamp_min(0.5) / n
    judged = torch.stack([held_out, log_p, share.log().expand(n, k)], 2)  # [n, k, 3]
    given = torch.nn.functional.one_hot(labels, k).double()
    weights = torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64)

    def loss(weights: Float[Tensor, "3"]) -> float:
        fit = (torch.log_softmax(judged @ weights, 1) * given).sum()
        return float(WEAK * n * weights.square().sum() - fit)

    for _ in range(STEPS):
        p = torch.softmax(judged @ weights, 1)
        gradient = torch.einsum("nk,nkj->j", p - given, judged) + 2 * WEAK * n * weights
        mean = torch.einsum("nk,nkj->nj", p, judged)
        hessian = torch.einsum("nk,nki,nkj->ij", p, judged, judged) - mean.T @ mean
        hessian.diagonal().add_(2 * WEAK * n)
        step = torch.linalg.solve(hessian, gradient)
        now, size = loss(weights), 1.0
        while loss(weights - size * step) > now and size > STILL:
            size /= 2
        weights = weights - size * step
        if float(step.abs().max()) < STILL:
            break
    a, w = float(weights[0]), float(weights[1])
    if w <= 0:
        return 0.0
    return w / a if a > 0 else float("inf")
