"""Influence through the training of a loop of one's own."""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.gradients.batches import describe_shape
from datassay.errors import ModelError, SettingError
from datassay.optional import coalesce
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.rules import integer, require
from datassay.score.influence.replay.optimizer import TINY, Optimizer
from datassay.score.influence.replay.run import (
    Losses,
    TrainingRun,
    Weights,
    differentiate_run,
    make_draws,
)
from datassay.score.influence.replay.smoothness import SMOOTH, Smoothness, measure_smoothness

# Most that the replayed weights may be away from the trained ones, of the way that they moved.
TOLERANCE = 1e-3


@result
class Replay:
    """What each sample's weight in the training changed, by the derivative of the run.

    Attributes:
        effect: [n, m], outcome unit: dm/da_i at a_i = 1, the outcome with the sample minus without
            to first order.
        outcome: [m], the queries' measures under the trained weights.
        weights: name → trained weights.
        smoothness: whether the run is smooth in its samples' weights; None: not looked at.
        softened: share of Adam's second moments that `Optimizer.eps_root` raised in the derivative.
        warnings: what the user should know; may be empty.
    """

    effect: Float[Tensor, "n m"]
    outcome: Float[Tensor, " m"]
    weights: dict[str, Tensor]
    smoothness: Smoothness | None
    softened: float
    warnings: tuple[str, ...] = ()


def replay(
    losses: Losses,
    start: Mapping[str, Tensor],
    batches: Sequence[Int[Tensor, " b"]],
    optimizer: Optimizer,
    measure: Callable[[Weights], Tensor],
    *,
    trained: Mapping[str, Tensor] | None = None,
    draws: Sequence[Tensor] | None = None,
    n_samples: int | None = None,
    check: bool = True,
    seed: int = 0,
    progress: Progress = silent,
) -> Replay:
    """Compute what each training sample did to each query, through the whole training run.

    The run is a function of the weight a_i of each sample's loss, all 1. Its derivative goes back
    through every update, those of momentum and of Adam's moments included.

    Args:
        losses: (weights by name, positions [b]) → the losses [b] of the training samples there,
            whose mean a batch's update descends; torch.func.functional_call(model, weights, x[i]).
        start: name → weights before the first update, those that train.
        batches: positions of each update's samples, in order.
        optimizer: its kind and settings, with the schedule of lr.
        measure: weights by name → one number per query [m]. Take the mean of many queries where
            their total is asked for: each query costs another pass back.
        trained: the weights that the loop ended at; a replay that ends elsewhere is refused.
        draws: torch.get_rng_state() before each update, if the losses draw (dropout); None: drawn
            from `seed`.
        n_samples: n; None: the largest position and 1.
        check: whether to train two to six times more, with a random tenth of the samples left out
            or counted twice, and to refuse a run that is not smooth.
        seed: of these tenths, and of draws.
        progress: called with (step, updates done, updates in all).

    Returns:
        The effects. They are of *this* run, its batches and draws: for networks of other seeds
        influence at trained weights says as much, and the sum of both, standardised, more.

    Raises:
        SettingError: positions, weights, settings or losses do not fit each other; the replay ends
            elsewhere than `trained`; or the run is not smooth.
        ModelError: the run or its derivative is not finite.

    Cost: about 3.5 times the training for one query, 1.5 more for another; 2 to 6 more by `check`.
        √(2 updates) states of weights and moments.
    Source: Ilyas and Engstrom (2025), MAGIC. Deviates: segments of falling length, smoothness by
        training losses, and `eps_root` in the derivative alone, where a moment is below it.
    """
    require(batches, "batches", "hold the positions of each update's samples", "none")
    require(start, "start", "hold the weights that train", "none")
    updates = [torch.as_tensor(positions) for positions in batches]
    fewest = 1 + max(int(positions.max()) for positions in updates)
    n = coalesce(n_samples, fewest)
    integer("n_samples", n, remedy="Count the training samples.")
    require(n >= fewest, "n_samples", "be above the largest position", n)
    n_updates = len(updates)
    optimizer.check(list(start), n_updates)
    if draws is None:
        device = next(iter(start.values())).device
        draws = make_draws(n_updates, seed, device)
    require(len(draws) == n_updates, "draws", "be one an update", f"{len(draws)} of {n_updates}")
    run = TrainingRun(losses, start, updates, optimizer, draws, progress)
    starts, weights = run.record()
    _check_end(run, weights, trained)
    smoothness = None
    if check:
        smoothness = measure_smoothness(run, weights, measure, n, seed)
        _refuse_unsmooth(smoothness)
    values, slopes = _measure_gradients(measure, weights)
    derivative = differentiate_run(run, starts, slopes, n)
    notes = _warn_if_softened(optimizer, derivative.softened)
    error = 0.0
    if smoothness is not None:
        error = smoothness.prediction_error(derivative.effect)
    if error > 1:
        notes.append(
            f"real changes by a random tenth of the samples are {error:.2g} times as far from the "
            "predicted ones as predictions differ: trust signs of large effects alone."
        )
    return Replay(derivative.effect, values, weights, smoothness, derivative.softened, tuple(notes))


