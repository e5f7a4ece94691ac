"""Calibration and label noise together, by maximum likelihood of the given labels.

P(given y | held-out outputs f) = Σ_c p[c] T[c, y] with p = softmax(a f + W f + b), the
probabilities of the true class. Under the fit, P(true c | given y) ∝ p[c] T[c, y].

Its derivatives are in closed form, for Newton's method. With q the posterior and p the calibrated
probabilities of a sample, and z = a f + W f + b:
∂L/∂z = q − p,  ∂²L/∂z² = [diag(q) − qqᵀ] − [diag(p) − ppᵀ],  and for the odds u (T = softmax(u)):
∂L/∂u[c, l] = q[c] (1[l = y] − T[c, l]). Derivatives with respect to a, W, b and θ follow by the
chain rule; sums over samples are taken per given label, so that k⁵ and not n k⁴ terms are formed
for T.
"""

from __future__ import annotations

from math import log
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.results import result
from datassay.score.labels.transitions import NoiseForm, evenly
from datassay.score.linear.panels import panels


def derivatives(
    inputs: Float[Tensor, "n inputs"],
    labels: Int[Tensor, " n"],
    log_p: Float[Tensor, "n k"],
    log_posterior: Float[Tensor, "n k"],
    transition: Float[Tensor, "k k"],
) -> tuple[Float[Tensor, " all"], Float[Tensor, "all all"]]:
    """Gradient and Hessian of the log-likelihood with respect to the mixing matrix and to u.

    Args:
        inputs: f, and 1 for the intercepts.
        labels: given.
        log_p: from the calibration.
        log_posterior: of the true class.
        transition: T.

    Returns:
        Both, of (mixing [inputs, k], u [k, k]) laid out one after the other.

    Cost: 2 n inputs² k² operations and n inputs k² values.
    """
    k = transition.shape[0]
    p, q = log_p.exp(), log_posterior.exp()
    spread = _covariances(q)
    curvature = spread - _covariances(p)  # [n, k, k]
    pairs = (inputs[:, :, None] * inputs[:, None]).flatten(1)
    mixing = (pairs.T @ curvature.flatten(1)).reshape(inputs.shape[1], inputs.shape[1], k, k)
    mixing = mixing.permute(0, 2, 1, 3).reshape(inputs.shape[1] * k, -1)
    # Sums over the samples of each given label y; move[y, c, l] = 1[l = y] − T[c, l].
    move = torch.eye(k, dtype=torch.float64)[:, None, :] - transition
    by_label = torch.zeros(k, k, k, dtype=torch.float64).index_add_(0, labels, spread)
    weighted = (inputs[:, :, None, None] * spread[:, None]).flatten(1)
    crossed = torch.zeros(k, weighted.shape[1], dtype=torch.float64)
    crossed = crossed.index_add_(0, labels, weighted).reshape(k, inputs.shape[1] * k, k)
    cross = torch.einsum("yac,ycl->acl", crossed, move).flatten(1)
    noise = torch.einsum("ycd,ycl,ydm->cldm", by_label, move, move)
    counts = torch.zeros(k, k, dtype=torch.float64).index_add_(0, labels, q).T  # [true, given]
    rows = counts.sum(1)
    noise -= _on_diagonal(rows[:, None, None] * _covariances(transition))
    hessian = torch.cat([
        torch.cat([mixing, cross], 1),
        torch.cat([cross.T, noise.reshape(k * k, -1)], 1),
    ])
    gradient = torch.cat([
        (inputs.T @ (q - p)).flatten(),
        (counts - rows[:, None] * transition).flatten(),
    ])
    return gradient, hessian


def prior_derivatives(
    transition: Float[Tensor, "k k"], right: float, other: float
) -> tuple[Float[Tensor, " u"], Float[Tensor, "u u"]]:
    """The same of right Σ_c log T[c, c] + other / k Σ log T, with respect to u."""
    k = len(transition)
    gradient = right * torch.eye(k, dtype=torch.float64) + other / k - (right + other) * transition
    hessian = -(right + other) * _on_diagonal(_covariances(transition))
    return gradient.flatten(), hessian.reshape(k * k, -1)


