"""What a run finds in its labels: which to look at first, by which noise they are wrong."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.results import result
from datassay.score.label_issues import FEWEST, LabelIssues
from datassay.score.labels.noise import LabelNoise

LEAST_SHARE = 0.005  # Smaller confusions are not told.
MOST_KEPT, MOST_CLASSES = 100, 50


@result
class Confusion:
    """Labels of one class that are given as another."""

    true: str  # name of the true class; of several labels the label's own
    # Name of the class that is given; of several labels whether it is missing or not due.
    given: str
    share: float  # of that class's samples


def suspected_classes(classes: np.ndarray, issues: LabelIssues) -> list[int]:
    """Classes of which more than a third of the labels is suspected, and no fewer than FEWEST."""
    counts, suspects = np.bincount(classes), np.bincount(classes[issues.is_issue])
    suspects = np.pad(suspects, (0, len(counts) - len(suspects)))
    return np.flatnonzero((3 * suspects > counts) & (suspects >= FEWEST)).tolist()


def to_check(findings: Findings) -> np.ndarray:
    """Positions of the labels that are worth a look, the most suspect first."""
    look = np.flatnonzero(findings.issues.worth_a_look | findings.issues.is_issue)
    return look[np.argsort(-findings.issues.score[look], kind="stable")]


def confusions(findings: Findings) -> list[Confusion]:
    """Which labels are given wrongly, where that depends on the class; the most frequent first."""
    confused = []
    names = findings.samples.class_names
    for j, noise in enumerate(findings.issues.noise):
        share = noise.transition
        if noise.kind != "class":
            continue
        if findings.has_several_labels:
            what = ("given where it should not be", "missing")
            confused += [(f"label {j}", w, share[c, 1 - c]) for c, w in enumerate(what)]
        else:
            pairs = np.argwhere(~np.eye(len(names), dtype=bool))
            confused += [(names[c], names[g], share[c, g]) for c, g in pairs]
    reported = [Confusion(a, b, float(share)) for a, b, share in confused if share >= LEAST_SHARE]
    return sorted(reported, key=lambda c: -c.share)


def noise_share(findings: Findings) -> float:
    """Which share of labels is wrong, by the noise that explains them best."""
    rates = [1 - np.diagonal(one.transition).mean() for one in findings.issues.noise]
    return float(np.mean(rates)) if rates else 0.0


def label_facts(findings: Findings) -> dict[str, object]:
    """The same for summary.json."""
    issues, names = findings.issues, findings.samples.class_names or ("0", "1")

    def whole(noise: LabelNoise) -> dict[str, object]:
        return {"classes": names, "transition": noise.transition}

    return {
        "expected_wrong": float(issues.probability.sum()),
        "expected_precision": issues.expected_precision(),
        "share_wrong": issues.share_wrong,
        "noise": [
            {"kind": noise.kind, "gain": noise.gain}
            | (whole(noise) if len(noise.transition) <= MOST_CLASSES else {})
            for noise in issues.noise
        ],
        "confusions": [asdict(c) for c in confusions(findings)[:MOST_KEPT]],
    }
