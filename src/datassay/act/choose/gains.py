"""Gains of acts on held-out samples, paired over seeds and samples, with honest intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from scipy.stats import chi2
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


def paired(
    parts: Sequence[Float[np.ndarray, "_ _"]], unit: float = 0.0, *, is_searched: bool = False
) -> Interval:
    """The mean of paired differences, and its interval.

    Var = Σ_f (m_f/m)² (s²_f / R_f − e²_f / (m_f R_f)) + ((Σ_j d_j² + unit) / (m + 2) − d̄²) / m
          + τ² (1 + 1/F)

    s² is the variance of the seeds' means, e² that of what is left when seed and sample are taken
    out: both seeds and held-out samples could have been others. Half a sample more is imagined
    better by √unit, half a sample worse, and one the same: on a handful of samples that an act does
    not change the interval would otherwise have no width. τ² is the variance of the gain from part
    to part beyond that: an act is found anew on each part, and the act found on all samples is one
    more such draw. It counts where a χ² test at 5 % finds any, and always for what a search with
    many outcomes found. Degrees of freedom are those of Welch and Satterthwaite.

    Args:
        parts: differences of the scores, [R seeds, m samples], one array a held-out part.
        unit: squared weight of one prediction in the score; 0: no imagined samples.
        is_searched: whether the act is what a search found, such as blocks: another part gives
            another.

    Returns:
        The interval; infinitely wide for one seed or one sample.

    Source: two crossed random effects, and random effects of parts by the method of moments; the
    imagined samples are those of Agresti and Min (2005) for paired proportions.
    """
    each = np.concatenate([part.mean(0) for part in parts])
    m, mean = len(each), float(each.mean())
    if m < 2 or any(min(part.shape) < 2 for part in parts):
        return Interval(mean, -np.inf, np.inf, 1.0)
    share = np.array([(part.shape[1] / m) ** 2 for part in parts])
    seed, left, sample = np.array([_variances(part) for part in parts]).T
    by_seed = float(share @ seed)
    by_sample = max(0.0, ((each**2).sum() + unit) / (m + 2) - mean**2) / m
    within = max(by_seed, by_sample, by_seed + by_sample - float(share @ left))
    between = _between(parts, seed + sample - left, is_searched)
    total = within + between
    if not total > 0:
        return Interval(mean, mean, mean, float(mean == 0))
    n_seeds = sum(len(part) - 1 for part in parts)
    spread = by_seed**2 / n_seeds + by_sample**2 / (m - 1) + between**2 / max(1, len(parts) - 1)
    freedom = max(1.0, total**2 / spread)
    half = float(student.ppf((1 + LEVEL) / 2, freedom) * total**0.5)
    p = float(2 * student.sf(abs(mean) / total**0.5, freedom))
    return Interval(mean, mean - half, mean + half, p)


def _variances(part: Float[np.ndarray, "R m"]) -> tuple[float, float, float]:
    """Of a part's mean: by its seeds, by what seed and sample leave, and by its samples."""
    n_seeds, m = part.shape
    seeds, samples = part.mean(1), part.mean(0)
    left = part - seeds[:, None] - samples + part.mean()
    error = float((left**2).sum() / ((n_seeds - 1) * (m - 1)))
    return float(seeds.var(ddof=1)) / n_seeds, error / (m * n_seeds), float(samples.var(ddof=1)) / m


def _between(
    parts: Sequence[np.ndarray], within: Float[np.ndarray, " F"], is_searched: bool
) -> float:
    """τ² (1 + 1/F) of F parts; 0 for one, and where a test finds none."""
    if len(parts) < 2:
        return 0.0
    means = np.array([part.mean() for part in parts])
    excess, n = float(means.var(ddof=1) / within.mean()) if within.mean() > 0 else 0.0, len(parts)
    if is_searched:  # by chance the parts' acts can look alike: no less than they differ
        return float(means.var(ddof=1)) * (1 + 1 / n)
    if chi2.sf((n - 1) * excess, n - 1) > 1 - LEVEL:
        return 0.0
    return float(means.var(ddof=1) - within.mean()) * (1 + 1 / n)


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
