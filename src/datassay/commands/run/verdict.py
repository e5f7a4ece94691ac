"""What a run says first: which labels are wrong, what doing something gains, what to type next.

findings → Verdict: the sentence, at most three cards, commands; and the numbers that they share.
Page, summary.json, terminal and Python read them here, so that no two of them can differ.
"""

from __future__ import annotations

from datassay.act.choose.action import (
    BALANCE,
    DROP,
    MEND,
    MORE,
    PURIFY,
    REMOVE,
    REWEIGHT,
    SPLIT,
    action_kinds,
)
from datassay.act.choose.compare import RETRAINED, ActGain
from datassay.act.review.gain import BeforeAfter
from datassay.commands.run.findings import ISSUES_FIRST, RANDOM, Findings
from datassay.commands.run.labels import suspected_classes, to_check
from datassay.commands.run.typed import Typed
from datassay.report.advice import Advice
from datassay.report.wording import count, fixed, gain_text, rough_percent, shortened
from datassay.results import result
from datassay.score.checks.data_issues import leaking_columns
from datassay.score.label_issues import FEWEST
from datassay.stats import BETTER, PERHAPS, WORSE, costs

MOST_CARDS, MOST_COMMANDS = 3, 2
PENDING = "Actions are still being compared; this page is completed when they are measured."
NOT_COMPARED = "What actions gain was not measured here; datassay run measures it."
# What is done, as the subject of a sentence.
DOING = {
    MEND: "correcting them",
    REMOVE: "removing them",
    REWEIGHT: "weighing samples by local variance",
    BALANCE: "weighing the classes alike",
    PURIFY: "removing foreign samples",
    SPLIT: "splitting the data into blocks",
}


@result
class Labels:
    """What is known of wrong labels.

    Attributes:
        n: how many labels there are.
        n_flagged: how many are more likely wrong than right.
        n_review: how many to look at first: those, or where none is the likeliest.
        low: how many are expected to be wrong, at least.
        high: the same, at most; equal to low where one number is all that is known.
        noun: what a label is called here: "label" or "target".
    """

    n: int
    n_flagged: int
    n_review: int
    low: int
    high: int
    noun: str = "label"

    @property
    def expected(self) -> str:
        """How many are expected to be wrong."""
        if self.low == self.high:
            return f"about {self.low:,}"
        return f"between {self.low:,} and {self.high:,}"

    @property
    def sentence(self) -> str:
        """Without its full stop, for what correcting them gains to follow."""
        if self.n < FEWEST:
            return f"{count(self.n, self.noun)} are too few to tell which are wrong"
        if self.n_flagged:
            verb = "is" if self.n_flagged == 1 else "are"
            more = "" if self.low == self.high else f" ({self.expected} in all)"
            return f"{self.n_flagged:,} of {self.n:,} {self.noun}s {verb} probably wrong{more}"
        if self.high < 1:
            return f"No {self.noun} stands out as wrong"
        verb = "is" if self.low == self.high == 1 else "are"
        which = f"{self.expected} of {self.n:,} {verb} expected to be wrong"
        return f"No {self.noun} stands out as wrong, though {which}"

    @property
    def review(self) -> str:
        """What the button says; empty where there is nothing to look at."""
        if not self.n_review:
            return ""
        which = "" if self.n_flagged else "likeliest "
        return f"Review {count(self.n_review, which + self.noun)}"


@result
class Verdict:
    """What is said first.

    Attributes:
        sentence: what is wrong, and what doing something gains.
        labels: what is known of wrong labels.
        cards: what to do, best first; at most three.
        commands: what to type next, as it can be typed.
        note: why no action was compared; empty where some were.
        drop: the largest drop that costs nothing measurable; None where none was measured.
        drop_text: what that changes, with its interval; empty where none was measured.
        tried: the actions that were measured, best first.
    """

    sentence: str
    labels: Labels
    cards: tuple[Advice, ...]
    commands: tuple[str, ...]
    note: str = ""
    drop: ActGain | None = None
    drop_text: str = ""
    tried: tuple[ActGain, ...] = ()

    @property
    def n_droppable(self) -> int | None:
        """Samples that can be left out at no measurable cost; None: not measured."""
        return None if self.drop is None else self.drop.cost


