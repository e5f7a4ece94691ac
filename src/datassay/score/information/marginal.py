"""Information against samples that could have stood in a sample's place (S1 eq. 1)."""

import math
from dataclasses import replace
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from torch import Tensor

from datassay import rules
from datassay.collect.linearization import Linearization
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, column, result, sample_ids
from datassay.score.information.groups import check_smoothing
from datassay.score.information.weights import weight_axes, weight_changes
from datassay.score.linear.eigenbasis import Eigenbasis, eigenbasis
from datassay.score.linear.training_run import Dynamics, TrainingRun, training_run
from datassay.score.settings import Run, Smoothing

CHUNK_VALUES = 2**23  # exponents that are held at once


@result
class MarginalInformation(Tabular):
    """Information of each sample that was trained on, one row per sample.

    Attributes:
        information: [n], nats: KL(p(·|S) ‖ (1/q) Σ_j p(·|S₋ᵢ, z_j)) over the q fresh samples.
        standard_error: [n], nats, of its Monte Carlo integral.
        replaced: [n], nats: (1/q) Σ_j KL(p(·|S) ‖ p(·|S₋ᵢ, z_j)), closed form; never below
            information, by convexity.
        left_out: [n], nats: KL(p(·|S) ‖ p(·|S₋ᵢ)), closed form, as `sample_information` has it.
        ids: [n], of the samples that are not fresh.
        smoothing: "functional" or "isotropic".
        sigma: output unit (functional) or weight unit (isotropic).
        seed: of the integral.
    """

    information: Float[np.ndarray, " n"] = column(
        "what the sample tells, against others in its place",
        unit="nats",
        sign="high: more informative",
        name="marginal_information",
    )
    standard_error: Float[np.ndarray, " n"] = column(
        "standard error of marginal_information", unit="nats", joint="marginal_information_error"
    )
    replaced: Float[np.ndarray, " n"] = column(
        "mean divergence from the runs with another sample in its place", unit="nats"
    )
    left_out: Float[np.ndarray, " n"] = column(
        "divergence from the run without the sample", unit="nats"
    )
    ids: np.ndarray = sample_ids()
    smoothing: str
    sigma: float
    seed: int


def marginal_information(
    lin: Linearization,
    fresh: ArrayLike,
    *,
    smoothing: str = Smoothing.smoothing,
    sigma: float = Smoothing.sigma,
    draws: int = 200,
    seed: int = 0,
    progress: Progress = silent,
    **run: Unpack[Run],
) -> MarginalInformation:
    """Compute the information of a sample, the others known: unique information before its bound.

    I(z_i) = KL(p(w|S) ‖ r),  r = (1/q) Σ_j p(w|S₋ᵢ, z_j),  p(w|S) = N(w_S, σ² I)

    `sample_information` has KL(p(w|S) ‖ p(w|S₋ᵢ)) instead, which bounds the mean of I over samples
    drawn, not each I. Functional: the same of the outputs at each query, averaged over queries.

    Args:
        lin: the linearisation.
        fresh: [q] positions of samples that are left out of the training and stand for those that
            could have been in a sample's place.
        smoothing: "functional" (queries are the validation inputs, without any the fresh samples')
            or "isotropic".
        sigma: σ, output unit or weight unit.
        draws: pairs of opposite normal vectors that the integral is a mean over.
        seed: of these.
        progress: called with (step, fresh samples done, fresh samples in all).
        run: lr, steps, weight_decay, reduction and dynamics of `leave_one_out`, of the n samples
            that are not fresh; all runs have n samples, so one step serves all.

    Returns:
        Nats, with standard errors, and both closed forms.

    Raises:
        SettingError: fresh is no list of distinct positions or leaves fewer than two samples, or a
            setting is out of range.

    Cost: q decompositions and removals of n + 1 samples; n q p k values (p the kernel's rank) where
        isotropic, else n q m k, and draws times as many operations.
    Source: S1 eq. 1, p(w|S) the trained weights of the linearised network with noise added (eq. 4).
    Each run is exact; r over q samples in place of the population; the integral is Monte Carlo.
    """
    check_smoothing(smoothing, sigma)
    rules.at_least("draws", draws, 2)
    fresh_idx = _check_fresh(fresh, len(lin))
    train_idx = np.setdiff1d(np.arange(len(lin)), fresh_idx)
    basis = eigenbasis(lin)
    in_range = basis.eigenvalues > 0
    b = lin.rows_per_sample
    rows = basis.whole_rows()[..., in_range] * basis.metric[in_range].sqrt()  # Φ, [n, b, p]
    queries = None
    if smoothing == "functional":
        query_rows = basis.query_rows()[:, in_range] / basis.metric[in_range].sqrt()
        if lin.val_outputs is None:
            query_rows = rows[torch.from_numpy(fresh_idx)].flatten(0, 1)
        queries = query_rows.reshape(-1, b, rows.shape[2])
    training = training_run(_select(lin, rows, train_idx), **run)
    w_without, w = _fit_weights(training, rows[torch.from_numpy(train_idx)])
    m, k = _scale_changes(w[None], queries, sigma).shape[1:]
    shifts = torch.empty(len(train_idx), len(fresh_idx), m, k, dtype=torch.float64)
    for j, i in enumerate(fresh_idx):
        idx = np.append(train_idx, i)
        lin_j = _select(lin, rows, idx)
        run_j = TrainingRun(_decompose(lin_j, training.run), lin_j.residual, training.run, "sum")
        # All but the last sample, whose removal is the run on S again.
        replaced, _ = _fit_weights(run_j, rows[torch.from_numpy(idx)])
        shifts[:, j] = _scale_changes(replaced[:-1] - w, queries, sigma)
        progress("another sample in place of each", j + 1, len(fresh_idx))
    # KL(N(0, I) ‖ (1/q) Σ_j N(u_j, I)) of shifts u, mean over m, by each draw.
    noise = torch.from_numpy(np.random.default_rng(seed).standard_normal((draws, shifts.shape[3])))
    estimates = torch.stack([_draw_divergences(u.transpose(0, 1), noise) for u in shifts])
    return MarginalInformation(
        information=estimates.mean(1).numpy(),
        standard_error=(estimates.std(1) / math.sqrt(draws)).numpy(),
        replaced=shifts.square().sum(3).mean((1, 2)).numpy() / 2,
        left_out=_scale_changes(w_without - w, queries, sigma).square().sum(2).mean(1).numpy() / 2,
        ids=lin.ids[train_idx],
        smoothing=smoothing,
        sigma=float(sigma),
        seed=seed,
    )