def _covariances(p: Float[Tensor, "m k"]) -> Float[Tensor, "m k k"]:
    return torch.diag_embed(p) - p[:, :, None] * p[:, None]


def _on_diagonal(blocks: Float[Tensor, "c k k"]) -> Float[Tensor, "c k c k"]:
    """Blocks of one class each, in a matrix over classes and labels."""
    return torch.einsum("clm,cd->cldm", blocks, torch.eye(len(blocks), dtype=torch.float64))


Calibration = Literal["temperature", "intercepts", "matrix"]
# Weak normal priors: of W and b about 0, of log a about log 8, since held-out outputs lie near
# [0, 1]. Without it a would be 0 where the inputs tell nothing of the labels, and so all scores.
MATRIX_SPREAD, SCALE, SCALE_SPREAD = 3.0, 8.0, 3.0
# Pseudo-counts of a Dirichlet prior of each row of T: of the right label, and of all labels.
RIGHT_COUNT, OTHER_COUNT = 5.0, 1.0
# Where EM starts, and its rounds.
SCALES, FIRST_RATE, EM_ROUNDS = (3.0, 8.0, 24.0), 0.1, 30
MOST_STEPS = 200
# Newton's method to the last digits: steps, the gradient a sample that is 0, work of a Hessian.
NEWTON_STEPS, SMALLEST_GRADIENT, MOST_WORK = 20, 1e-15, 1e11


@result
class Calibrated:
    """Calibrated probabilities and the label noise found with them.

    Attributes:
        form: of the noise.
        calibration: of the outputs.
        log_likelihood: of the given labels, nats.
        log_p: log probability of each true class from the outputs alone, [n, k].
        log_posterior: the same, the given label known, [n, k].
        transition: T, [k, k].
        scale: a.
        matrix: W, [k, k]; 0 without "matrix".
        intercepts: b, [k]; 0 for "temperature".
    """

    form: NoiseForm
    calibration: Calibration
    log_likelihood: float
    log_p: Float[Tensor, "n k"]
    log_posterior: Float[Tensor, "n k"]
    transition: Float[Tensor, "k k"]
    scale: float
    matrix: Float[Tensor, "k k"]
    intercepts: Float[Tensor, " k"]


