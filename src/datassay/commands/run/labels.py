"""What a run says of its labels: how many are suspect, how many wrong, by which noise."""

from __future__ import annotations

import numpy as np

from datassay.commands.run.findings import ISSUES_FIRST, RANDOM, Findings
from datassay.data.samples import wrong_labels
from datassay.report.advice import N_CHECK_FIRST, Advice
from datassay.report.wording import count, percent, rough_percent, shortened
from datassay.results import result
from datassay.score.label_issues import FEWEST, LabelIssues, LabelNoise

TOP = 50  # Of more suspects the share that is wrong is also told for so many.
LEAST_SHARE = 0.005  # Smaller confusions are not told.
MOST_TOLD, MOST_KEPT, MOST_CLASSES = 3, 100, 50
SNIPPET = (
    "import pandas as pd\n"
    'suspects = pd.read_csv("suspects.csv", index_col="id")\n'
    "frame.loc[suspects.index]  # look at them; frame is your table, its index the ids\n"
    "frame = frame.drop(suspects.index)  # without them"
)
OVERLOOKED = (
    "Errors that depend on the input itself, as when people mislabel hard samples, and errors "
    "spread over many pairs of classes of a small set look like hard samples: more labels are then "
    "wrong than stated, and the order of the list is the better guide."
)


@result
class Confusion:
    """Labels of one class that are given as another.

    Attributes:
        true: name of the true class; of several labels the label's own.
        given: name of the class that is given; of several labels whether it is missing or not due.
        share: of that class's samples.
        words: the same as a clause.
    """

    true: str
    given: str
    share: float
    words: str


