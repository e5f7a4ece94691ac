"""A smaller training set: remove what informs least, once or step by step."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.score.label_issues import LabelIssues
from datassay.score.sample_information import sample_information
from datassay.score.settings import Smoothing

# Each class keeps at least this part of its proportional share. Information alone, and more so the
# suspects, can empty a rare class: its samples are the hard ones.
LEAST_SHARE = 0.9


@result
class KeepSet(Tabular):
    """Which samples to keep.

    Attributes:
        keep: [kept] positions in the training set, ascending.
        removed: [n − kept] positions, in the order of removal.
        kept_ids: [kept], the ids at `keep`.
        iterative: whether scores were recomputed after each step.
    """

    keep: Int[np.ndarray, " kept"]
    removed: Int[np.ndarray, " removed"]
    kept_ids: np.ndarray
    iterative: bool

    @property
    def removed_first(self) -> Int[np.ndarray, " n"]:
        """All positions in the order of removal, as `removal_curve` takes them."""
        return np.concatenate([self.removed, self.keep])

    def to_table(self) -> pa.Table:
        """One row per kept sample: position, id."""
        return pa.table({"position": self.keep, "id": self.kept_ids})


def suspects_first(information: np.ndarray, issues: LabelIssues) -> np.ndarray:
    """The order of removal that drops likely label errors, then what informs least.

    A wrong label is informative, so removing the lowest information alone would keep it to the end.

    Args:
        information: [n], nats.
        issues: the label scores.

    Returns:
        [n] positions, suspects first, the most suspect of them first.
    """
    lowest = np.argsort(information, kind="stable")
    return np.concatenate([issues.suspects, lowest[~issues.is_issue[lowest]]])


def spare(
    classes: Int[np.ndarray, " n"], target: int, removed: Int[np.ndarray, " removed"] | None = None
) -> Int[np.ndarray, " k"]:
    """How many more samples each class can lose.

    Args:
        classes: class indices.
        target: how many of all samples are to be kept.
        removed: positions of those that are gone.

    Returns:
        [k], by class index: what lies above `LEAST_SHARE` of its proportional share.
    """
    counts = np.bincount(classes)
    least = LEAST_SHARE * target / len(classes) * counts
    tried = (np.ceil(least), np.maximum(np.floor(least), counts > 0), np.floor(least))
    least = next(one for one in tried if one.sum() <= target)
    gone = np.bincount(classes[[] if removed is None else removed], minlength=len(counts))
    return counts - gone - least.astype(int)


def _allowed(
    classes: Int[np.ndarray, " m"], room: Int[np.ndarray, " k"], most: int
) -> Int[np.ndarray, " s"]:
    """Places of the first samples, in their order, that their classes can spare; at most `most`."""
    place = np.empty(len(classes), int)  # of each sample within its class
    for c in np.unique(classes):
        place[classes == c] = np.arange((classes == c).sum())
    return np.flatnonzero(place < room[classes])[:most]


@checks_arguments
def summarize(
    lin: Linearization,
    fraction: float,
    *,
    iterative: bool = False,
    step: float = 0.05,
    smoothing: str = Smoothing.smoothing,
    issues: LabelIssues | None = None,
    progress: Progress = silent,
    **run: float | int | str,
) -> KeepSet:
    """Keep a fraction of the samples by removing those of lowest information.

    Of each class at least 90 % of its proportional share stays: `LEAST_SHARE` · fraction of its
    samples, one at least.

    Args:
        lin: the linearisation.
        fraction: of the samples to keep, in (0, 1].
        iterative: remove `step` of what remains, score again, and so on, since the information of
            a sample grows when another that says the same is gone.
        step: fraction of what remains that one step removes, in (0, 1).
        smoothing: of `sample_information`.
        issues: label scores; suspects are then removed before anything else, since a wrong label is
            informative and would otherwise be kept to the end, as far as their class can
            spare them. None: by information alone.
        progress: called with (step, samples removed, samples to remove).
        run: lr, steps, weight_decay, reduction, dynamics of `leave_one_out`.

    Returns:
        The samples to keep, and the others in the order of removal.

    Raises:
        SettingError: fraction or step is out of range, or fewer than 2 samples would remain.

    Cost: one `leave_one_out`; iterative: one a step, log(fraction)/log(1 − step) of them.
    Source: S1 §6, "Data summarization" (Fig. 2c), which removes 5 % of what remains at a time;
    removing suspects first and the bound on classes are ours.
    """
    if not 0 < fraction <= 1:
        raise SettingError(f"fraction must lie in (0, 1]; got {fraction}.")
    if not 0 < step < 1:
        raise SettingError(f"step must lie in (0, 1); got {step}.")
    n = len(lin)
    target = round(fraction * n)
    if target < 2:
        raise SettingError(f"fraction must keep at least 2 samples; {fraction} of {n} is {target}.")
    classes = np.zeros(n, int) if lin.labels is None else np.asarray(lin.labels)
    room = spare(classes, target)
    suspects = np.empty(0, int) if issues is None else issues.suspects
    removed = suspects[_allowed(classes[suspects], room, n - target)]
    keep = np.setdiff1d(np.arange(n), removed)
    while len(keep) > target:
        size = max(1, round(step * len(keep))) if iterative else len(keep)
        size = min(size, len(keep) - target)
        part = lin if len(keep) == n else lin.subset(keep)
        information = sample_information(part, smoothing=smoothing, **run).information  # pyright: ignore[reportArgumentType]
        lowest = np.argsort(information, kind="stable")
        lowest = lowest[_allowed(classes[keep[lowest]], spare(classes, target, removed), size)]
        removed = np.concatenate([removed, keep[lowest]])
        keep = np.delete(keep, lowest)
        progress("remove what informs least", len(removed), n - target)
    return KeepSet(keep, removed, lin.ids[keep], iterative)
