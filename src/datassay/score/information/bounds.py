"""What information bounds: how well anyone can tell a sample was trained on, and overfitting."""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from datassay.errors import SettingError
from datassay.rules import require
from datassay.score.sample_information import SampleInformation

# Smoothings about predictions on other inputs, which say nothing of those on the samples.
OF_OUTPUTS = ("functional", "fisher", "sgd_outputs")
# Smoothings with a σ.
WITH_SIGMA = ("functional", "fisher", "isotropic", "langevin")
ENOUGH = 0.55  # accuracy of a guess that hardly tells
# A change of which more than this share lies where SGD has no noise is seen with certainty.
ROUNDING = 1e-6


def membership(info: SampleInformation) -> Float[np.ndarray, " n"]:
    """Return the highest accuracy with which anyone can tell that a sample was trained on.

    One half of the runs has the sample, the other half not; whoever guesses knows all other samples
    and the training, and sees the weights with the noise of the smoothing, or the answer to one of
    the validation inputs (functional, fisher and sgd_outputs). Between N(w, Σ) and N(w₋ᵢ, Σ) the
    best guess is right in the share Φ(√(I/2)).

    Args:
        info: of n samples.

    Returns:
        [n], from 0.5 (a blind guess) to 1. Of answers the mean over inputs is at most this; of
        "kl", whose covariances differ, the smaller of ½ + √(I/8) and ½ + ½ √(1 − e^−I).

    Cost: n values.
    Source: S1 §1 names privacy; total variation of two normal laws, Pinsker, and Bretagnolle and
    Huber (1979). Exact for equal covariances and one answer or the weights.
    """
    if info.smoothing == "kl":
        pinsker = 0.5 + np.sqrt(info.information / 8)
        return np.minimum(pinsker, 0.5 + 0.5 * np.sqrt(-np.expm1(-info.information)))
    accuracy = ndtr(np.sqrt(info.information / 2))
    if info.steady_state is not None:
        accuracy = np.where(info.steady_state.outside > ROUNDING, 1.0, accuracy)
    return accuracy


def membership_sigma(info: SampleInformation, accuracy: float = ENOUGH) -> float:
    """Return the noise σ at which nobody can tell training samples more often than `accuracy`.

    Args:
        info: with a smoothing that has a σ.
        accuracy: above 0.5, below 1.

    Returns:
        σ, in the unit of info.sigma; 0 where no sample informs.

    Raises:
        SettingError: accuracy is out of range, or the smoothing has no σ of its own.

    Cost: n values.
    Source: Φ(√(I/2)) = accuracy solved for σ, as I falls with σ².
    """
    require(0.5 < accuracy < 1, "accuracy", "lie between 0.5 and 1", accuracy)
    if info.smoothing not in WITH_SIGMA:
        raise SettingError(
            f"sigma must be the smoothing's own scale; smoothing={info.smoothing!r} has none. Take "
            "'functional' or 'isotropic'."
        )
    return float(info.sigma * np.sqrt(info.information.max() / (2 * ndtri(accuracy) ** 2)))


def overfitting_bound(info: SampleInformation, spread: float = 0.5) -> float:
    """Bound how far the mean loss on new samples exceeds that on the training samples.

    |E gap| ≤ √(2 s² I(W; S)/n),  I(W; S) ≤ Σ_i I(W; Z_i | S₋ᵢ) for independent samples

    Args:
        info: about the weights: "isotropic", "langevin", "sgd", "kl" or a Σ of your own.
        spread: s: the loss of one sample is s-sub-Gaussian; half its range where it has one: 0.5
            for the share of errors.

    Returns:
        The bound, loss unit; for the network with the smoothing's noise in its weights, on average
        over training sets. One training set estimates it; above the loss's range it says nothing.

    Raises:
        SettingError: spread is not positive, or the information is about predictions.

    Cost: n values.
    Source: Xu and Raginsky (2017); the sum bounds I(W; S) by the chain rule, S1's SI each term in
    the mean over samples (Lemma B.1). Infinite where a change lies outside SGD's noise.
    """
    require(0 < spread < float("inf"), "spread", "be finite and positive", spread)
    if info.smoothing in OF_OUTPUTS:
        raise SettingError(
            f"a bound on overfitting needs information about the weights; smoothing="
            f"{info.smoothing!r} is about predictions. Take smoothing='isotropic', or 'sgd'."
        )
    if info.steady_state is not None and (info.steady_state.outside > ROUNDING).any():
        return float("inf")
    return float(spread * np.sqrt(2 * info.information.mean()))
