"""Likely label errors from out-of-sample outputs of one kernel ridge fit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from datassay.collect.choose_form import LARGEST_EIGENPROBLEM
from datassay.collect.form import N_RIDGES
from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.score.linear.eigenbasis import Eigenbasis, check_not_null, eigenbasis
from datassay.score.linear.panels import Products, Rows, gram, operand, panels, transposed_product
from datassay.score.linear.removal import Blocks, held_out_residuals

# Penalties tried, as fractions of λ_max: four a decade.
RIDGES = torch.logspace(-8, 0, N_RIDGES, dtype=torch.float64)
# Products in less than float64 round by about 2⁻²³ λ_max: smaller penalties would not be felt.
LEAST_RIDGE = 8 * torch.finfo(torch.float32).eps
# A modified z-score beyond this marks an outlier (Iglewicz and Hoaglin, 1993).
OUTLIER_SCORE = 3.5
# Above this many samples features replace the [n, n] kernel.
LARGEST_KERNEL = 3 * LARGEST_EIGENPROBLEM
SMALLEST_WEIGHT = 1e-3
# Of fewer samples none is a suspect: of 2, each contradicts the other.
FEWEST = 6
# The other output must lead by this part of the distance 1 between two labels. At 0 every doubtful
# sample is a suspect: of 2000 Fashion-MNIST samples with 10 % wrong labels 534 at precision 0.36,
# at 0.25 345 at 0.54; MNIST with 30 % class pairs 0.79 and 0.94, recall 0.97 and 0.86 (seed 200).
MARGIN = 0.25


@result
class LabelIssues:
    """How likely each given label is wrong, one row per sample.

    Attributes:
        score: [n]; higher: more likely mislabelled. Classification: the largest other held-out
            output minus that of the given label minus the margin, output unit. Regression: the
            held-out residual's modified z-score minus 3.5, unitless; its spread is at least the
            targets' rounding, so that where most residuals are equal only others stand out.
        suggested_label: [n]; class index of the largest held-out output (int64), or the held-out
            output itself (regression, target unit; [n, k] for several targets).
        is_issue: [n] bool, score > 0; False for all where n is below FEWEST.
        held_out: [n, k], outputs for each sample from the fit without it.
        weight: [n], in [1e-3, 1], used in the last round; 1 where no round ran.
        ridge: the absolute penalty chosen by leave-one-out error, kernel unit.
        ids: [n], the samples' ids.
    """

    score: Float[np.ndarray, " n"]
    suggested_label: Shaped[np.ndarray, "n ..."]
    is_issue: Bool[np.ndarray, " n"]
    held_out: Float[np.ndarray, "n k"]
    weight: Float[np.ndarray, " n"]
    ridge: float
    ids: np.ndarray

    @property
    def suspects(self) -> Int[np.ndarray, " suspects"]:
        """Positions of the flagged samples, the most suspect first."""
        flagged = np.flatnonzero(self.is_issue)
        return flagged[np.argsort(-self.score[flagged], kind="stable")]

    def to_table(self) -> pa.Table:
        """One row per sample: id, label_issue_score, suggested_label, is_issue."""
        return pa.table({
            "id": self.ids,
            "label_issue_score": self.score,
            "suggested_label": self.suggested_label,
            "is_issue": self.is_issue,
        })


@checks_arguments
def label_issues(
    lin: Linearization,
    *,
    rounds: int = 1,
    temperature: float = 0.1,
    margin: float = MARGIN,
    progress: Progress = silent,
) -> LabelIssues:
    """Score how likely each label is wrong, without a clean set and without training a network.

    Kernel ridge regression on the labels, its penalty chosen by leave-one-out error, gives each
    sample outputs from a fit without it. Suspects then lose weight,
    w_i = 1/(1 + exp(d_i / temperature)) with d_i = largest other output − that of the given label,
    and one more fit judges by the cleaner data.

    Args:
        lin: the linearisation; k outputs share its output-averaged kernel, so k costs nothing.
        rounds: reweightings; 0 keeps the first fit. More than one helps only where the noise is
            structured. Regression never reweights.
        temperature: of the reweighting, output unit, positive.
        margin: lead of the other output that makes a suspect, output unit, at least 0. Smaller:
            more suspects, fewer of them wrong. It shifts all scores alike; regression has its own.
        progress: called with (step, samples done, samples in all).

    Returns:
        Score (higher: more likely mislabelled), suggested label, and the flag score > 0. Of fewer
        than FEWEST samples none is flagged: the others do not tell enough.

    Raises:
        SettingError: rounds or margin is negative or temperature is not positive.
        ModelError: the kernel is 0: the outputs depend on no weight.

    Cost: the eigendecomposition of the [n, n] kernel (shared with other scores where it is the
    linearisation's own), 66 n² k operations, and n³ a round. From features: 2 n b p² operations to
    read their rows, 66 n b p k, 2.1 n b p² a round; p² values, a panel and 66 n k values.
    Source: METHODS §2, beyond confident learning (Northcutt et al. 2021): no k-fold retraining.
    Deviates: f₀ is subtracted from the labels only where that lowers the leave-one-out error, since
    the outputs of an untrained head are noise. Penalties go from 1e-8 λ_max (1e-6 λ_max where
    products over all rows are not float64) to λ_max. Regression scores by the mean absolute
    deviation where the median one is 0 (Iglewicz and Hoaglin, 1993).
    """
    if rounds < 0:
        raise SettingError(f"rounds must be at least 0; got {rounds}.")
    if not temperature > 0:
        raise SettingError(f"temperature must be positive; got {temperature}.")
    if not 0 <= margin < float("inf"):
        raise SettingError(f"margin must be finite and at least 0; got {margin}.")
    lin = lin.averaged() if len(lin) <= LARGEST_KERNEL else lin
    offset, ridge, held_out = _choose_ridge(lin, progress)
    weight = torch.ones(len(lin), dtype=torch.float64)
    if lin.labels is None:
        return _outliers(lin, held_out, weight, ridge)
    labels = torch.as_tensor(lin.labels)
    for _ in range(rounds):
        weight = torch.sigmoid(-_lead(held_out, labels) / temperature)
        weight = weight.clamp_min(SMALLEST_WEIGHT)
        target = (lin.targets - offset).double().reshape(lin.residual.shape)
        left = _weighted_residual(lin, target, weight, ridge, progress)
        held_out = lin.targets - left.flatten(1)
    score = _lead(held_out, labels) - margin
    return LabelIssues(
        score=score.numpy(),
        suggested_label=_by_class(held_out).argmax(1).numpy(),
        is_issue=_flagged(score),
        held_out=held_out.numpy(),
        weight=weight.numpy(),
        ridge=ridge,
        ids=lin.ids,
    )


def _flagged(score: Float[Tensor, " n"]) -> Bool[np.ndarray, " n"]:
    return (score > 0).numpy() & (len(score) >= FEWEST)


def _choose_ridge(
    lin: Linearization, progress: Progress
) -> tuple[Tensor, float, Float[Tensor, "n k"]]:
    """The offset (0 or f₀), penalty and held-out outputs with the least leave-one-out error."""
    basis = eigenbasis(lin, progress)
    check_not_null(basis)
    shifts = _fractions(lin) * basis.largest
    offsets = (torch.zeros_like(lin.outputs), lin.outputs)
    n, b, c = lin.residual.shape
    # Both offsets as columns side by side: the leverages are the same.
    target = torch.stack([(lin.targets - o).double().reshape(n, b, c) for o in offsets], 2)
    target = target.flatten(2)  # [n, b, 2 c]
    projected = basis.project(target)
    residuals = torch.empty(len(shifts), n, b, 2 * c, dtype=torch.float64)
    parts = list(panels(n, b * basis.rows.shape[2] + len(shifts) * b * (b + 4 * c)))
    panel_residuals = basis.engine.map(
        _panel_residuals, (basis.sent, target, projected, shifts), parts
    )
    for part, held_out in zip(parts, panel_residuals, strict=True):
        residuals[:, part] = held_out
        progress("judge the labels", part.stop, n)
    both = residuals.unflatten(3, (2, c))
    error = torch.stack([r.square().mean((0, 1, 3)) for r in both])  # [q, 2]
    q, o = divmod(int(error.argmin()), 2)
    held_out = lin.targets - both[q, :, :, o].flatten(1)
    return offsets[o], float(shifts[q]), held_out


def _fractions(lin: Linearization) -> Float[Tensor, " q"]:
    """The penalties to try, as fractions of λ_max."""
    is_exact = lin.kernel is not None or lin.form.products.precision == "float64"
    return RIDGES if is_exact else RIDGES[RIDGES > LEAST_RIDGE]


def _panel_residuals(
    shared: tuple[Eigenbasis, Tensor, Tensor, Tensor], part: slice
) -> Float[Tensor, "q g b c"]:
    basis, target, projected, shifts = shared
    return held_out_residuals(basis, Blocks(basis.rows[part], target[part], projected), shifts)


def _weighted_residual(
    lin: Linearization,
    target: Float[Tensor, "n b c"],
    weight: Float[Tensor, " n"],
    ridge: float,
    progress: Progress,
) -> Float[Tensor, "n b c"]:
    """y_i − f₋ᵢ(x_i) of ridge regression with weighted samples, in closed form."""
    root = weight.sqrt()
    if lin.kernel is not None:
        system = root[:, None] * lin.kernel * root
        system.diagonal().add_(ridge)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(system))
        dual = inverse @ (root[:, None] * target[:, 0])  # [n, c]
        progress("judge the labels again", len(root), len(root))
        return (dual / (root * inverse.diagonal())[:, None])[:, None]
    return _weighted_primal(lin, target, weight, ridge, progress)


def _weighted_primal(
    lin: Linearization,
    target: Float[Tensor, "n b c"],
    weight: Float[Tensor, " n"],
    ridge: float,
    progress: Progress,
) -> Float[Tensor, "n b c"]:
    """The same from features: (I − w_i φ_i M φ_iᵀ)⁻¹ (y_i − φ_i β), M = (Φᵀ diag(w) Φ + λ)⁻¹."""
    assert lin.features is not None
    n, b, _ = target.shape
    features, each, engine = lin.features, weight.repeat_interleave(b), lin.engine
    products, device = lin.form.products.precision, lin.form.products.device
    reporting = {"progress": progress, "step": "multiply weighted", "engine": engine}
    system = gram(features, products, weight=each, device=device, **reporting)
    system.diagonal().add_(ridge)
    factor = torch.linalg.cholesky(system)
    weighted = weight[:, None, None] * target
    right = transposed_product(features, weighted.flatten(0, 1), device)
    whitener = operand(factor, products, device)
    solution = torch.cholesky_solve(right, factor)
    left, parts = torch.empty_like(target), list(panels(n, b * features.shape[1]))
    shared = (features, products, whitener, solution, target, weight)
    for part, solved in zip(parts, engine.map(_panel_left, shared, parts), strict=True):
        left[part] = solved
        progress("judge the labels again", part.stop, n)
    return left


def _panel_left(
    shared: tuple[Rows, Products, Tensor, Tensor, Tensor, Tensor], part: slice
) -> Float[Tensor, "g b c"]:
    features, products, whitener, solution, target, weight = shared
    b = target.shape[1]
    rows = features[part.start * b : part.stop * b]
    columns = operand(rows, products, str(whitener.device)).T
    white = torch.linalg.solve_triangular(whitener, columns, upper=False).cpu()
    white = white.T.double().reshape(-1, b, rows.shape[1])
    remains = torch.eye(b) - weight[part, None, None] * (white @ white.mT)
    unfitted = target[part] - (rows.double() @ solution).reshape(target[part].shape)
    return torch.linalg.solve(remains, unfitted)


def _by_class(held_out: Float[Tensor, "n k"]) -> Float[Tensor, "n classes"]:
    """One column per class: a single output f becomes (1 − f, f)."""
    return torch.cat([1 - held_out, held_out], 1) if held_out.shape[1] == 1 else held_out


def _lead(held_out: Float[Tensor, "n k"], labels: Tensor) -> Float[Tensor, " n"]:
    """Largest other held-out output minus that of the given label."""
    by_class = _by_class(held_out)
    given = by_class.gather(1, labels[:, None])[:, 0]
    others = by_class.scatter(1, labels[:, None], float("-inf"))
    return others.amax(1) - given


def _outliers(lin: Linearization, held_out: Tensor, weight: Tensor, ridge: float) -> LabelIssues:
    """Regression: modified z-scores of the held-out residuals, worst output first."""
    residual = lin.targets - held_out
    distance = (residual - residual.median(0).values).abs()
    spread = 1.4826 * distance.median(0).values
    # Where half of the residuals are equal, as for 2 samples, take the mean deviation; for repeated
    # samples that is rounding, which must not make an outlier either.
    spread = torch.where(spread > 0, spread, 1.2533 * distance.mean(0))
    rounding = len(residual) * torch.finfo(torch.float64).eps * lin.targets.abs().amax(0)
    spread = spread.maximum(rounding.double()).clamp_min(torch.finfo(torch.float64).tiny)
    score = (distance / spread).amax(1) - OUTLIER_SCORE
    suggested = held_out[:, 0] if held_out.shape[1] == 1 else held_out
    return LabelIssues(
        score=score.numpy(),
        suggested_label=suggested.numpy(),
        is_issue=_flagged(score),
        held_out=held_out.numpy(),
        weight=weight.numpy(),
        ridge=ridge,
        ids=lin.ids,
    )
