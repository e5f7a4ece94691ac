"""Gains of acts on held-out samples, paired over seeds and samples, with honest intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from scipy.stats import t as student

from datassay.results import Tabular, field_names, result

LEVEL = 0.95
RETRAINED, SCREENED, EXPECTED = "retrained", "screened", "expected"
BETTER, PERHAPS, WORSE, SAME = "better", "perhaps better", "worse", "no difference"


@result
class Interval:
    """A mean difference and what other seeds and other held-out samples would make of it.

    Attributes:
        gain: mean over seeds and samples.
        low: lower end of the 95 % interval.
        high: upper end.
        p: two-sided p value of no gain.
    """

    gain: float
    low: float
    high: float
    p: float


def paired(parts: Sequence[Float[np.ndarray, "_ _"]], unit: float = 0.0) -> Interval:
    """The mean of paired differences, and its interval.

    Var(mean) = Σ_f (m_f/m)² s²_f / R_f + ((Σ_j d_j² + unit) / (m + 2) − d̄²) / m

    Both seeds and held-out samples could have been others: their variances of the mean are added,
    and the degrees of freedom are those of Welch and Satterthwaite. Half a sample more is imagined
    better by √unit, half a sample worse, and one the same: on a handful of samples that an act does
    not change the interval would otherwise have no width.

    Args:
        parts: differences of the scores, [R seeds, m samples], one array a held-out part.
        unit: squared weight of one prediction in the score; 0: no imagined samples.

    Returns:
        The interval; infinitely wide for one seed or one sample.

    Source: ours; the imagined samples are those of Agresti and Min (2005) for paired proportions.
    """
    each = np.concatenate([part.mean(0) for part in parts])
    m, mean = len(each), float(each.mean())
    seeds = [part.mean(1) for part in parts]
    if m < 2 or any(len(one) < 2 for one in seeds):
        return Interval(mean, -np.inf, np.inf, 1.0)
    share = [(part.shape[1] / m) ** 2 for part in parts]
    by_seed = sum(s * one.var(ddof=1) / len(one) for s, one in zip(share, seeds, strict=True))
    by_sample = max(0.0, ((each**2).sum() + unit) / (m + 2) - mean**2) / m
    total = by_seed + by_sample
    if not total > 0:
        return Interval(mean, mean, mean, float(mean == 0))
    n_seeds = sum(len(one) - 1 for one in seeds)
    freedom = total**2 / (by_seed**2 / n_seeds + by_sample**2 / (m - 1))
    half = float(student.ppf((1 + LEVEL) / 2, freedom) * total**0.5)
    p = float(2 * student.sf(abs(mean) / total**0.5, freedom))
    return Interval(mean, mean - half, mean + half, p)


@result
class ActGain:
    """What one act gained.

    Attributes:
        kind: which act, one of `act.KINDS`.
        words: what is done.
        how: "retrained", "screened" (the closed form alone) or "expected" (a learning curve).
        gain: of the metric, over the samples as they are; nan where nothing could be estimated.
        low: lower end of its 95 % interval; −inf where it was only screened.
        high: upper end.
        p: two-sided p value of no gain, of this act alone.
        verdict: of `verdicts`; empty where it was only screened.
        given: the gain as if every held-out label were right.
        unsuspected: the gain on held-out samples whose labels are not suspected.
        control: the gain of the control; nan where there was none.
        control_words: what the control does.
        screened: the gain in closed form.
        changed: samples that it touches.
        cost: samples that it costs: those removed; negative: to be collected.
        seconds: that its retraining took.
        note: what else is to be known; may be empty.
    """

    kind: str
    words: str
    how: str
    gain: float
    low: float
    high: float
    p: float
    verdict: str
    given: float = np.nan
    unsuspected: float = np.nan
    control: float = np.nan
    control_words: str = ""
    screened: float = np.nan
    changed: int = 0
    cost: int = 0
    seconds: float = 0.0
    note: str = ""


@result
class ActTable(Tabular):
    """Acts beside the samples as they are, best first.

    Attributes:
        acts: what was tried; those only screened behind the others.
        left_out: what was not tried, and why.
        metric: "accuracy", "balanced accuracy" or "R²".
        score: of the samples as they are, corrected for wrong held-out labels where they are.
        score_given: the same as if every held-out label were right.
        n_held_out: samples that gains are measured on.
        n_suspected: of these with a suspected label.
        n_parts: held-out parts: 1, or folds.
        n_seeds: models an act and part.
        is_corrected: whether gains count with wrong held-out labels.
        seconds: that all of it took.
    """

    acts: tuple[ActGain, ...]
    left_out: tuple[str, ...]
    metric: str
    score: float
    score_given: float
    n_held_out: int
    n_suspected: int
    n_parts: int
    n_seeds: int
    is_corrected: bool
    seconds: float

    @property
    def best(self) -> ActGain | None:
        """The act to do: the first that is better; None: nothing to do."""
        return next((act for act in self.acts if act.verdict == BETTER), None)

    def to_table(self) -> pa.Table:
        """One row an act: the fields of ActGain."""
        names = field_names(ActGain)
        return pa.table({name: [getattr(act, name) for act in self.acts] for name in names})


def verdicts(p_values: Sequence[float], gains: Sequence[float]) -> list[str]:
    """What can be said of several acts at once.

    Args:
        p_values: two-sided, one an act.
        gains: of the same acts.

    Returns:
        "better" or "worse" where a gain or loss holds at 5 % beside all others, by Holm's steps;
        "perhaps better" where a gain would hold if the act were the only one tried; else "no
        difference".
    """
    alone = [p <= 1 - LEVEL and gain > 0 for p, gain in zip(p_values, gains, strict=True)]
    said, is_open = [PERHAPS if one else SAME for one in alone], True
    for place, i in enumerate(np.argsort(p_values, kind="stable")):
        is_open = is_open and p_values[i] <= (1 - LEVEL) / (len(p_values) - place)
        if is_open:
            said[i] = BETTER if gains[i] > 0 else WORSE
    return said
