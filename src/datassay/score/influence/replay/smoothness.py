"""Whether a training run is smooth in its samples' weights, so that a derivative says anything."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.ranks import rank_correlation
from datassay.results import result
from datassay.score.influence.replay.run import TrainingRun, Weights

SHARE = 0.1  # of the samples, left out and counted twice in a direction
DIRECTIONS = 3  # at most
# Least agreement of a run that is smooth. Chosen on 80 drawn recipes: at least 0.83 goes with a
# linear datamodelling score above 0.92, 80 times of 80. Of 38 fresh ones 35 were judged so, by
# three trainings in the mean.
SMOOTH = 0.83
SURE = (0.6, 0.95)  # an agreement outside ends the check before the last direction
PROBED = 256  # training samples whose losses are compared, about


@result
class Smoothness:
    """A run compared with itself after small changes of its samples' weights.

    Attributes:
        agreement: Spearman's correlation, over training samples, of what leaving a random tenth of
            the samples out takes from their losses with what counting that tenth twice adds; mean
            over directions. 1 where training is linear in the weights.
        directions: [r, n], 1 for the samples of each tenth.
        changes: [r, m], half the difference of the queries' measures between the two.
    """

    agreement: float
    directions: Float[Tensor, "r n"]
    changes: Float[Tensor, "r m"]

    @property
    def is_smooth(self) -> bool:
        """Whether a derivative predicts what leaving samples out does."""
        return self.agreement >= SMOOTH

    def prediction_error(self, effect: Float[Tensor, "n m"]) -> float:
        """Return the RMS error of the changes that effects predict, per standard deviation."""
        # effect: of each sample on each query. Standard deviation: of predictions, random tenths.
        errors = self.changes - self.directions @ effect
        variance = (effect - effect.mean(0)).square().sum(0) * SHARE * (1 - SHARE)
        return float((errors.square().mean() / variance.mean().clamp_min(1e-300)).sqrt())


def measure_smoothness(
    run: TrainingRun,
    trained: Weights,
    measure: Callable[[Weights], Tensor],
    n_samples: int,
    seed: int,
) -> Smoothness:
    """Retrain without, and with twice, random tenths of the samples; compare both changes."""
    rng = np.random.default_rng((seed, 10))
    losses = _first_losses(run, trained)
    size = max(1, round(SHARE * n_samples))
    directions: list[Tensor] = []
    changes: list[Tensor] = []
    agreements: list[float] = []
    while len(directions) < DIRECTIONS:
        direction = torch.zeros(n_samples, dtype=torch.float64)
        direction[torch.as_tensor(rng.permutation(n_samples)[:size])] = 1.0
        directions.append(direction)
        weights_without = run.train(1 - direction)
        weights_doubled = run.train(1 + direction)
        from_none_to_once = losses - _first_losses(run, weights_without)
        from_once_to_twice = _first_losses(run, weights_doubled) - losses
        agreements.append(_correlate_changes(from_none_to_once, from_once_to_twice))
        with torch.no_grad():
            change = measure(weights_doubled) - measure(weights_without)
            changes.append(change.double().cpu() / 2)
        if not SURE[0] < np.mean(agreements) < SURE[1]:
            break
    return Smoothness(float(np.mean(agreements)), torch.stack(directions), torch.stack(changes))


def _first_losses(run: TrainingRun, weights: Weights) -> np.ndarray:
    """Return losses of the first batches' samples (at least PROBED) under weights."""
    losses: list[np.ndarray] = []
    with torch.random.fork_rng(), torch.no_grad():
        for step in range(len(run)):
            if sum(map(len, losses)) >= PROBED:
                break
            values = run.batch_losses(tuple(weights.values()), step)
            losses.append(values.double().cpu().numpy())
    return np.concatenate(losses)


def _correlate_changes(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's correlation of two changes of losses; 0 if a run diverged."""
    if not (np.isfinite(a).all() and np.isfinite(b).all()):  # a run diverged
        return 0.0
    if not (a.any() or b.any()):  # neither run changed a loss
        return 1.0
    if np.ptp(a) == 0 or np.ptp(b) == 0:  # constant: no ranks
        return 0.0
    return float(rank_correlation(a, b))
