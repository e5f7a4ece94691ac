"""Everything one purification found out, gathered for its page, tables and summary."""

from __future__ import annotations

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
        validation: measured at each step; decides only where found.rule is "validation".
        found: what was removed, and the trace.
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
    found: Purification
    rival: Purification | None
    predicted: Int[np.ndarray, " n"] | Float[np.ndarray, "n ..."]
    chance: Float[np.ndarray, " n"]
    majority: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, ids in (("found", self.found.ids), ("rival", self._rival_ids)):
            if not np.array_equal(ids, self.samples.ids):
                raise DataError(
                    f"{name} must have the samples' ids in the samples' order; they differ. "
                    "Purify the same SampleSet that the report shows."
                )

    @property
    def _rival_ids(self) -> np.ndarray:
        return self.samples.ids if self.rival is None else self.rival.ids

    @property
    def metric(self) -> str:
        """What the traces' scores are: "accuracy" or "R²"."""
        return "accuracy" if self.samples.is_classification else "R²"


@result
class Foreign:
    """Which samples should have been removed, where that is known.

    Attributes:
        mask: [n].
        one: what one of them is, such as "wrong label".
        many: the plural.
        alone: what the others are, such as "right labels".
    """

    mask: Bool[np.ndarray, " n"]
    one: str
    many: str
    alone: str

    def precision(self, removed: Int[np.ndarray, " removed"]) -> float:
        """Share of these positions that are foreign; NaN for none."""
        return float(self.mask[removed].mean()) if len(removed) else float("nan")

    def recall(self, removed: Int[np.ndarray, " removed"]) -> float:
        """Share of the foreign samples among these positions; NaN for none or nothing foreign."""
        total = int(self.mask.sum())
        return float(self.mask[removed].sum() / total) if total and len(removed) else float("nan")


def majority_source(samples: SampleSet) -> str:
    """The source of more than half of the samples.

    Args:
        samples: the training samples.

    Returns:
        Its name; empty where there is none, or only one source.
    """
    if samples.source is None:
        return ""
    names, counts = np.unique(samples.source, return_counts=True)
    largest = counts.argmax()
    return str(names[largest]) if len(names) > 1 and 2 * counts[largest] > len(samples) else ""


def foreign(findings: PurifyFindings) -> Foreign | None:
    """What should have gone: wrong labels, or samples from other sources than the majority's.

    Args:
        findings: one purification.

    Returns:
        None where neither is known.
    """
    samples = findings.samples
    wrong = wrong_labels(samples)
    if wrong is not None:
        return Foreign(wrong, "wrong label", "wrong labels", "right labels")
    if not findings.majority:
        return None
    assert samples.source is not None
    mask = samples.source != findings.majority
    name = findings.majority
    return Foreign(mask, f"sample not from {name}", f"samples not from {name}", f"from {name}")


def before_and_after(findings: PurifyFindings) -> list[dict[str, float]]:
    """The figures at the start, at our stop and at the rival's.

    Args:
        findings: one purification.

    Returns:
        Each: `removed`, `variance`, `loss`, `validation`, `majority` (the validation samples of the
        majority's source alone), `precision` and `recall`; NaN where a figure is not known.
    """
    truth = foreign(findings)
    columns = []
    stops = [(findings.found, 0), (findings.found, findings.found.steps)]
    if findings.rival is not None:
        stops.append((findings.rival, findings.rival.steps))
    for found, point in stops:
        trace, removed = found.trace, found.removed[: int(found.trace.removed[point])]
        columns.append({
            "removed": int(trace.removed[point]),
            "variance": float(trace.variance[point]),
            "loss": float(trace.loss[point]),
            "validation": float(trace.validation[point]),
            "majority": float(trace.test[point]),
            "precision": float("nan") if truth is None else truth.precision(removed),
            "recall": float("nan") if truth is None else truth.recall(removed),
        })
    return columns
