"""Sample information: how much one sample tells the trained network, in nats."""

from typing import Unpack

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.errors import SettingError
from datassay.plan import PlanStep
from datassay.progress import Progress, silent
from datassay.results import Tabular, column, result, sample_ids, table_of
from datassay.rules import require
from datassay.score.information.gaussian_kl import KlInformation, divergences
from datassay.score.information.weights import (
    Covariance,
    SteadyState,
    fisher_information,
    given_information,
    langevin_information,
    output_information,
    steady_state_information,
)
from datassay.score.leave_one_out import LeaveOneOut, leave_one_out
from datassay.score.linear.eigenbasis import eigenbasis
from datassay.score.linear.panels import all_rows
from datassay.score.linear.training_run import TrainingRun, training_run
from datassay.score.registry import Score, Sizes
from datassay.score.settings import GIVEN, Run, Smoothing, check_noise


@result
class SampleInformation(Tabular):
    """Information of each sample, one row per sample.

    Attributes:
        information: [n], nats, never negative. Larger: the trained network depends more on it.
        ids: [n], the samples' ids.
        smoothing: which measure; "given" where Σ was the caller's own.
        sigma: the standard deviation of the smoothing noise; output unit (functional, fisher),
            weight unit (isotropic) or gradient unit (langevin). 1 for others, whose noise has its
            own scale.
        steady_state: for sgd: the noise, and the share of each change outside its range.
        divergence: for kl: the parts of the shift and of the covariance's change.
    """

    information: Float[np.ndarray, " n"] = column(
        "how much the sample tells the trained network",
        unit="nats",
        sign="high: more informative; never < 0",
    )
    ids: np.ndarray = sample_ids()
    smoothing: str
    sigma: float
    steady_state: SteadyState | None = None
    divergence: KlInformation | None = None

    def to_table(self) -> pa.Table:
        """Return one row per sample: id, information; of sgd also outside, of kl shift, shape."""
        return table_of(self, self.steady_state, self.divergence)


@checks_arguments
def sample_information(
    lin: Linearization,
    *,
    smoothing: str | Covariance = Smoothing.smoothing,
    sigma: float = Smoothing.sigma,
    batch_size: int | None = Smoothing.batch_size,
    loo: LeaveOneOut | None = None,
    progress: Progress = silent,
    **run: Unpack[Run],
) -> SampleInformation:
    """Compute how much information each sample gives to the weights or to the predictions.

    functional: (1/(2σ²m)) Σ_j ‖f(x_j) − f₋ᵢ(x_j)‖²;  isotropic: ‖w − w₋ᵢ‖²/(2σ²);
    fisher: ½ Δᵀ F Δ/σ², F = (1/m) Σ_j J_jᵀJ_j;  sgd: ½ Δᵀ Σ⁺ Δ, H Σ + Σ H = n²(η/b) Λ
    sgd_outputs: (1/(2m)) Σ_j Δf_jᵀ (J_j Σ J_jᵀ)⁺ Δf_j, Σ of sgd;  langevin: b/(n²ησ²) Δᵀ H Δ
    kl: KL(N(w, Σ) ‖ N(w₋ᵢ, Σ₋ᵢ)), Σ as for sgd, computed again without each sample

    Args:
        lin: the linearisation.
        smoothing: "functional" (information about the predictions on the m validation inputs, or
            on the training inputs where there are none), or about the weights: "isotropic",
            "fisher" (equal to functional, computed through the weights), "sgd" (besides the noise
            that SGD leaves in them), "langevin" (besides noise of one size in every direction of
            the gradient) or "kl" (as "sgd", its noise computed again without each sample: for few
            weights, see `kl_information`). "sgd_outputs": about the predictions, besides the noise
            that SGD leaves in them. Or a Σ of your own over the p features of a linearisation that
            holds features: [p] variances, [p, p], or a function of [p, g] changes that returns
            Σ⁻¹ times them; nats are then ½ Δᵀ Σ⁻¹ Δ.
        sigma: σ of the smoothing noise, which sets the scale: it divides by σ². Output unit for
            "functional" and "fisher", weight unit for "isotropic", gradient unit of one sample for
            "langevin". Not for others.
        batch_size: b, only for "sgd", "sgd_outputs", "langevin" and "kl", whose information (of
            "kl" the shift) is proportional to b / η, η the run's step as a sum loss (lr / n under
            reduction="mean"). lr="auto" chooses its own step: give the lr of your training.
        loo: leave-one-out results to reuse; None computes them.
        progress: called with (step, samples done, samples in all).
        run: lr, steps, weight_decay, reduction and dynamics of `leave_one_out`; only without loo.

    Returns:
        Nats, one value per sample. With averaged outputs the weights are those of k independent
        networks of one output each, and the k informations are summed.

    Raises:
        SettingError: smoothing is unknown, no positive definite Σ or one without features; sigma is
            not positive or given with a smoothing that has its own scale; batch_size is missing,
            below 1 or given with another smoothing; the run leaves SGD no noise, a "kl" would be
            infinite, or run settings are given with loo.

    Cost: that of `leave_one_out`; n values more with loo. Others than "functional" and "isotropic"
    repeat its removals, and "sgd" decomposes Σ, 10 p³ operations and p² values (k times with
    averaged outputs); "kl" does so n times.
    Source: S1 Prop. 3.2, eqs. 7, 8 and 16 (whose printed norm lacks its square), §5, Prop. 5.1
    (eqs. 14 and 15 with the factor n² that a sum loss needs) and eq. 21. Exact for the linearised
    network; "sgd" in the limit of small steps, with Λ and Σ held constant when a sample is removed,
    which "kl" does not. Joint outputs can leave Σ nearly singular, n − 1 gradients for n k
    directions: then see steady_state.outside.
    """
    check_smoothing(smoothing, sigma, batch_size)
    if loo is not None and run:
        raise SettingError(f"run settings belong to loo; got {', '.join(run)} with it.")
    if isinstance(smoothing, str) and smoothing in {"functional", "isotropic"}:
        if loo is None:
            loo = leave_one_out(lin, **run, progress=progress)
        if smoothing == "functional":
            information = loo.prediction_change / (2 * sigma**2 * loo.n_queries)
        else:
            information = loo.weight_change / (2 * sigma**2)
        return SampleInformation(information, lin.ids, smoothing, float(sigma))
    features = _require_features(lin) if not isinstance(smoothing, str) else None
    if loo is None:
        training = training_run(lin, **run)
    else:
        training = TrainingRun(eigenbasis(lin), lin.residual, loo.run, loo.reduction)
    if isinstance(smoothing, str):
        return _compute_by_name(training, lin.ids, smoothing, sigma, batch_size, progress)
    assert features is not None
    information = given_information(training, features, smoothing, progress)
    return SampleInformation(information, lin.ids, GIVEN, 1.0)


