"""What a run finds in its labels: which to look at first, and by which noise they are wrong."""

from dataclasses import asdict

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.optional import map_optional, text_if
from datassay.report.advice import Advice
from datassay.results import result
from datassay.score.label_issues import LabelIssues
from datassay.score.labels.issues import FEWEST
from datassay.score.labels.noise import LabelNoise
from datassay.score.labels.sources import LabelSources

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
    """Return the classes with over a third of their labels suspected, at least FEWEST."""
    counts = np.bincount(classes)
    suspects = np.bincount(classes[issues.is_issue])
    suspects = np.pad(suspects, (0, len(counts) - len(suspects)))
    return np.flatnonzero((3 * suspects > counts) & (suspects >= FEWEST)).tolist()


def to_check(findings: Findings) -> np.ndarray:
    """Return positions of the labels that are worth a look, the most suspect first."""
    positions = np.flatnonzero(findings.issues.worth_a_look | findings.issues.is_issue)
    return positions[np.argsort(-findings.issues.score[positions], kind="stable")]


def confusions(findings: Findings) -> list[Confusion]:
    """Return which labels are given wrongly, where that depends on the class, by frequency."""
    confused = []
    names = findings.samples.class_names
    for j, noise in enumerate(findings.issues.noise):
        share = noise.transition
        if noise.kind != "class":
            continue
        if findings.has_several_labels:
            kinds = ("given where it should not be", "missing")
            confused += [(f"label {j}", w, share[c, 1 - c]) for c, w in enumerate(kinds)]
        else:
            pairs = np.argwhere(~np.eye(len(names), dtype=bool))
            confused += [(names[c], names[g], share[c, g]) for c, g in pairs]
    results = [Confusion(a, b, float(share)) for a, b, share in confused if share >= LEAST_SHARE]
    return sorted(results, key=lambda c: -c.share)


def noise_share(findings: Findings) -> float:
    """Return the share of wrong labels by the noise model that explains them best."""
    rates = [1 - np.diagonal(noise.transition).mean() for noise in findings.issues.noise]
    if not rates:
        return 0.0
    return float(np.mean(rates))


def label_facts(findings: Findings) -> dict[str, object]:
    """Return what is known of wrong labels, for summary.json."""
    issues = findings.issues
    names = findings.samples.class_names or ("0", "1")

    def transition_facts(noise: LabelNoise) -> dict[str, object]:
        return {"classes": names, "transition": noise.transition}

    return {
        "expected_wrong": float(issues.probability.sum()),
        "expected_precision": issues.expected_precision(),
        "share_wrong": issues.share_wrong,
        "noise": [
            {"kind": noise.kind, "gain": noise.gain}
            | (transition_facts(noise) if len(noise.transition) <= MOST_CLASSES else {})
            for noise in issues.noise
        ],
        "sources": map_optional(_source_facts, issues.sources),
        "confusions": [asdict(c) for c in confusions(findings)[:MOST_KEPT]],
    }


def _source_facts(sources: LabelSources) -> dict[str, object]:
    """Return the column of which sources of labels err, and each of its values."""
    names = ("values", "n_labels", "contradicted", "expected", "share_wrong", "errs")
    return {"column": sources.column} | {name: getattr(sources, name) for name in names}


def quiet_card(findings: Findings, command: str) -> Advice:
    """Return the card of a run that found nothing to act on; `command` opens the review."""
    issues = ()
    if findings.data_issues is not None:
        issues = findings.data_issues.issues
    minor = "; ".join(f"{issue.kind}: {issue.counted}" for issue in issues)
    text = text_if(minor, f"Minor: {minor}. ")
    text += "Any sample can be looked at, the most suspect first."
    return Advice("nothing", "fine", "Nothing to mend was found", text, command=command)