def verdict(findings: Findings, out: str = "") -> Verdict:
    """What to say first of a run.

    Args:
        findings: of the run.
        out: folder of its files; empty: as the command named it.

    Returns:
        The sentence, cards and commands.
    """
    labels, typed = label_verdict(findings), Typed(findings, out)
    acts = () if findings.acts is None else findings.acts.acts
    tried = [act for act in acts if act.how == RETRAINED]
    drop = _drop(tried)
    cards = _cards(findings, labels, typed)[:MOST_CARDS]
    is_unmeasured = findings.acts is None and findings.before is None and not findings.is_pending
    commands = [card.command for card in cards]
    if labels.n_review:
        commands = [typed.line("view"), "" if is_unmeasured else typed.apply()]
    commands += [typed.line("run", out="report")] * is_unmeasured
    return Verdict(
        sentence=_sentence(findings, labels, tried),
        labels=labels,
        cards=tuple(cards),
        commands=tuple(dict.fromkeys(filter(None, commands)))[:MOST_COMMANDS],
        note=_note(findings),
        drop=drop,
        drop_text="" if drop is None else _gain(drop, findings),
        tried=tuple(tried),
    )


def label_verdict(findings: Findings) -> Labels:
    """What is known of wrong labels."""
    issues, samples = findings.issues, findings.samples
    expected = round(float(issues.probability.sum()))
    return Labels(
        n=len(samples),
        n_flagged=int(issues.is_issue.sum()),
        n_review=len(to_check(findings)) if len(samples) >= FEWEST else 0,
        low=expected,
        high=expected,
        noun="label" if samples.is_classification or findings.has_several_labels else "target",
    )


def _gain(act: ActGain, findings: Findings) -> str:
    assert findings.acts is not None, "its act"
    return gain_text(act.gain, act.low, act.high, findings.acts.metric)


def doing(act: ActGain) -> str:
    """An action as the subject of a sentence."""
    what = DOING.get(act.kind, f"“{act.words}”")
    return f"leaving out {count(act.cost, 'sample')}" if act.kind == DROP else what


def clause(act: ActGain, metric: str, n_flagged: int = 0) -> str:
    """What an action gains, said no more surely than it is known."""
    what = doing(act)
    if act.kind in {MEND, REMOVE} and not n_flagged:
        what = what.replace("them", "what stands out")
    if act.verdict == WORSE:
        return f"{what} costs {gain_text(-act.gain, -act.high, -act.low, metric)}"
    text = gain_text(act.gain, act.low, act.high, metric)
    if act.gain <= 0:
        return f"{what} is not shown to help: {text}"
    return f"{what} {'gains' if act.verdict == BETTER else 'may gain'} {text}"


def _sentence(findings: Findings, labels: Labels, tried: list[ActGain]) -> str:
    if findings.before is not None:
        return _gained(findings.before)
    parts, led = [labels.sentence], _leading(tried, labels)
    if led is not None and findings.acts is not None:
        parts += [clause(led, findings.acts.metric, labels.n_flagged)]
    elif tried:
        parts += [f"none of {count(len(tried), 'action')} tried is shown to help"]
    elif labels.n_flagged:
        is_pending = "is being measured" if findings.is_pending else "was not measured"
        parts += [f"what correcting them gains {is_pending}"]
    return f"{'; '.join(parts)}."


def _leading(tried: list[ActGain], labels: Labels) -> ActGain | None:
    """The action that the sentence is about: a sure one, else the correction, else a perhaps."""
    best = [act for act in tried if act.verdict == BETTER]
    corrected = [act for act in tried if act.kind == MEND and labels.n_flagged]
    perhaps = [act for act in tried if act.verdict == PERHAPS]
    return next(iter([*best, *corrected, *perhaps]), None)


def _gained(before: BeforeAfter) -> str:
    """What a review gained, in a sentence."""
    parts = [f"correcting {count(before.n_relabelled, 'label')}"] * bool(before.n_relabelled)
    parts += [f"removing {count(before.n_removed, 'sample')}"] * bool(before.n_removed)
    what = " and ".join(parts) or "Changing nothing"
    what, gain = what[0].upper() + what[1:], before.gain
    if gain is None:
        return f"{what}: what that gained was not measured, {before.why_none}."
    row = gain.rows[0]
    if row.verdict == WORSE:
        return f"{what} cost {gain_text(-gain.gain, -row.high, -row.low, gain.metric)}."
    text = gain_text(gain.gain, row.low, row.high, gain.metric)
    if gain.gain <= 0:
        return f"{what} is not shown to help: {text}."
    return f"{what} {'gained' if row.verdict == BETTER else 'may have gained'} {text}."


def _note(findings: Findings) -> str:
    if findings.acts is not None or findings.before is not None:
        return ""
    return PENDING if findings.is_pending else NOT_COMPARED


def _drop(tried: list[ActGain]) -> ActGain | None:
    """The largest drop that costs nothing measurable."""
    return next((a for a in tried if a.kind == DROP and not costs(a.gain, a.high)), None)


