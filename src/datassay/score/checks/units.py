"""Suspected targets that look as if they were in another unit, or of the other sign."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import bdtrc

from datassay.collect.linearization import Linearization
from datassay.score.labels.factors import FACTORS
from datassay.score.labels.issues import LabelIssues

# Factors are named if the log ratios of FEWEST suspects and the share SHARE of them are within NEAR
# of their logs, and of each more suspects than samples in as wide a range nearer 1, where ratios
# that stray by chance are denser. Several are named together only if they are powers of ten:
# whoever misplaces a point, or types milli for kilo, does not always misplace it by one.
NEAR = 0.3
# Units that differ less: inches, pounds, feet. They show where targets are expected to within a
# tenth, by log ratios within CLOSE of the factor's, TIMES_CLOSE as many as nearer 1, and a median
# within CENTRE: 4 of 3,000 drawn sets without any unit, and of those with one 88 % at a spread of
# 0.05, 76 % at 0.08.
SMALL = (2.54, 2.2046, 3.2808)
CLOSE, TIMES_CLOSE, CENTRE = 0.1, 3, 0.04
FEWEST = 5
SHARE = 0.5
# Fewer suspects are slips of the decimal point if SLIPS of them lie within SPREADS standard
# deviations of other rows' log ratios (CLOSE / 2 to NEAR) of one, their median within half of that,
# and so many of the rows in a range 1 / SLIP_PART as wide about it less often than CHANCE: where
# ratios grow rarer away from 1 ever more slowly, no more than SLIP_PART of these lie in the middle.
# Of 109 drawn tables without slips it named none; of 25 with a minority of slips, targets expected
# to within a tenth, 17, 94 of 100 rows rightly.
SLIPS, SPREADS, SLIP_PART, CHANCE = 4, 2.5, 0.2, 0.005
SLIP_FACTORS = (10.0, 100.0, 1000.0)
# A limit is shared by LIMITED of all targets, and TIMES as many as any other large value.
LIMITED, TIMES = 0.01, 4
DECIMAL = tuple(factor for factor in FACTORS if np.log10(factor).is_integer())


def unit_warning(lin: Linearization, issues: LabelIssues, *, is_log: bool = False) -> str:
    """Return a sentence on what most suspected targets share, such as a factor; or "".

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
    is_turned = suspect & (ratio < 0)
    count = int((np.abs(np.log(-ratio[is_turned])) < 2 * NEAR).sum())
    if count >= max(FEWEST, SHARE * n):
        return f"{count} of {n} suspected targets are about what is expected with the other sign."
    factors = find_unit_factors(ratio, suspect).values()
    if not factors:
        return ""
    words = f"{name_factors(factors)} times what is expected"
    if max(factors) < 1:
        words = f"1/{name_factors(factors)} of what is expected"
    elif min(factors) < 1:
        words = f"{name_factors(factors)} times too large or too small"
    start = f"{len(factors)} of {n} suspected targets are about {words}"
    return f"{start}: check their unit first."


def name_factors(factors: Iterable[float]) -> str:
    """Return factors, each as if targets were too large by it, in words: "10 or 1,000"."""
    sizes = sorted({round(max(f, 1 / f), 4) for f in factors})
    return " or ".join(f"{size:,g}" for size in sizes)


def suggest_units(issues: LabelIssues) -> LabelIssues:
    """Return the issues with `unit_factors` set and targets without the factor suggested.

    A target that would lie outside those that are not suspected keeps its suggestion: nothing is
    proposed that was not observed.
    """
    trusted = issues.given_label[~issues.is_issue]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = issues.given_label / issues.suggested_label
    factors = find_unit_factors(ratio, issues.is_issue)
    suggested = issues.suggested_label.copy()
    observed_factors = {}
    for row, factor in factors.items():
        if factor > 1:
            mended = issues.given_label[row] / round(factor, 4)
        else:
            mended = issues.given_label[row] * round(1 / factor, 4)
        if trusted.min() <= mended <= trusted.max():
            suggested[row] = mended
            observed_factors[row] = factor
    return replace(issues, suggested_label=suggested, unit_factors=observed_factors)


