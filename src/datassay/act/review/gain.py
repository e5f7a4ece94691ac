"""What a review gained: the same model trained on the samples before and after it, held-out paired.

Held-out labels may have been corrected too. The gain is measured on held-out samples whose label
both sides agree on: neither changed nor removed. Present or earlier labels would favour the side
that learnt from their like; gains by these are reported as well.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Shaped

from datassay.act.choose.action import Action, as_it_is, predictions
from datassay.act.choose.parts import R2, scoring_rule
from datassay.data.samples import SampleSet
from datassay.optional import select_rows
from datassay.progress import Progress, silent
from datassay.results import Tabular, field_names, result
from datassay.stats import (
    DO,
    LEAVE,
    TRY,
    advice,
    paired_interval,
    shows_loss,
    sum_by_group,
    widen_by_variance,
)
from datassay.train.learner import Learner

STEP = "train on the samples before and after"
AGREED = "labels that both agree on"
NOW = "labels as they are now"
EARLIER = "labels as they were"
COSTS = "costs"
OUTCOMES = {DO: "gains", TRY: "may help", LEAVE: "no change is shown"}


@result
class Corrected:
    """Samples of one part, before and after a review, in one order.

    Attributes:
        samples: n of them, as they were.
        y: [n] or [n, k], their labels now; of removed samples the earlier ones.
        keep: [n], which samples are not removed.
        suspected: [n], targets that are still suspected and are not scored; None: none.
    """

    samples: SampleSet
    y: Shaped[np.ndarray, " n *k"]
    keep: Bool[np.ndarray, " n"]
    suspected: Bool[np.ndarray, " n"] | None = None

    @property
    def is_new(self) -> Bool[np.ndarray, " n"]:
        """Mask of the samples whose label has changed."""
        return (self.y != self.samples.y).reshape(len(self.keep), -1).any(axis=1)

    @property
    def is_agreed(self) -> Bool[np.ndarray, " n"]:
        """Mask of the samples whose label is unchanged and not suspected."""
        is_agreed = self.keep & ~self.is_new
        if self.suspected is None:
            return is_agreed
        return is_agreed & ~self.suspected

    def subset(self, rows: np.ndarray) -> "Corrected":
        """Return some of the samples, by [m] positions or an [n] mask."""
        suspected = select_rows(self.suspected, rows)
        return Corrected(self.samples.subset(rows), self.y[rows], self.keep[rows], suspected)


@result
class Trial:
    """Training samples, and held-out samples that score both sides.

    Attributes:
        train: before and after.
        held_out: before and after.
        learner: fits R ≥ 2 models, which start alike on both sides.
    """

    train: Corrected
    held_out: Corrected
    learner: Learner


@result
class GainRow:
    """Scores by one kind of held-out labels.

    Attributes:
        by: which labels count.
        n: number of held-out samples.
        before: score of models trained on the samples before, mean over seeds and samples.
        after: of those trained on the samples after.
        low: lower end of the gain's 95 % interval.
        high: upper end.
        verdict: on the gain: "better", "worse" or "no difference".
    """

    by: str
    n: int
    before: float
    after: float
    low: float
    high: float
    verdict: str

    @property
    def gain(self) -> float:
        """Change of the score by the review."""
        return self.after - self.before


@result
class ReviewGain(Tabular):
    """What a review gained on held-out samples.

    Attributes:
        rows: by labels that both agree on; where held-out labels were changed also by those of now
            and by the earlier ones.
        metric: "accuracy", "balanced accuracy" or "R²".
        n_seeds: models per side and part.
        n_parts: held-out parts: 1, or folds.
    """

    rows: tuple[GainRow, ...]
    metric: str
    n_seeds: int
    n_parts: int

    @property
    def gain(self) -> float:
        """Gain by the labels that both sides agree on."""
        return self.rows[0].gain

    @property
    def is_loss(self) -> bool:
        """Whether the review surely cost something."""
        return shows_loss(self.rows[0].high)

    @property
    def outcome(self) -> str:
        """What the interval shows: "gains", "may help", "no change is shown" or "costs"."""
        row = self.rows[0]
        if self.is_loss:
            return COSTS
        return OUTCOMES[advice(row.gain, row.low, row.high)]

    def to_table(self) -> pa.Table:
        """Return one row per kind of labels: the fields of GainRow."""
        names = field_names(GainRow)
        return pa.table({name: [getattr(row, name) for row in self.rows] for name in names})


@result
class BeforeAfter:
    """A set of samples compared with itself before a review.

    Attributes:
        relabelled: (earlier label, label now, number of samples), the most frequent first.
        n_relabelled: samples with another label.
        n_removed: samples that are removed.
        n: training samples (before, after).
        suspects: suspected labels among them (before, after), without those that were decided.
        confirmed: labels that are suspected still, and that somebody reviewed and kept.
        expected_wrong: share of the training labels expected to be wrong (before, after).
        gain: None where nothing was trained.
        why_none: why not; else empty.
        other_model: the model that scored the labels before, if it was another; else empty.
        cleared: labels that were suspected before, were not changed and are not suspected now.
    """

    relabelled: tuple[tuple[str, str, int], ...]
    n_relabelled: int
    n_removed: int
    n: tuple[int, int]
    suspects: tuple[int, int]
    confirmed: int
    expected_wrong: tuple[float, float]
    gain: ReviewGain | None
    why_none: str = ""
    other_model: str = ""
    cleared: int = 0


def review_gain(trials: Sequence[Trial], progress: Progress = silent) -> ReviewGain | None:
    """Train on the samples as before and as after a review; return how both score."""
    # Source: ours; the interval is `stats.paired_interval`'s, over seeds and held-out samples.
    outputs: list[tuple[np.ndarray, np.ndarray]] = []  # by trial: before, after
    for trial in trials:
        train = trial.train
        as_reviewed = Action("review", "As reviewed", train.y, train.keep.astype(float), 0)
        sides = []
        for action in (as_it_is(train.samples), as_reviewed):
            progress(STEP, 2 * len(outputs) + len(sides), 2 * len(trials))
            sides.append(predictions(trial.learner, train.samples, trial.held_out.samples, action))
        outputs.append((sides[0], sides[1]))
    progress(STEP, 2 * len(trials), 2 * len(trials))
    all_masks = [np.ones(len(t.held_out.keep), dtype=bool) for t in trials]
    kept_masks = [t.held_out.keep for t in trials]
    agreed_masks = [t.held_out.is_agreed for t in trials]
    if sum(int(mask.sum()) for mask in agreed_masks) < 2:
        return None
    rows = [_compare_sides(AGREED, trials, outputs, agreed_masks, is_now=False)]
    if not all(mask.all() for mask in agreed_masks):
        rows += [_compare_sides(NOW, trials, outputs, kept_masks, is_now=True)]
        rows += [_compare_sides(EARLIER, trials, outputs, all_masks, is_now=False)]
    results = tuple(row for row, _ in rows)
    return ReviewGain(results, rows[0][1], trials[0].learner.repeats, len(trials))


def _compare_sides(
    labels: str,
    trials: Sequence[Trial],
    outputs: Sequence[tuple[Float[np.ndarray, "_ _ _"], Float[np.ndarray, "_ _ _"]]],
    masks: Sequence[Bool[np.ndarray, " _"]],
    *,
    is_now: bool,
) -> tuple[GainRow, str]:
    """Return the row that compares scores before and after on masked samples, and the metric.

    is_now: by the reviewed labels. outputs: (before, after), [R, m, k]; masks: who counts, [m].
    """
    rules = []
    kept_sides = []
    for trial, sides, mask in zip(trials, outputs, masks, strict=True):
        if not mask.any():
            continue
        samples = trial.held_out.samples
        if is_now:
            samples = replace(samples, y=trial.held_out.y)
        rules.append(scoring_rule(samples.subset(mask), trial.train.samples.y, None))
        kept_sides.append([side[:, mask] for side in sides])
    targets = np.concatenate([rule.held_out.y for rule in rules])
    metric = rules[0].metric
    if metric == R2:  # all parts divide by one variance: that of a few targets says little
        spread = targets.reshape(len(targets), -1).var(0)
        rules = [replace(rule, spread=spread) for rule in rules]
    scores = [
        [rule.scores(side) for side in sides] for rule, sides in zip(rules, kept_sides, strict=True)
    ]
    score_before, score_after = (
        float(np.concatenate([pair[side].mean(0) for pair in scores]).mean()) for side in (0, 1)
    )
    changes = sum_by_group([b - a for a, b in scores], [rule.groups for rule in rules])
    gain = paired_interval(changes, float(np.mean([rule.unit for rule in rules])))
    low, high = gain.low, gain.high
    if metric == R2:
        low, high = widen_by_variance(gain.gain, low, high, targets)
    n = sum(int(mask.sum()) for mask in masks)
    return GainRow(labels, n, score_before, score_after, low, high, gain.verdict), metric
