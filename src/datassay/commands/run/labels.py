"""What a run finds in its labels: which to look at first, by which noise they are wrong."""

from __future__ import annotations

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.report.advice import N_CHECK_FIRST
from datassay.results import result
from datassay.score.label_issues import FEWEST, LabelIssues, LabelNoise

LEAST_SHARE = 0.005  # Smaller confusions are not told.
MOST_KEPT, MOST_CLASSES = 100, 50


@result
class Confusion:
    """Labels of one class that are given as another.

    Attributes:
        true: name of the true class; of several labels the label's own.
        given: name of the class that is given; of several labels whether it is missing or not due.
        share: of that class's samples.
    """

    true: str
    given: str
    share: float


def suspected_classes(classes: np.ndarray, issues: LabelIssues) -> list[int]:
    """Classes of which more than a third of the labels is suspected, and no fewer than FEWEST."""
    counts, suspects = np.bincount(classes), np.bincount(classes[issues.is_issue])
    suspects = np.pad(suspects, (0, len(counts) - len(suspects)))
    return np.flatnonzero((3 * suspects > counts) & (suspects >= FEWEST)).tolist()


def to_check(findings: Findings) -> np.ndarray:
    """Positions of the labels to look at first, the most suspect first.

    Returns:
        Those that are flagged; where none is but some must be wrong, the `N_CHECK_FIRST` likeliest.
    """
    issues = findings.issues
    if issues.is_issue.any() or len(issues.score) < FEWEST or issues.probability.sum() < 1:
        return issues.suspects
    return np.argsort(-issues.score, kind="stable")[:N_CHECK_FIRST]


def confusions(findings: Findings) -> list[Confusion]:
    """Which labels are given wrongly, where that depends on the class; the most frequent first."""
    confused = []
    for j, noise in enumerate(findings.issues.noise):
        if noise.kind == "class" and findings.has_several_labels:
            extra, missing = (float(noise.transition[c, 1 - c]) for c in (0, 1))
            confused += [
                Confusion(f"label {j}", "given where it should not be", extra),
                Confusion(f"label {j}", "missing", missing),
            ]
        elif noise.kind == "class":
            confused += _of_classes(noise, findings.samples.class_names)
    return sorted((c for c in confused if c.share >= LEAST_SHARE), key=lambda c: -c.share)


def _of_classes(noise: LabelNoise, names: tuple[str, ...]) -> list[Confusion]:
    transition = noise.transition
    if noise.form == "one rate a class":
        each = enumerate(1 - np.diagonal(transition))
        return [Confusion(names[c], "another class", float(share)) for c, share in each]
    pairs = np.argwhere((transition >= LEAST_SHARE) & ~np.eye(len(names), dtype=bool))
    return [Confusion(names[c], names[g], float(transition[c, g])) for c, g in pairs]


def label_facts(findings: Findings) -> dict[str, object]:
    """The same for summary.json."""
    issues, names = findings.issues, findings.samples.class_names
    return {
        "expected_wrong": float(issues.probability.sum()),
        "expected_precision": issues.expected_precision(),
        "noise": [
            {
                "kind": noise.kind,
                "form": noise.form,
                "gain": noise.gain,
                "classes": names or ("0", "1"),
                "transition": noise.transition,
            }
            if len(noise.transition) <= MOST_CLASSES
            else {"kind": noise.kind, "form": noise.form, "gain": noise.gain}
            for noise in issues.noise
        ],
        "confusions": [
            {"true": c.true, "given": c.given, "share": c.share}
            for c in confusions(findings)[:MOST_KEPT]
        ],
    }