def _check_end(run: TrainingRun, weights: Weights, trained: Mapping[str, Tensor] | None) -> None:
    """Raise where the run diverged, or ends at other weights than `trained`."""
    if not all(bool(w.isfinite().all()) for w in weights.values()):
        raise ModelError("the training run must stay finite; it diverges. Take a smaller lr.")
    if trained is None:
        return
    missing = [name for name in weights if name not in trained]
    require(not missing, "trained", f"hold the weights of start, such as {missing[:1]}", "others")
    missed = _distance(weights, trained)
    moved = _distance(weights, run.start)
    if missed > TOLERANCE * moved:
        raise SettingError(
            "the replay must end at the trained weights; it ends away from them by "
            f"{missed / max(moved, 1e-300):.2g} of the way that it moved. Are the weights at the "
            "start, the batches, the optimiser's settings and the draws those of the training?"
        )


def _distance(weights: Weights, reference: Mapping[str, Tensor]) -> float:
    """Return the Euclidean distance of weights from reference ones of the same names."""
    squares = [(w - reference[name].to(w)).double().square().sum() for name, w in weights.items()]
    return sum(square.item() for square in squares) ** 0.5


def _refuse_unsmooth(smoothness: Smoothness) -> None:
    """Raise if a run is not smooth in its samples' weights."""
    if smoothness.is_smooth:
        return
    raise SettingError(
        "the training run must be smooth in its samples' weights for its derivative to predict "
        "anything; leaving a tenth out and counting it twice agree by "
        f"{smoothness.agreement:.2f}, less than {SMOOTH:g}. Train with a smaller lr, less momentum "
        "or for fewer updates; or take method='auto', which needs no smooth run; check=False "
        "answers all the same."
    )


def _measure_gradients(
    measure: Callable[[Weights], Tensor], weights: Weights
) -> tuple[Float[Tensor, " m"], list[tuple[Tensor, ...]]]:
    """Return the queries' values, [m], and the gradient of each by the trained weights."""
    leaf = {name: w.detach().requires_grad_() for name, w in weights.items()}
    values = measure(leaf)
    if not isinstance(values, Tensor) or values.ndim != 1:
        raise SettingError(
            f"measure must give [m], one number per query; got {describe_shape(values)}."
        )
    slopes = [
        torch.autograd.grad(value, list(leaf.values()), retain_graph=True, materialize_grads=True)
        for value in values
    ]
    return values.detach().double().cpu(), slopes


def _warn_if_softened(optimizer: Optimizer, softened: float) -> list[str]:
    """Return a warning if second moments near 0 were softened; else []."""
    if not softened:
        return []
    return [
        f"{100 * softened:.2g} % of Adam's second moments are below {TINY:g}: its step is "
        f"differentiated as if they were larger by {optimizer.eps_root:g} (eps_root)."
    ]