def _check_fresh(fresh: ArrayLike, n: int) -> Int[np.ndarray, " q"]:
    """Return the positions of the fresh samples; raise unless they are distinct."""
    idx = np.asarray(fresh)
    is_list = idx.ndim == 1 and len(idx) > 0 and np.issubdtype(idx.dtype, np.integer)
    rule = f"hold distinct whole positions from 0 to {n - 1}"
    rules.require(is_list, "fresh", rule, f"shape {list(idx.shape)}, type {idx.dtype}")
    in_range = bool(idx.min() >= 0 and idx.max() < n)
    rules.require(in_range and len(np.unique(idx)) == len(idx), "fresh", rule, idx.tolist())
    if n - len(idx) < 2:
        raise SettingError(
            f"fresh must leave at least 2 samples to train on; got {len(idx)} of {n}."
        )
    return idx


def _select(
    lin: Linearization, rows: Float[Tensor, "n b p"], idx: Int[np.ndarray, " s"]
) -> Linearization:
    """Return the linearisation of some samples, with `rows` [n, b, p] as features."""
    features = rows[torch.from_numpy(idx)].flatten(0, 1)
    n_rows, n_features = features.shape
    form = replace(lin.form, representation="features", n_rows=n_rows, n_features=n_features)
    without_val = replace(
        lin, val_outputs=None, val_kernel=None, val_features=None, val_targets=None
    )
    return replace(without_val.subset(idx), kernel=None, features=features, form=form)


def _decompose(lin: Linearization, run: Dynamics) -> Eigenbasis:
    """Return the samples' eigenbasis; raise if gradient descent is unstable on them."""
    basis = eigenbasis(lin)
    if run.kind == "descent" and run.step * (basis.largest + run.penalty) >= 2:
        raise SettingError(
            "lr must be so low that descent is stable with any fresh sample in; got "
            f"η·λ_max = {run.step * (basis.largest + run.penalty):.4g}. Lower it, or use flow."
        )
    return basis


def _fit_weights(
    training: TrainingRun, rows: Float[Tensor, "n b p"]
) -> tuple[Float[Tensor, "n p c"], Float[Tensor, "p c"]]:
    """Return weights trained without each sample, and with all, in coordinates of `rows`."""
    basis = training.basis
    axes = weight_axes(basis, rows.flatten(0, 1))
    in_range = basis.eigenvalues > 0
    coordinates = basis.metric[in_range].sqrt()[:, None] * training.fit_weights()[in_range]
    trained = axes @ coordinates
    changes = [torch.einsum("dp,pgc->gdc", axes, w) for w in weight_changes(training)]
    return trained - torch.cat(changes), trained


def _scale_changes(
    change: Float[Tensor, "n p c"], queries: Float[Tensor, "m b p"] | None, sigma: float
) -> Float[Tensor, "n m k"]:
    """Return each query's output change over σ, [n, m, k]; without queries the weights'."""
    if queries is None:
        return change.flatten(1)[:, None] / sigma
    return torch.einsum("mbp,npc->nmbc", queries, change).flatten(2) / sigma


def _draw_divergences(
    u: Float[Tensor, "m q k"], noise: Float[Tensor, "draws k"]
) -> Float[Tensor, " draws"]:
    """Return Monte Carlo estimates of one sample's divergence, mean over m queries."""
    # −E log A, A = (1/q) Σ_j exp(u_j ξ − ½‖u_j‖²). E A = 1, so that A − 1 − log A, never negative,
    # has the same mean and next to no variance where all u are small.
    total = torch.zeros(len(noise), dtype=torch.float64)
    is_small = bool(u.square().sum(2).max() < 1)
    queries_at_once = max(1, CHUNK_VALUES // (u.shape[1] * len(noise)))
    for xi in (noise, -noise):
        for chunk in u.split(queries_at_once):
            exponent = chunk @ xi.T - 0.5 * chunk.square().sum(2, keepdim=True)  # [m, q, draws]
            log_a = torch.logsumexp(exponent, 1) - math.log(u.shape[1])
            excess = torch.expm1(log_a) if is_small else 0  # A − 1
            total += (excess - log_a).sum(0)
    return total / (2 * len(u))