def _cards(findings: Findings, labels: Labels, typed: Typed) -> list[Advice]:
    """What to do, best first."""
    acts = () if findings.acts is None else findings.acts.acts
    metric = "" if findings.acts is None else findings.acts.metric
    tried = [act for act in acts if act.how == RETRAINED]
    others = [act for act in tried if act.kind not in {MEND, REMOVE, DROP}]
    sure = [_action(act, metric, typed, "act") for act in others if act.verdict == BETTER]
    perhaps = [_action(act, metric, typed, "look") for act in others if act.verdict == PERHAPS]
    cards = [_label_card(findings, labels, typed, tried, metric)] if labels.n_review else []
    cards += [*sure, *_data_cards(findings, typed), *perhaps]
    if (drop := _drop(tried)) is not None:
        text = gain_text(drop.gain, drop.low, drop.high, metric)
        headline = f"{drop.cost:,} of {labels.n:,} samples may be left out"
        keep = f"{1 - drop.cost / labels.n:.2g}"
        cards += [
            Advice("drop", "look", headline,
                   f"No loss is shown when they are left out: {text}. Suspected labels go first, "
                   "then the samples that tell least.",
                   command=typed.line("summarize", fraction=keep, out="kept"))
        ]  # fmt: skip
    for act in acts:
        command = typed.line("complexity", out="curve")
        if act.kind == MORE and act.low > 0 and (command or not typed.is_known):
            text = gain_text(act.gain, act.low, act.high, metric)
            text = f"Doubling the data is expected to gain {text}, by the learning curve."
            cards += [Advice("more data", "look", "Collect more samples", text, command=command)]
    return cards


def _action(act: ActGain, metric: str, typed: Typed, severity: str) -> Advice:
    text = clause(act, metric)
    text = f"{text[0].upper()}{text[1:]} on held-out samples."
    if act.verdict == PERHAPS:
        text += " Of several actions tried one may look so by chance."
    kind = action_kinds().get(act.kind)
    command = typed.line(kind.command, out=kind.command) if kind and kind.command else ""
    return Advice("action", severity, act.words, text, command=command)  # pyright: ignore[reportArgumentType]


def _label_card(
    findings: Findings, labels: Labels, typed: Typed, tried: list[ActGain], metric: str
) -> Advice:
    """Which labels to look at, why, and what that is worth."""
    issues, text = findings.issues, []
    if labels.n_flagged:
        right = f"{rough_percent(issues.expected_precision())} are expected to be wrong"
        if labels.n_flagged > 50:
            right += f", of the 50 most suspect {rough_percent(issues.expected_precision(50))}"
        text += [f"Of these {right}."]
    else:
        text += [f"{labels.expected[0].upper()}{labels.expected[1:]} of {labels.n:,} are expected "
                 "to be wrong; these are the likeliest."]  # fmt: skip
    for act in tried:
        if act.kind in {MEND, REMOVE} and labels.n_flagged:
            said = clause(act, metric)
            text += [f"{said[0].upper()}{said[1:]}.".replace("what stands out", "them")]
    doubts = _doubts(findings)
    is_sure = labels.n_flagged and not doubts
    ids = tuple(str(i) for i in findings.samples.ids[to_check(findings)[:10]])
    which = "" if labels.n_flagged else "likeliest "
    headline = f"Check and correct {count(labels.n_review, which + labels.noun)}"
    return Advice("label errors", "act" if is_sure else "look", headline,
                  " ".join([*text, *doubts]), ids, command=typed.line("view"))  # fmt: skip


def _doubts(findings: Findings) -> list[str]:
    """Why not to take all suspected labels for wrong."""
    samples, issues, text = findings.samples, findings.issues, []
    for one in findings.contests:
        if one.rankings[0] == ISSUES_FIRST:
            ours, random = one.values[0], one.values[one.rankings.index(RANDOM)]
            if ours < random:
                text += [f"Removing them unseen was tried and does worse than removing as many at "
                         f"random ({fixed(ours)} against {fixed(random)})."]  # fmt: skip
    classes = suspected_classes(samples.y, issues) if samples.is_classification else []
    for c in classes[:3]:
        own = samples.y == c
        text += [f"Of class “{shortened(samples.class_names[c])}” more than a third stand out "
                 f"({issues.is_issue[own].sum():,} of {own.sum():,}): it is rather hard than "
                 "wrong, so do not remove them all."]  # fmt: skip
    return text


def _data_cards(findings: Findings, typed: Typed) -> list[Advice]:
    """What is wrong with the data beside their labels and must be seen to first."""
    found, leaking = findings.data_issues, leaking_columns(findings.samples)
    cards = []
    for one in () if found is None else found.issues:
        if one.severity == "act":
            again = typed.line("run", drop=",".join(leaking), out="without") if (
                one.kind == "leaking columns") else ""  # fmt: skip
            headline = f"{one.kind[0].upper()}{one.kind[1:]}: {one.count:,}"
            cards += [Advice("data", "act", headline, one.sentence, command=again)]
    return cards