def calibrate(
    outputs: Float[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    form: NoiseForm,
    calibration: Calibration,
    transition: Float[Tensor, "k k"],
    start: Calibrated | float,
) -> Calibrated:
    """Fit the calibration and the noise of one form."""
    n, k = outputs.shape
    free = _start(form, transition, start, k)
    used = [free["theta"], free["log_scale"]]
    used += [free["intercepts"]] * (calibration != "temperature")
    used += [free["matrix"]] * (calibration == "matrix")
    for parameter in used:
        parameter.requires_grad_(True)
    optimizer = torch.optim.LBFGS(
        used, max_iter=MOST_STEPS, line_search_fn="strong_wolfe", history_size=20,
        tolerance_change=1e-9, tolerance_grad=1e-6,
    )  # fmt: skip

    def loss() -> Tensor:
        optimizer.zero_grad()
        log_p, log_t = _log_p(outputs, free), form.log_transition(free["theta"])
        likelihood = torch.logsumexp(log_p + log_t.T[labels], 1).sum()
        value = (_penalty(form, free, log_t) - likelihood) / n
        value.backward()
        return value

    optimizer.step(loss)  # pyright: ignore[reportArgumentType]
    return _fit_of(outputs, labels, form, calibration, free)


def polished(
    fit: Calibrated, outputs: Float[Tensor, "n k"], labels: Int[Tensor, " n"]
) -> Calibrated:
    """The same maximum by Newton's method, to the last digits, whatever the order of rows."""
    # The fit where the gradient vanishes; the given one where Newton's steps do not come nearer, or
    # where the Hessian would take more than `MOST_WORK` operations.
    n, k = outputs.shape
    if 2.0 * n * k**4 > MOST_WORK:
        return fit
    gradient, hessian = _objective(fit, outputs, labels)
    for _ in range(NEWTON_STEPS):
        if float(gradient.abs().max()) < SMALLEST_GRADIENT * n:
            break
        step, singular = torch.linalg.solve_ex(hessian, gradient)
        if singular:
            break
        moved = _moved(fit, step, outputs, labels)
        there = _objective(moved, outputs, labels)
        if not there[0].abs().max() < gradient.abs().max():  # nor where it is no number
            break
        fit, (gradient, hessian) = moved, there
    return fit


def _fit_of(
    outputs: Tensor,
    labels: Tensor,
    form: NoiseForm,
    calibration: Calibration,
    free: dict[str, Tensor],
) -> Calibrated:
    free = {name: value.detach() for name, value in free.items()}
    log_p, log_t = _log_p(outputs, free), form.log_transition(free["theta"])
    joint = log_p + log_t.T[labels]
    each = torch.logsumexp(joint, 1)
    return Calibrated(
        form=form,
        calibration=calibration,
        log_likelihood=float(each.sum()),
        log_p=log_p,
        log_posterior=joint - each[:, None],
        transition=log_t.exp(),
        scale=float(free["log_scale"].exp()),
        matrix=free["matrix"],
        intercepts=free["intercepts"],
    )


def _objective(
    fit: Calibrated, outputs: Tensor, labels: Tensor
) -> tuple[Float[Tensor, " size"], Float[Tensor, "size size"]]:
    """Gradient and Hessian of log-likelihood and priors, of (log a, b, W, θ) that are fitted."""
    k = outputs.shape[1]
    inputs = torch.cat([outputs, torch.ones_like(outputs[:, :1])], 1)
    transition = fit.transition
    gradient, hessian = 0.0, 0.0
    for part in panels(len(inputs), inputs.shape[1] * k * k):  # sums over samples
        some = (inputs[part], labels[part], fit.log_p[part], fit.log_posterior[part])
        of_part = derivatives(*some, transition)
        gradient, hessian = gradient + of_part[0], hessian + of_part[1]
    assert isinstance(gradient, Tensor) and isinstance(hessian, Tensor)
    share = min(1.0, fit.form.size / k)
    prior = prior_derivatives(transition, share * RIGHT_COUNT, share * OTHER_COUNT)
    gradient[-k * k :] += prior[0]
    hessian[-k * k :, -k * k :] += prior[1]
    chain = _chain(fit, k)
    gradient, hessian = chain.T @ gradient, chain.T @ hessian @ chain
    # log a enters through its exponential, and has its own prior.
    hessian[0, 0] += gradient[0]
    gradient[0] -= log(fit.scale / SCALE) / SCALE_SPREAD**2
    hessian[0, 0] -= SCALE_SPREAD**-2
    linear = torch.cat([fit.intercepts, fit.matrix.flatten()])[: _linear(fit, k)]
    gradient[1 : 1 + len(linear)] -= linear / MATRIX_SPREAD**2
    hessian.diagonal()[1 : 1 + len(linear)] -= MATRIX_SPREAD**-2
    return gradient, hessian


def _linear(fit: Calibrated, k: int) -> int:
    """Entries of b and W that are fitted."""
    return {"temperature": 0, "intercepts": k, "matrix": k + k * k}[fit.calibration]


def _chain(fit: Calibrated, k: int) -> Float[Tensor, "all size"]:
    """Derivatives of (mixing, u) with respect to (log a, b, W, θ)."""
    every = torch.eye((k + 1) * k, dtype=torch.float64)
    scale = fit.scale * torch.eye(k + 1, dtype=torch.float64)[:, :k].reshape(-1, 1)
    # The intercepts are the last row of the mixing matrix.
    linear = torch.cat([every[:, k * k :], every[:, : k * k]], 1)[:, : _linear(fit, k)]
    mixing = torch.cat([scale, linear], 1)
    ties = fit.form.ties.flatten()
    noise = (ties[:, None] == torch.arange(fit.form.size)).double()
    return torch.block_diag(mixing, noise)


def _moved(
    fit: Calibrated, step: Float[Tensor, " size"], outputs: Tensor, labels: Tensor
) -> Calibrated:
    k = outputs.shape[1]
    n_linear = _linear(fit, k)
    linear = torch.zeros(k + k * k, dtype=torch.float64)
    linear[:n_linear] = step[1 : 1 + n_linear]
    free = {
        "theta": fit.form.parameters(fit.transition) - step[1 + n_linear :],
        "log_scale": torch.tensor(fit.scale, dtype=torch.float64).log() - step[0],
        "matrix": fit.matrix - linear[k:].reshape(k, k),
        "intercepts": fit.intercepts - linear[:k],
    }
    return _fit_of(outputs, labels, fit.form, fit.calibration, free)


def _start(
    form: NoiseForm, transition: Tensor, start: Calibrated | float, k: int
) -> dict[str, Tensor]:
    if isinstance(start, Calibrated):
        scale, matrix, intercepts = start.scale, start.matrix.clone(), start.intercepts.clone()
    else:
        scale, matrix = start, torch.zeros(k, k, dtype=torch.float64)
        intercepts = torch.zeros(k, dtype=torch.float64)
    return {
        "theta": form.parameters(transition),
        "log_scale": torch.tensor(scale, dtype=torch.float64).log(),
        "matrix": matrix,
        "intercepts": intercepts,
    }


def _log_p(outputs: Float[Tensor, "n k"], free: dict[str, Tensor]) -> Float[Tensor, "n k"]:
    mixing = free["matrix"] + free["log_scale"].exp() * torch.eye(
        outputs.shape[1], dtype=torch.float64
    )
    return torch.log_softmax(outputs @ mixing + free["intercepts"], 1)


def _penalty(form: NoiseForm, free: dict[str, Tensor], log_t: Float[Tensor, "k k"]) -> Tensor:
    """−log of the priors."""
    k = len(log_t)
    spread = free["matrix"].square().sum() + free["intercepts"].square().sum()
    scale = ((free["log_scale"] - log(SCALE)) / SCALE_SPREAD).square()
    counts = RIGHT_COUNT * log_t.diagonal().sum() + OTHER_COUNT / k * log_t.sum()
    return (spread / MATRIX_SPREAD**2 + scale) / 2 - counts * min(1.0, form.size / k)


def first_guess(
    outputs: Float[Tensor, "n k"], labels: Int[Tensor, " n"]
) -> tuple[float, Float[Tensor, "k k"]]:
    """A scale a and transition matrix to start from: EM of the full form at a few scales."""
    # Source: METHODS §2b.
    k = outputs.shape[1]
    best, results = -torch.inf, (SCALES[0], torch.eye(k, dtype=torch.float64))
    for scale in SCALES:
        p = torch.softmax(scale * outputs, 1)
        transition = evenly(k, FIRST_RATE)
        likelihood = -torch.inf
        for _ in range(EM_ROUNDS):
            joint = p * transition.T[labels]
            each = joint.sum(1, keepdim=True)
            likelihood = float(each.log().mean())
            counts = torch.zeros(k, k, dtype=torch.float64)
            counts.index_add_(0, labels, joint / each)
            counts = counts.T + OTHER_COUNT / k + RIGHT_COUNT * torch.eye(k, dtype=torch.float64)
            transition = counts / counts.sum(1, keepdim=True)
        if likelihood > best:
            best, results = likelihood, (scale, transition)
    return results
