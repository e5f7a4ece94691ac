"""What a run finds in its labels: which to look at first, by which noise they are wrong."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.data.samples import wrong_labels
from datassay.report.advice import N_CHECK_FIRST
from datassay.report.wording import rough_percent, shortened
from datassay.results import result
from datassay.score.label_issues import FEWEST, LabelIssues, LabelNoise

LEAST_SHARE = 0.005  # Smaller confusions are not told.
OVERLOOKED = (
    "Errors that depend on the input itself, as when people mislabel hard samples, and errors "
    "spread over many pairs of classes of a small set look like hard samples: more labels are then "
    "wrong than stated, and the order of the list is the better guide."
)
MOST_KEPT, MOST_CLASSES = 100, 50
ANOTHER = "another class"


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
    names = findings.samples.class_names
    for j, noise in enumerate(findings.issues.noise):
        share = noise.transition
        if noise.kind != "class":
            continue
        if findings.has_several_labels:
            what = ("given where it should not be", "missing")
            confused += [(f"label {j}", w, share[c, 1 - c]) for c, w in enumerate(what)]
        elif noise.form == "one rate a class":
            rates = zip(names, 1 - np.diagonal(share), strict=True)
            confused += [(name, ANOTHER, rate) for name, rate in rates]
        else:
            pairs = np.argwhere(~np.eye(len(names), dtype=bool))
            confused += [(names[c], names[g], share[c, g]) for c, g in pairs]
    told = [Confusion(a, b, float(share)) for a, b, share in confused if share >= LEAST_SHARE]
    return sorted(told, key=lambda c: -c.share)


def noise_sentence(findings: Findings) -> str:
    """How wrong labels are spread; empty where none is expected."""
    confused, several = confusions(findings), findings.has_several_labels
    uniform = [1 - np.diagonal(one.transition).mean() for one in findings.issues.noise]
    rate = float(np.mean(uniform)) if uniform else 0.0
    if not confused:
        spread = f"Wrong labels are spread evenly ({rough_percent(rate)} of labels)."
        return spread if rate >= LEAST_SHARE else ""
    shown = ", ".join(_confusion(one, several=several) for one in confused[:3])
    more = f", and {len(confused) - 3} more such" * (len(confused) > 3)
    start = "are not spread evenly" if several else "depend on the class"
    return f"Wrong labels {start}: {shown}{more}."


def _confusion(one: Confusion, *, several: bool) -> str:
    if several:
        is_missing, share = one.given == "missing", rough_percent(one.share)
        what, which = ("missing from", "with") if is_missing else ("given to", "without")
        return f"{one.true} is {what} {share} of the samples {which} it"
    given = one.given if one.given == ANOTHER else f"“{shortened(one.given)}”"
    return f"“{shortened(one.true)}” is given as {given} in {rough_percent(one.share)} of cases"


def truth_sentence(findings: Findings) -> str:
    """How right the suspicions are, where the true labels are known; else empty."""
    wrong, suspect = wrong_labels(findings.samples), findings.issues.is_issue
    if wrong is None or not wrong.any():
        same = "The true labels are known, and no given label differs from them."
        return "" if wrong is None else same
    hits, n_wrong, n_suspect = int((wrong & suspect).sum()), int(wrong.sum()), int(suspect.sum())
    found = f"{hits:,} of the {n_wrong:,} wrong labels (recall {hits / n_wrong:.2f})"
    right = f", and {hits:,} of {n_suspect:,} suspicions are right (precision "
    right += f"{hits / n_suspect:.2f})" if n_suspect else ""
    return f"The true labels are known: this finds {found}{right * bool(n_suspect)}."


def label_facts(findings: Findings) -> dict[str, object]:
    """The same for summary.json."""
    issues, names = findings.issues, findings.samples.class_names or ("0", "1")

    def whole(noise: LabelNoise) -> dict[str, object]:
        return {"classes": names, "transition": noise.transition}

    return {
        "expected_wrong": float(issues.probability.sum()),
        "expected_precision": issues.expected_precision(),
        "noise": [
            {"kind": noise.kind, "form": noise.form, "gain": noise.gain}
            | (whole(noise) if len(noise.transition) <= MOST_CLASSES else {})
            for noise in issues.noise
        ],
        "confusions": [asdict(c) for c in confusions(findings)[:MOST_KEPT]],
    }
