"""Everything one purification found out, gathered for its page, tables and summary."""

from __future__ import annotations

import math
from dataclasses import field

import numpy as np
from jaxtyping import Bool, Float, Int

from datassay.act.purify.result import Purification
from datassay.data.samples import SampleSet, wrong_labels
from datassay.errors import DataError
from datassay.results import result


@result
class PurifyFindings:
    """One purification and its rival, in the order of the training samples.

    Attributes:
        samples: the n training samples, as they were given.
        validation: measured at each step; decides only where the rule is "validation".
        purification: what was removed, and the trace.
        rival: the highest training losses removed under the same rule; None where not asked for.
        predicted: [n] or [n, k], label or target by the model fitted to what is kept.
        chance: [n], probability that this model gives the label as given; NaN for a regression.
        majority: the source that most samples come from, whose validation samples alone are the
            trace's test set; empty where no source holds more than half, or a truth is known.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    samples: SampleSet
    validation: SampleSet
    purification: Purification
    rival: Purification | None
    predicted: Int[np.ndarray, " n"] | Float[np.ndarray, "n ..."]
    chance: Float[np.ndarray, " n"]
    majority: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("purification", "rival"):
            one = getattr(self, name)
            if one is not None and not np.array_equal(one.ids, self.samples.ids):
                raise DataError(
                    f"{name} must have the samples' ids in the samples' order; they differ. "
                    "Purify the same SampleSet that the report shows."
                )

    @property
    def metric(self) -> str:
        """What the traces' scores are: "accuracy" or "R²"."""
        return "accuracy" if self.samples.is_classification else "R²"

    @property
    def lost(self) -> tuple[Int[np.ndarray, " classes"], Int[np.ndarray, " classes"]]:
        """Samples of each class, and how many of them are removed."""
        y, n = self.samples.y, self.samples.n_classes
        removed = y[self.purification.removed]
        return np.bincount(y, minlength=n), np.bincount(removed, minlength=n)


@result
class Foreign:
    """Which samples should have been removed, where that is known.

    Attributes:
        mask: [n].
        name: what they are, such as "wrong labels".
    """

    mask: Bool[np.ndarray, " n"]
    name: str

    def precision(self, removed: Int[np.ndarray, " removed"]) -> float:
        """Share of these positions that are foreign; NaN for none."""
        return float(self.mask[removed].mean()) if len(removed) else math.nan

    def recall(self, removed: Int[np.ndarray, " removed"]) -> float:
        """Share of the foreign samples among these positions; NaN for none or nothing foreign."""
        total = int(self.mask.sum())
        return float(self.mask[removed].sum() / total) if total and len(removed) else math.nan


def majority_source(samples: SampleSet) -> str:
    """The source of more than half of the samples; empty where there is none, or only one."""
    if samples.source is None:
        return ""
    names, counts = np.unique(samples.source, return_counts=True)
    largest = counts.argmax()
    return str(names[largest]) if len(names) > 1 and 2 * counts[largest] > len(samples) else ""


def foreign(findings: PurifyFindings) -> Foreign | None:
    """What should have gone: wrong labels, or other sources than the majority's; None: unknown."""
    samples, majority = findings.samples, findings.majority
    wrong = wrong_labels(samples)
    if wrong is not None:
        return Foreign(wrong, "wrong labels")
    if not majority:
        return None
    assert samples.source is not None
    return Foreign(samples.source != majority, f"samples not from {majority}")


def before_and_after(findings: PurifyFindings) -> list[dict[str, float]]:
    """The figures at the start, at our stop and at the rival's.

    Returns:
        Each: `removed`, `variance`, `loss`, `validation`, `majority` (the validation samples of the
        majority's source alone), `precision` and `recall`; NaN where a figure is not known.
    """
    truth, ours, rival = foreign(findings), findings.purification, findings.rival
    stops = [(ours, 0), (ours, ours.steps)]
    if rival is not None:
        stops.append((rival, rival.steps))
    columns = []
    for one, point in stops:
        trace = one.trace
        removed = one.removed[: int(trace.removed[point])]
        columns.append({
            "removed": int(trace.removed[point]),
            "variance": float(trace.variance[point]),
            "loss": float(trace.loss[point]),
            "validation": float(trace.validation[point]),
            "majority": float(trace.test[point]),
            "precision": math.nan if truth is None else truth.precision(removed),
            "recall": math.nan if truth is None else truth.recall(removed),
        })
    return columns
