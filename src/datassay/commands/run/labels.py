"""What a run finds in its labels: how many are wrong, which to look at first, by which noise."""

import shlex
from dataclasses import asdict

import numpy as np

from datassay.commands.run.findings import Findings
from datassay.data.tables.read import ROLES
from datassay.optional import inflect, map_optional, text_if
from datassay.report.advice import Advice
from datassay.report.wording import count, rough_percent
from datassay.results import result
from datassay.score.checks.columns import leaking_columns
from datassay.score.checks.units import name_factors
from datassay.score.label_issues import LabelIssues
from datassay.score.labels.issues import FEWEST
from datassay.score.labels.noise import LISTED
from datassay.score.labels.sources import LabelSources

LEAST_SHARE = 0.005  # of a class's samples: smaller confusions are not listed
MOST_KEPT, MOST_CLASSES = 100, 50
FEW = 0.02  # share of labels that may be wrong without being mentioned
ABOVE_RULE = f"over {100 * LISTED:g} %"  # how likely wrong a label is that is probably wrong


@result
class Confusion:
    """How often labels of one class are given as another."""

    true: str  # name of the true class; of several labels the label's own
    # Name of the class that is given; of several labels whether it is missing or not due.
    given: str
    share: float  # of that class's samples


@result
class Labels:
    """The estimates of wrong labels; at least `low` and at most `high` are wrong."""

    n: int
    n_flagged: int  # probably wrong
    n_review: int  # those, and others that are worth a look
    n_tried: int  # likelier wrong than right: what correcting and removing were measured on
    low: int
    high: int
    noun: str = "label"  # or "target"; "label set", "target set" where a sample has several
    is_predicted: bool = True  # by the inputs, better than by the shares of the classes
    leaks: tuple[str, ...] = ()  # columns that tell the label, and so agree with wrong ones
    n_slips: int = 0  # probably wrong by a factor, as of a unit
    factor: str = ""  # that factor, or these: "10 or 1,000"
    is_left_alone: bool = False  # what leaks: no input is left beside it

    @property
    def tried(self) -> str:
        """The labels that were corrected or removed: "them" after a sentence on the same."""
        if not self.n_flagged:
            return f"the {self.n_tried:,} most suspect"
        if self.n_tried == self.n_flagged:
            return inflect(self.n_flagged, "it", "them")
        return "the most suspect"

    @property
    def expected(self) -> str:
        """How many are wrong, in words: a number or a range."""
        if self.low == self.high:
            return f"{self.low:,}"
        if not self.low:
            return f"up to {self.high:,}"
        return f"{self.low:,} to {self.high:,}"

    @property
    def named(self) -> str:
        """The labels to review, with their number."""
        if self.n_flagged:
            return count(self.n_review, self.noun)
        return f"the {count(self.n_review, f'most suspect {self.noun}')}"

    @property
    def sentence(self) -> str:
        """What is known of wrong labels, without a full stop: the gain of correcting follows."""
        if self.n < FEWEST:
            return f"{count(self.n, self.noun)} are too few to tell which are wrong"
        if self.leaks:
            verb = inflect(len(self.leaks), "tells", "tell")
            cause = f"{', '.join(self.leaks)} {verb} the {self.noun} almost alone"
            remedy = f"; run again with --drop {shlex.quote(','.join(self.leaks))}"
            if self.is_left_alone:
                remedy = ", and no other column is left to judge by"
            return f"Leak: {cause}, so wrong {self.noun}s may be hidden{remedy}"
        if not self.is_predicted:
            return f"The inputs hardly predict the {self.noun}s, so none can be called wrong"
        share = rough_percent(self.high / self.n)
        if self.n_flagged:
            verb = inflect(self.n_flagged, "is", "are")
            text = f"{self.n_flagged:,} of {self.n:,} {self.noun}s {verb} probably wrong"
            text += text_if(self.n_slips, f", {self.n_slips:,} by a factor of {self.factor}")
            return text + text_if(self.low != self.high, f" ({self.expected} in all)")
        if self.noun.startswith("label") and (self.n_review or self.high > FEW * self.n):
            maximum = f"up to {self.high:,} of {self.n:,} ({share}) may be wrong"
            return f"No {self.noun} stands out as wrong, but {maximum}"
        note = text_if(self.high, f" (at most {self.high:,} of {self.n:,} are)")
        hidden = f", but up to {self.high:,} wrong ones of {self.n:,} ({share}) would not show"
        return f"No {self.noun} stands out as wrong{hidden if self.high > FEW * self.n else note}"