def label_advice(findings: Findings) -> Advice:
    """How many labels are suspect and wrong, which to check first, and how right that is."""
    issues, n = findings.issues, len(findings.samples)
    suspects = issues.suspects
    truth = _truth_sentence(findings)
    if n < FEWEST:
        return Advice(
            kind="label errors",
            severity="look",
            headline="Too few samples to suspect labels",
            sentence=f"Suspicion needs at least {FEWEST} training samples; there are {n}." + truth,
        )
    first = tuple(str(i) for i in findings.samples.ids[to_check(findings)[:N_CHECK_FIRST]])
    noise = noise_sentence(findings)
    if not len(suspects):
        return Advice(
            kind="label errors",
            severity="look" if first else "fine",
            headline="No suspected label errors",
            sentence=f"{expected_sentence(findings)}{noise}{truth}",
            ids=first,
        )
    top = np.argsort(-findings.information.information, kind="stable")[: min(100, max(5, n // 10))]
    overlap = np.isin(top, suspects).sum()
    doubt = _doubt(findings)
    return Advice(
        kind="label errors",
        severity="look" if doubt else "act",
        headline=count(len(suspects), "suspected label error"),
        sentence=(
            f"A fit that never saw the sample contradicts {count(len(suspects), 'label')} of {n:,} "
            f"({percent(len(suspects) / n)}). {expected_sentence(findings)}{noise} "
            f"Of the {len(top)} most informative samples "
            f"{overlap} {'is' if overlap == 1 else 'are'} suspected: wrong labels are "
            f"informative too, so check before calling a sample valuable.{doubt}{truth}"
        ),
        ids=first,
        code=SNIPPET if findings.samples.rows is not None else "",
    )


def suspected_classes(classes: np.ndarray, issues: LabelIssues) -> list[int]:
    """Classes of which more than a third of the labels is suspected, and no fewer than FEWEST."""
    counts, suspects = np.bincount(classes), np.bincount(classes[issues.is_issue])
    suspects = np.pad(suspects, (0, len(counts) - len(suspects)))
    return np.flatnonzero((3 * suspects > counts) & (suspects >= FEWEST)).tolist()


def _doubt(findings: Findings) -> str:
    """Why not to remove the suspects unseen: retraining says so, or a third of a class would go."""
    samples, text = findings.samples, ""
    measured = [c for c in findings.contests if c.rankings[0] == ISSUES_FIRST]
    for contest in measured:
        ours, random = contest.values[0], contest.values[contest.rankings.index(RANDOM)]
        if ours < random:
            text += (
                f" But removing them was tried here and loses to removing as many at random "
                f"({ours:.3f} against {random:.3f}): correct what you find, remove nothing unseen."
            )
    classes = suspected_classes(samples.y, findings.issues) if samples.is_classification else []
    for c in classes[:MOST_TOLD]:
        here = samples.y == c
        text += (
            f" Of class “{shortened(samples.class_names[c])}” more than a third is suspected "
            f"({int(findings.issues.is_issue[here].sum()):,} of {int(here.sum()):,}): it is rather "
            "hard than wrong, so do not remove them all."
        )
    return text


def to_check(findings: Findings) -> np.ndarray:
    """Positions of the labels to look at first, the most suspect first.

    Returns:
        Those that are flagged; where none is but some must be wrong, the `N_CHECK_FIRST` likeliest.
    """
    issues = findings.issues
    if issues.is_issue.any() or len(issues.score) < FEWEST or issues.probability.sum() < 1:
        return issues.suspects
    return np.argsort(-issues.score, kind="stable")[:N_CHECK_FIRST]


def expected_sentence(findings: Findings) -> str:
    """How many labels are expected to be wrong: of the flagged ones, or where none is, of all."""
    issues, n = findings.issues, len(findings.samples)
    flagged = int(issues.is_issue.sum())
    if flagged:
        text = f"Of these {rough_percent(issues.expected_precision())} are expected to be wrong"
        text = text if flagged > 1 else text.replace("these", "such").replace(" are", " is")
        if flagged > TOP:
            text += f", of the {TOP} most suspect {rough_percent(issues.expected_precision(TOP))}"
        return f"{text}."
    none = f"Of {count(n, 'label')} none is more likely wrong than right."
    expected = float(issues.probability.sum())
    if expected < 1 or n < FEWEST:
        return none
    return (
        f"{none} Still about {expected:,.0f} of them {'is' if round(expected) == 1 else 'are'} "
        "expected to be wrong: look at those with the highest label issue score."
    )


def noise_sentence(findings: Findings) -> str:
    """Which noise was found, in words, with a space before; empty for regression."""
    noise = findings.issues.noise
    if not noise:
        return ""
    told = confusions(findings)
    if told:
        shown = ", ".join(c.words for c in told[:MOST_TOLD])
        more = f", and {len(told) - MOST_TOLD} more such" if len(told) > MOST_TOLD else ""
        how = "are not spread evenly" if findings.has_several_labels else "depend on the class"
        return f" Wrong labels {how}: {shown}{more}."
    share = float(np.mean([1 - np.diagonal(one.transition).mean() for one in noise]))
    if share < LEAST_SHARE:
        return ""
    return f" Wrong labels are spread evenly ({rough_percent(share)} of labels)."


def confusions(findings: Findings) -> list[Confusion]:
    """Which labels are given wrongly, where that depends on the class; the most frequent first."""
    of_class = [(j, n) for j, n in enumerate(findings.issues.noise) if n.kind == "class"]
    if findings.has_several_labels:
        told = [c for j, noise in of_class for c in _of_label(j, noise)]
    else:
        told = [c for _, noise in of_class for c in _of_classes(noise, findings)]
    return sorted((c for c in told if c.share >= LEAST_SHARE), key=lambda c: -c.share)


def _of_label(j: int, noise: LabelNoise) -> list[Confusion]:
    name, extra, missing = f"label {j}", *(float(noise.transition[c, 1 - c]) for c in (0, 1))
    return [
        Confusion(name, "given where it should not be", extra,
                  f"{name} is given to {rough_percent(extra)} of the samples without it"),
        Confusion(name, "missing", missing,
                  f"{name} is missing from {rough_percent(missing)} of the samples with it"),
    ]  # fmt: skip


def _of_classes(noise: LabelNoise, findings: Findings) -> list[Confusion]:
    names, transition = findings.samples.class_names, noise.transition
    if noise.form == "one rate a class":
        each = [(c, "another class", float(1 - transition[c, c])) for c in range(len(names))]
    else:
        pairs = np.argwhere((transition >= LEAST_SHARE) & ~np.eye(len(names), dtype=bool))
        each = [(c, names[g], float(transition[c, g])) for c, g in pairs]
    told = []
    for c, given, share in each:
        quoted = given if given == "another class" else f"“{shortened(given)}”"
        words = f"“{shortened(names[c])}” is given as {quoted} in {rough_percent(share)} of cases"
        told.append(Confusion(names[c], given, share, words))
    return told


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


def _truth_sentence(findings: Findings) -> str:
    wrong = wrong_labels(findings.samples)
    if wrong is None:
        return ""
    suspect = findings.issues.is_issue
    hits, n_wrong, n_suspect = int((wrong & suspect).sum()), int(wrong.sum()), int(suspect.sum())
    if not n_wrong:
        return " The true labels are known, and no given label differs from them."
    recall = f"finds {hits:,} of the {n_wrong:,} wrong labels (recall {hits / n_wrong:.2f})"
    if not n_suspect:
        return f" The true labels are known: this {recall}."
    right = f"{hits:,} of {n_suspect:,} suspicions are right (precision {hits / n_suspect:.2f})"
    return f" The true labels are known: this {recall}, and {right}."
