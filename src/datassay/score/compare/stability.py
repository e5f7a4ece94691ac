"""Agreement of runs: of their scores, and how far rounding alone takes two trainings apart."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from datassay.errors import SettingError
from datassay.ranks import mean_ranks
from datassay.results import result
from datassay.score.effects import Attribution


@result
class Stability:
    """How strongly scores of different runs agree.

    Attributes:
        names: [r], what was varied: architectures, training lengths, initialisations.
        spearman: [r, r], mean rank correlation over the seeds, in [-1, 1].
        pearson: [r, r], mean linear correlation over the seeds, in [-1, 1].
    """

    names: tuple[str, ...]
    spearman: Float[np.ndarray, "r r"]
    pearson: Float[np.ndarray, "r r"]


def stability(scores: Mapping[str, np.ndarray]) -> Stability:
    """Compute the correlation between the scores of every two runs, averaged over seeds.

    Args:
        scores: name → one score per sample, [n], or [s, n] for s seeds; entry [i, j] pairs seed
            with seed, so the same seed must mean the same samples. Higher or lower does not matter.

    Returns:
        Spearman and Pearson matrices.

    Raises:
        SettingError: fewer than two runs or samples, shapes that differ, values that are not
            finite, or scores that are all equal.

    Cost: s r² n operations.
    Source: S1 App. A.4, Fig. 5 (Pearson, averages over 10 runs); ranks are ours, as information
    spans decades and a few samples dominate a linear correlation.
    """
    values = _stack_scores(scores)
    return Stability(
        tuple(scores), _mean_correlation(mean_ranks(values, axis=2)), _mean_correlation(values)
    )


def _mean_correlation(values: Float[np.ndarray, "r s n"]) -> Float[np.ndarray, "r r"]:
    """Return the correlation matrix of r runs, mean over s seeds."""
    return np.stack([np.corrcoef(values[:, s]) for s in range(values.shape[1])]).mean(0)


def _stack_scores(scores: Mapping[str, np.ndarray]) -> Float[np.ndarray, "r s n"]:
    """Return several runs' scores as one array; raise if they cannot be correlated."""
    vectors = {name: np.atleast_2d(np.asarray(v, float)) for name, v in scores.items()}
    shapes = {v.shape for v in vectors.values()}
    if len(vectors) < 2 or len(shapes) != 1:
        raise SettingError(
            "scores must hold two runs or more, all [n] or [seeds, n] alike; got "
            f"{', '.join(f'{name} {list(v.shape)}' for name, v in vectors.items()) or 'none'}."
        )
    values = np.stack(list(vectors.values()))
    if values.ndim != 3 or values.shape[2] < 2:
        raise SettingError(f"a score needs 2 samples or more; got shape {list(values.shape[1:])}.")
    for name, v in vectors.items():
        if not np.isfinite(v).all():
            raise SettingError(f"scores must be finite; those of {name} are not.")
        if (v == v[:, :1]).all(1).any():
            raise SettingError(f"scores must differ among samples; those of {name} are all equal.")
    return values


@result
class RunSmoothness:
    """Whether retraining can show effects, or rounding hides them; all in outcome units.

    Attributes:
        parting: [m], how far the outcomes of the two runs differ.
        single: [m], root mean square effect of one sample.
        half: [m], standard deviation of the effects of random halves of the samples.
        agreement: Spearman's correlation of the two runs' effects, mean over queries, in [-1, 1].
    """

    parting: Float[np.ndarray, " m"]
    single: Float[np.ndarray, " m"]
    half: Float[np.ndarray, " m"]
    agreement: float

    @property
    def means(self) -> dict[str, float]:
        """Root mean squares over queries: parting, single, half."""
        values = {"parting": self.parting, "single": self.single, "half": self.half}
        return {name: float(np.sqrt(np.square(v).mean())) for name, v in values.items()}

    @property
    def warning(self) -> str:
        """The warning if runs that differ by rounding diverge as effects do; "" otherwise."""
        parting, of_one, of_half = self.means.values()
        message = f"two runs that differ by rounding part by {parting:.2g} in the outcome, "
        if parting > of_half:
            return (
                f"{message}more than half of the samples move it ({of_half:.2g}): no attribution "
                "can predict single runs here. Average networks of several seeds, or train with a "
                "smaller step."
            )
        if parting > of_one:
            return (
                f"{message}more than a sample does ({of_one:.2g}): training again without one "
                "sample shows nothing of its effect. Those of many together count (half of them "
                f"move it by {of_half:.2g}), and averages over networks of several seeds."
            )
        return ""


def run_smoothness(first: Attribution, second: Attribution) -> RunSmoothness:
    """Return how far two runs that differ by rounding diverge, beside samples' effects.

    Train twice from the same seed, the second time with every first weight times 1 + 1e-6 z, z
    standard normal, and attribute both. What parts them is no sample's doing.

    Args:
        first: of the one network, with all effects (`top=None`).
        second: of the other; the same samples, queries and measure.

    Returns:
        The figures; `warning` says what follows.

    Raises:
        SettingError: they differ in samples, queries or measure, or only the largest effects were
            kept.

    Cost: n m log n operations.
    Source: ours. A half's effects have the variance Σ_i (effect − mean)² / 4.
    """
    if first.effect is None or second.effect is None:
        raise SettingError("run_smoothness needs all effects; attribute with top=None.")
    is_comparable = first.effect.shape == second.effect.shape and first.measure == second.measure
    if not is_comparable or not np.array_equal(first.ids, second.ids):
        raise SettingError(
            "two runs must be attributed on the same samples and queries by one measure; got "
            f"{list(first.effect.shape)} by {first.measure!r} and {list(second.effect.shape)} by "
            f"{second.measure!r}."
        )
    effect = first.effect
    ranks = [mean_ranks(np.asarray(run.effect), axis=0) for run in (first, second)]
    standardized = np.stack([(r - r.mean(0)) / np.maximum(r.std(0), 1e-30) for r in ranks])
    return RunSmoothness(
        parting=np.abs(first.outcome - second.outcome),
        single=np.sqrt(np.square(effect).mean(0)),
        half=np.sqrt(np.square(effect - effect.mean(0)).sum(0)) / 2,
        agreement=float(standardized.prod(0).mean()),
    )
