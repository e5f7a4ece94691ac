"""Suspected targets that look as if they were in another unit, or of the other sign."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from datassay.collect.linearization import Linearization
from datassay.score.labels.issues import LabelIssues
from datassay.score.labels.units import FACTORS

# A factor is named where it is within this of so many suspects and such a share of them, and of
# more than there are samples in as wide a range nearer 1, where what strays by chance is denser.
NEAR, FEWEST, SHARE = 0.3, 5, 0.5
# A limit is shared by this part of all targets, and by so many times more than a large other value.
LIMITED, TIMES = 0.01, 4


def unit_warning(lin: Linearization, issues: LabelIssues, *, is_log: bool = False) -> str:
    """What most suspected targets have in common.

    Args:
        lin: the linearisation, of one target a sample.
        issues: of its targets.
        is_log: whether the targets are logarithms.

    Returns:
        A sentence; empty where they share neither a value, a factor nor the other sign. Where
        hardly any are suspected, it names a limit at which targets are cut.
    """
    suspect = issues.is_issue
    n = int(suspect.sum())
    if lin.targets.shape[1] > 1 or np.isnan(issues.ridge):
        return ""
    given, right = lin.targets.double()[:, 0].numpy(), issues.suggested_label
    given, right = (np.exp(given), np.exp(right)) if is_log else (given, right)
    if n < FEWEST:
        return _limit(given)
    values, counts = np.unique(given[suspect], return_counts=True)
    if counts.max() >= max(FEWEST, SHARE * n):
        value = values[counts.argmax()]
        return (
            f"{counts.max()} of {n} suspected targets are {value:g}: check whether that is a code."
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = given / right
        size = np.log(np.abs(ratio))
    every, ratio, size = size[ratio > 0], ratio[suspect], size[suspect]
    turned = int(((ratio < 0) & (np.abs(size) < 2 * NEAR)).sum())
    if turned >= max(FEWEST, SHARE * n):
        return f"{turned} of {n} suspected targets are about what is expected with the other sign."
    logs = np.log(FACTORS + tuple(1 / factor for factor in FACTORS))
    near = (ratio > 0) & (np.abs(size - logs[:, None]) < NEAR)  # [factors, n]
    most = near[near.sum(1).argmax()]
    at = int(np.abs(logs - np.median(size[most])).argmin()) if most.any() else 0
    nearer = np.abs(every - logs[at] + 2 * NEAR * np.sign(logs[at])) < NEAR
    if (count := int(most.sum())) < max(FEWEST, SHARE * n, nearer.sum() + 1):
        return ""
    factor = FACTORS[at % len(FACTORS)]
    words = f"{factor:,g} times" if at < len(FACTORS) else f"1/{factor:,g} of"
    return f"{count} of {n} suspected targets are about {words} what is expected: check their unit."


def _limit(targets: Float[np.ndarray, " n"]) -> str:
    """Return a sentence on a largest target that many share, as none of the large others."""
    values, counts = np.unique(targets, return_counts=True)
    top, others = counts[-1], counts[len(counts) // 2 : -1].max(initial=1)
    told = (
        f"{top} of {len(targets):,} targets are {values[-1]:g}, the largest: if that is a limit, "
    )
    told += "they were cut there, and their true values are not known."
    is_limit = top >= max(FEWEST, LIMITED * len(targets), TIMES * others) and len(counts) > 1
    return told * bool(is_limit)