def _compute_by_name(
    training: TrainingRun,
    ids: np.ndarray,
    smoothing: str,
    sigma: float,
    batch_size: int | None,
    progress: Progress,
) -> SampleInformation:
    """Compute the information by a named smoothing that needs the run's weights."""
    if smoothing == "fisher":
        information = fisher_information(training, sigma, progress)
        return SampleInformation(information, ids, smoothing, float(sigma))
    assert batch_size is not None
    if smoothing == "kl":
        divergence = divergences(training, ids, batch_size, progress)
        _check_finite(divergence)
        return SampleInformation(divergence.information, ids, smoothing, 1.0, divergence=divergence)
    if smoothing == "langevin":
        information = langevin_information(training, batch_size, sigma, progress)
        return SampleInformation(information, ids, smoothing, float(sigma))
    if smoothing == "sgd_outputs":
        information = output_information(training, batch_size, progress)
        return SampleInformation(information, ids, smoothing, 1.0)
    information, state = steady_state_information(training, batch_size, progress)
    return SampleInformation(information, ids, smoothing, 1.0, state)


def check_smoothing(smoothing: str | Covariance, sigma: float, batch_size: int | None) -> None:
    """Raise for settings of a smoothing outside their rule, before any computing."""
    if not isinstance(smoothing, str):
        is_covariance = callable(smoothing) or isinstance(smoothing, np.ndarray | Tensor)
        rule = "be a name, an array or a function"
        require(is_covariance, "smoothing", rule, f"type {type(smoothing).__name__}")
        smoothing = GIVEN
    check_noise(smoothing, sigma, batch_size)


def _require_features(lin: Linearization) -> Float[Tensor, "rows d"]:
    """Return a linearisation's features; raise if it holds a kernel."""
    if lin.features is None:
        raise SettingError(
            "smoothing by a Σ of your own needs a linearisation that holds features, the weights "
            "that Σ is over; got a kernel. Collect with projection=, or with fewer weights than "
            "samples times outputs."
        )
    return all_rows(lin.features)


def _check_finite(divergence: KlInformation) -> None:
    """Raise if the divergence is infinite for some samples, naming them."""
    infinite_ids = divergence.ids[~np.isfinite(divergence.information)]
    if len(infinite_ids):
        raise SettingError(
            f"smoothing='kl' must leave SGD noise in every direction without each sample; without "
            f"{len(infinite_ids)} of {len(divergence.ids)} it has none in some, and the divergence "
            f"is infinite: {', '.join(map(str, infinite_ids[:5]))}. Use smoothing='sgd', or leave "
            "out the features that only these samples have."
        )


def _plan_steps(sizes: Sizes) -> list[PlanStep]:
    """Plan the divergences of `kl_information`; other smoothings are read off the removals."""
    if sizes.options.get("smoothing") != "kl":
        return []
    n = sizes.train
    b = sizes.rows
    p = sizes.eigenproblem
    flops = n * (2.0 * n * b * p**2 + (10 + 30 * sizes.outputs // b) * p**3)
    return [PlanStep("divergence", f"{n} noises of SGD", 8.0 * n * p, {"float64": flops})]


SCORE = Score(
    name="information",
    help="How much a sample tells the trained network, in nats.",
    compute=lambda context: sample_information(
        context.lin,
        loo=context.results["removals"].leave_one_out,
        **context.select_options("smoothing", "sigma", "batch_size"),
    ),
    needs=("removals",),
    cost=_plan_steps,
    is_in_text=True,
)