def find_unit_factors(
    ratio: Float[np.ndarray, " n"], suspect: Bool[np.ndarray, " n"]
) -> dict[int, float]:
    """Return {row: factor by which its target is too large or small}, of suspects.

    It is one of FACTORS or its inverse, the one that explains the most suspects; where that is a
    power of ten, the nearest of these; else one of SMALL. Where they explain fewer than SHARE of
    the suspects, powers of ten that more of them share than chance explains.

    Args:
        ratio: of each target to what is expected of it.
        suspect: which targets are suspected.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.where(ratio > 0, np.log(ratio), np.nan)

    def find_near(
        factors: Sequence[float], width: float = NEAR, times: int = 1
    ) -> dict[int, float]:
        """Return the nearest of some factors by position, on a side that chance does not fill."""
        factor_of_row: dict[int, float] = {}
        for factor in (*factors, *(1 / factor for factor in factors)):
            log_factor = np.log(factor)
            is_near = suspect & (np.abs(log_ratio - log_factor) < width)
            nearer_one = log_factor - 2 * width * np.sign(log_factor)
            if is_near.sum() > times * (np.abs(log_ratio - nearer_one) < width).sum():
                factor_of_row |= dict.fromkeys(np.flatnonzero(is_near).tolist(), factor)
        return factor_of_row

    candidate = max(FACTORS, key=lambda factor: len(find_near([factor])))
    factor_by_row = find_near([candidate])
    if factor_by_row:
        distance = np.abs(log_ratio[list(factor_by_row)])
        factor = min(FACTORS, key=lambda f: abs(np.log(f) - np.median(distance)))
        factor_by_row = find_near(DECIMAL if factor in DECIMAL else [factor])
    fewest = max(FEWEST, SHARE * suspect.sum())
    if len(factor_by_row) < fewest:
        factor = max(SMALL, key=lambda factor: len(find_near([factor], CLOSE, TIMES_CLOSE)))
        factor_by_row = find_near([factor], CLOSE, TIMES_CLOSE)
        distance = np.abs(log_ratio[list(factor_by_row)])
        if len(factor_by_row) < fewest or abs(np.median(distance) - np.log(factor)) > CENTRE:
            factor_by_row = _find_slips(log_ratio, suspect)
    return dict(sorted(factor_by_row.items()))


def _find_slips(
    log_ratio: Float[np.ndarray, " n"], suspect: Bool[np.ndarray, " n"]
) -> dict[int, float]:
    """Return {row: power of ten} of suspects that gather there, few as they may be."""
    usual = log_ratio[~suspect & np.isfinite(log_ratio)]
    if len(usual) == 0:
        return {}
    deviation = 1.4826 * np.median(np.abs(usual - np.median(usual)))
    width = float(np.clip(SPREADS * deviation, CLOSE / 2, NEAR))
    factor_by_row: dict[int, float] = {}
    for factor in (*SLIP_FACTORS, *(1 / factor for factor in SLIP_FACTORS)):
        distance = log_ratio - np.log(factor)
        is_slip = suspect & (np.abs(distance) < width)
        n_beside = int((np.abs(distance) < width / SLIP_PART).sum())
        if is_slip.sum() < SLIPS or abs(np.median(distance[is_slip])) >= width / 2:
            continue
        if bdtrc(is_slip.sum() - 1, n_beside, SLIP_PART) < CHANCE:  # P(as many or more)
            factor_by_row |= dict.fromkeys(np.flatnonzero(is_slip).tolist(), factor)
    return factor_by_row


def _describe_limit(targets: Float[np.ndarray, " n"]) -> str:
    """Return a sentence if targets look clipped at their maximum; else ""."""
    values, counts = np.unique(targets, return_counts=True)
    n_top = counts[-1]
    n_typical = counts[len(counts) // 2 : -1].max(initial=1)
    if len(counts) < 2 or n_top < max(FEWEST, LIMITED * len(targets), TIMES * n_typical):
        return ""
    return (
        f"{n_top} of {len(targets):,} targets are {values[-1]:g}, the largest: if that is a limit, "
        "they were cut there, and their true values are not known."
    )
