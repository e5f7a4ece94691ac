"""Agreement of scores: correlations between score vectors, averaged over repeated runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from datassay.errors import SettingError
from datassay.results import result


@result
class Stability:
    """How strongly scores of different runs agree.

    Attributes:
        names: [r], what was varied: architectures, training lengths, initialisations.
        spearman: [r, r], mean rank correlation over the seeds, in [-1, 1].
        pearson: [r, r], mean linear correlation over the seeds, in [-1, 1].
        spearman_spread: [r, r], standard deviation over the seeds; 0 where there is only one.
        pearson_spread: [r, r], likewise.
    """

    names: tuple[str, ...]
    spearman: Float[np.ndarray, "r r"]
    pearson: Float[np.ndarray, "r r"]
    spearman_spread: Float[np.ndarray, "r r"]
    pearson_spread: Float[np.ndarray, "r r"]


def stability(scores: Mapping[str, np.ndarray]) -> Stability:
    """Correlation between the scores of every two runs, seed by seed, then averaged.

    Args:
        scores: name → one score a sample, [n], or [s, n] for s seeds; entry [i, j] pairs seed with
            seed, so the same seed must mean the same samples. Higher or lower does not matter.

    Returns:
        Spearman and Pearson matrices with their spread over seeds.

    Raises:
        SettingError: fewer than two runs or samples, shapes that differ, values that are not
            finite, or scores that are all equal.

    Cost: s r² n operations.
    Source: S1 App. A.4, Fig. 5 (Pearson, averages over 10 runs); ranks are ours, as information
    spans decades and a few samples dominate a linear correlation.
    """
    values = _checked(scores)  # [r, s, n]
    ranked = rankdata(values, axis=2)
    means, spreads = zip(*(_correlation(v) for v in (ranked, values)), strict=True)
    return Stability(tuple(scores), means[0], means[1], spreads[0], spreads[1])


def _checked(scores: Mapping[str, np.ndarray]) -> Float[np.ndarray, "r s n"]:
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


def _correlation(
    values: Float[np.ndarray, "r s n"],
) -> tuple[Float[np.ndarray, "r r"], Float[np.ndarray, "r r"]]:
    """Mean and spread over seeds of the correlation matrix."""
    each = np.stack([np.corrcoef(values[:, seed]) for seed in range(values.shape[1])])
    spread = each.std(0, ddof=1) if len(each) > 1 else np.zeros_like(each[0])
    return each.mean(0), spread