def suspected_classes(classes: np.ndarray, issues: LabelIssues) -> list[int]:
    """Return indices of classes with over a third (and FEWEST or all) of labels suspected."""
    counts = np.bincount(classes)
    suspects = np.bincount(classes[issues.is_issue])
    suspects = np.pad(suspects, (0, len(counts) - len(suspects)))
    is_all = (suspects == counts) & (counts > 1)
    return np.flatnonzero((3 * suspects > counts) & (suspects >= FEWEST) | is_all).tolist()


def to_check(findings: Findings) -> np.ndarray:
    """Return positions of the labels that are worth a look, the most suspect first."""
    positions = np.flatnonzero(findings.issues.worth_a_look | findings.issues.is_issue)
    return positions[np.argsort(-findings.issues.score[positions], kind="stable")]


def label_verdict(findings: Findings) -> Labels:
    """Count the suspected labels, and bound how many are wrong."""
    issues = findings.issues
    samples = findings.samples
    is_label = samples.is_classification or findings.has_several_labels
    noun = "label" if is_label else "target"
    if samples.y.ndim > 1 and samples.y.shape[1] > 1:
        noun = f"{noun} set"
    low, high = issues.share_wrong
    n = len(samples)
    n_flagged = int(issues.is_issue.sum())
    factors = issues.unit_factors.values()
    inputs = [c for c in samples.columns if c.read_as not in {*ROLES, "left out"}]
    return Labels(
        n=n,
        n_flagged=n_flagged,
        n_review=len(to_check(findings)),
        n_tried=int(issues.to_try.sum()),
        low=min(int(low * n), n_flagged),
        high=max(round(high * n), n_flagged),
        noun=noun,
        is_predicted=issues.is_predicted,
        leaks=tuple(leaking_columns(samples)),
        n_slips=len(factors),
        factor=name_factors(factors),
        is_left_alone=bool(inputs) and all(c.tells_target for c in inputs),
    )


def confusions(findings: Findings) -> list[Confusion]:
    """Return the pairs (true, given) that labels confuse, with their shares, largest first."""
    confused = []  # (true, given, share)
    names = findings.samples.class_names
    for j, noise in enumerate(findings.issues.noise):
        share = noise.transition  # [true, given]
        if noise.kind != "class":
            continue
        if findings.has_several_labels:
            kinds = ("given where it should not be", "missing")
            confused += [(f"label {j}", kind, share[c, 1 - c]) for c, kind in enumerate(kinds)]
        else:
            pairs = np.argwhere(~np.eye(len(names), dtype=bool))
            confused += [(names[c], names[g], share[c, g]) for c, g in pairs]
    results = [Confusion(a, b, float(share)) for a, b, share in confused if share >= LEAST_SHARE]
    return sorted(results, key=lambda c: -c.share)


def noise_share(findings: Findings) -> float:
    """Return the share of labels that are wrong by the fitted noise model; 0 without one."""
    rates = [1 - np.diagonal(noise.transition).mean() for noise in findings.issues.noise]
    if not rates:
        return 0.0
    return float(np.mean(rates))


def label_facts(findings: Findings) -> dict[str, object]:
    """Return for summary.json how many labels are wrong, and the noise that was found."""
    issues = findings.issues
    names = findings.samples.class_names or ("0", "1")
    noises: list[dict[str, object]] = []
    for noise in issues.noise:
        noises.append({"kind": noise.kind, "gain": noise.gain})
        if len(noise.transition) <= MOST_CLASSES:
            noises[-1] |= {"classes": names, "transition": noise.transition}
    return {
        "expected_wrong": float(issues.probability.sum()),
        "expected_precision": issues.expected_precision(),
        "share_wrong": issues.share_wrong,
        "noise": noises,
        "sources": map_optional(_source_facts, issues.sources),
        "confusions": [asdict(c) for c in confusions(findings)[:MOST_KEPT]],
    }


def _source_facts(sources: LabelSources) -> dict[str, object]:
    """Return the column of which sources of labels err, and each of its values."""
    names = ("values", "n_labels", "contradicted", "expected", "share_wrong", "errs")
    return {"column": sources.column} | {name: getattr(sources, name) for name in names}


def quiet_card(findings: Findings, command: str) -> Advice:
    """Return the card "nothing to mend"; `command` opens the review."""
    issues = ()
    if findings.data_issues is not None:
        issues = findings.data_issues.issues
    minor = "; ".join(f"{issue.kind}: {issue.counted}" for issue in issues)
    text = text_if(minor, f"Minor: {minor}. ")
    text += "Any sample can be looked at, the most suspect first."
    return Advice("nothing", "fine", "Nothing to mend was found", text, command=command)
