"""Suspected targets that look as if they were in another unit, or of the other sign."""

import numpy as np
from jaxtyping import Float

from datassay.collect.linearization import Linearization
from datassay.score.labels.factors import FACTORS
from datassay.score.labels.issues import LabelIssues

# A factor is named if the log ratios of FEWEST suspects and the share SHARE of them are within NEAR
# of its log, and more suspects than samples in as wide a range nearer 1, where ratios that stray by
# chance are denser.
NEAR = 0.3
FEWEST = 5
SHARE = 0.5
# A limit is shared by LIMITED of all targets, and TIMES as many as any other large value.
LIMITED, TIMES = 0.01, 4


def unit_warning(lin: Linearization, issues: LabelIssues, *, is_log: bool = False) -> str:
    """Return a sentence on what most suspected targets have in common.

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
    targets = lin.targets.double()[:, 0].numpy()
    expected = issues.suggested_label
    if is_log:
        targets, expected = np.exp(targets), np.exp(expected)
    if n < FEWEST:
        return _describe_limit(targets)
    values, counts = np.unique(targets[suspect], return_counts=True)
    count = counts.max()
    if count >= max(FEWEST, SHARE * n):
        value = values[counts.argmax()]
        return f"{count} of {n} suspected targets are {value:g}: check whether that is a code."
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = targets / expected
        log_ratio = np.log(np.abs(ratio))
    positive_log_ratios = log_ratio[ratio > 0]
    ratio = ratio[suspect]
    log_ratio = log_ratio[suspect]
    count = int(((ratio < 0) & (np.abs(log_ratio) < 2 * NEAR)).sum())
    if count >= max(FEWEST, SHARE * n):
        return f"{count} of {n} suspected targets are about what is expected with the other sign."
    log_factors = np.log(FACTORS + tuple(1 / factor for factor in FACTORS))
    is_near = (ratio > 0) & (np.abs(log_ratio - log_factors[:, None]) < NEAR)  # [factors, suspects]
    matches = is_near[is_near.sum(1).argmax()]
    factor_idx = 0
    if matches.any():
        factor_idx = int(np.abs(log_factors - np.median(log_ratio[matches])).argmin())
    log_factor = log_factors[factor_idx]
    is_nearer = np.abs(positive_log_ratios - log_factor + 2 * NEAR * np.sign(log_factor)) < NEAR
    count = int(matches.sum())
    if count < max(FEWEST, SHARE * n, is_nearer.sum() + 1):
        return ""
    factor = FACTORS[factor_idx % len(FACTORS)]
    if factor_idx < len(FACTORS):
        words = f"{factor:,g} times"
    else:
        words = f"1/{factor:,g} of"
    return f"{count} of {n} suspected targets are about {words} what is expected: check their unit."


def _describe_limit(targets: Float[np.ndarray, " n"]) -> str:
    """Return a sentence on the largest target if many share it, unlike other large ones; or ""."""
    values, counts = np.unique(targets, return_counts=True)
    n_top = counts[-1]
    n_typical = counts[len(counts) // 2 : -1].max(initial=1)
    if len(counts) < 2 or n_top < max(FEWEST, LIMITED * len(targets), TIMES * n_typical):
        return ""
    return (
        f"{n_top} of {len(targets):,} targets are {values[-1]:g}, the largest: if that is a limit, "
        "they were cut there, and their true values are not known."
    )
