"""What a run says first: which labels are wrong, what actions gain, and what to type next.

findings → Verdict: the sentence, at most three cards, commands; and the numbers that they share.
Page, summary.json, terminal and Python read them here, so that no two of them can differ.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from datassay.act.choose.action import COPIES, DROP, RELABEL, REMOVE, REVIEW
from datassay.act.choose.gains import (
    EXPECTED,
    RETRAINED,
    ActionGain,
    ActionTable,
    is_correction_advised,
)
from datassay.act.choose.kinds import action_kinds
from datassay.act.review.gain import BeforeAfter
from datassay.commands.run.findings import Findings
from datassay.commands.run.labels import (
    Labels,
    label_verdict,
    quiet_card,
    suspected_classes,
    to_check,
)
from datassay.commands.run.steps.budget import BUDGET
from datassay.commands.run.steps.budget import FEWEST as FEWEST_COMPARED
from datassay.commands.run.typed import Typed
from datassay.optional import inflect, text_if
from datassay.report.advice import Advice
from datassay.report.wording import (
    count,
    gain_numbers,
    gain_text,
    in_points,
    number,
    rough_percent,
    shortened,
)
from datassay.results import result
from datassay.score.checks.columns import leaking_columns
from datassay.stats import BETTER, DO, FREE, LEAVE, SHOWN, TRY, advice, is_vague, shows_loss

MOST_CARDS, MOST_COMMANDS = 3, 2
SMALL_CLASS = 10  # samples
TOO_FEW = f"What actions gain is measured on {FEWEST_COMPARED} samples or more; these are fewer."
UNPREDICTED = "Actions are not compared: what seems to gain would do so by chance."
NOT_COMPARED = "What actions gain was not measured here; datassay run measures it."
BUDGET_OVER = (
    "What actions gain was not measured: the budget was over before. A larger one measures it."
)
# Verbs for what helps, what may help, what is not shown to help, and what costs.
NOW = ("gains", "may help", "is not shown to help a model", "costs")
THEN = ("gained", "may have helped", "is not shown to have helped a model", "cost")
RAISES = {"gains": "raises", "gained": "raised"}  # of R²
ELSEWHERE = ", forecast from other data sets, not measured here)"


@result
class Verdict:
    """The verdict of a run, which is said first."""

    sentence: str  # what is wrong, and what doing something gains
    labels: Labels
    cards: tuple[Advice, ...]  # what to do, best first; at most three
    commands: tuple[str, ...]  # what to type next, as it can be typed
    note: str = ""  # why no action was compared; empty where some were
    # samples that can be left out at no measurable cost; None: not measured
    n_droppable: int | None = None
    measured: tuple[ActionGain, ...] = ()  # the actions that were measured, best first


def verdict(findings: Findings, out: str = "") -> Verdict:
    """Return what page and terminal say first: a sentence, cards and commands to type."""
    labels = label_verdict(findings)
    typed = Typed(findings, out)
    measured = tuple(action for action in _list_actions(findings) if action.how == RETRAINED)
    cards = _make_cards(findings, labels, typed, measured)
    is_unmeasured = findings.acts is None and findings.before is None
    # That a drop costs nothing is no reason to type its command.
    drop = _find_drop(measured)
    is_free = drop is not None and drop.advice == FREE
    commands = [card.command for card in cards if card.kind != "drop" or not is_free]
    if labels.n_review:
        commands = [typed.line("view"), "" if is_unmeasured else typed.apply()]
    if findings.before is not None and not labels.n_flagged:  # the review has ended
        commands = []
    note = text_if(is_unmeasured, _explain_unmeasured(findings, labels))
    has_budget = "--budget" in findings.facts.get("Command", "")
    if note == NOT_COMPARED or (note == BUDGET_OVER and has_budget):
        commands += [typed.line("run", out="report")]
    if labels.leaks:  # until they are dropped, all else says little
        commands = [card.command for card in cards[:1]]
    n_droppable = None
    if drop is not None:
        n_droppable = drop.cost
    elif any(action.kind == DROP for action in measured):
        n_droppable = 0
    return Verdict(
        sentence=_state_verdict(findings, labels, measured),
        labels=labels,
        cards=cards,
        commands=tuple(dict.fromkeys(filter(None, commands)))[:MOST_COMMANDS],
        note=note,
        n_droppable=n_droppable,
        measured=measured,
    )


def _explain_unmeasured(findings: Findings, labels: Labels) -> str:
    """Return why no action was compared, in a sentence."""
    if not labels.is_predicted:
        return UNPREDICTED
    if findings.pending:
        return findings.pending
    if labels.n < FEWEST_COMPARED:
        return TOO_FEW
    return BUDGET_OVER if BUDGET in findings.facts else NOT_COMPARED


def clause(action: ActionGain, table: ActionTable, them: str = "") -> str:
    """Return what an action gains as a clause, worded no more surely than it is known.

    Where R² is told and no gain is sure, it is given as it is before and after.
    """
    metric = table.metric
    kinds = action_kinds()
    phrases = [kinds[name].doing if name in kinds else "" for name in action.kind.split("+")]
    phrase = f"“{action.words}”"
    if all(phrases):
        phrase = " and then ".join(phrases).format(them=them)
    if action.kind == DROP:
        phrase = f"leaving out {count(action.cost, 'sample')}"
    if action.kind == REVIEW:
        phrase = f"reviewing {count(action.changed, 'label')}"
        before = 0.0 if in_points(metric) else table.score
        return _state_change(phrase, action, metric, NOW, before).removesuffix(")") + ELSEWHERE
    return _state_change(phrase, action, metric, NOW, table.score)


def _state_change(subject: str, row: Any, metric: str, verbs: Any, before: float) -> str:
    """Return what an action changes, worded by its interval: sure, possible, or not shown."""
    helps, may_help, unshown, costs = verbs
    if shows_loss(row.high):
        row = SimpleNamespace(gain=-row.gain, low=-row.high, high=-row.low)  # a cost is positive
        return f"{subject} {costs} {gain_text(row, metric)}"
    recommendation = advice(row.gain, row.low, row.high)
    scores = [number(score).replace("-", "−") for score in (before, before + row.gain)]
    if recommendation == DO and not in_points(metric):
        _, low, high = gain_numbers(row.gain, row.low, row.high, metric)
        raises = RAISES[helps]
        return f"{subject} {raises} {metric} from {scores[0]} to {scores[1]} (by {low} to {high})"
    if recommendation == DO:
        return f"{subject} {helps} {gain_text(row, metric, before)}"
    verb = may_help if recommendation == TRY else unshown
    if not in_points(metric) and is_vague(row.low, row.high):
        return f"{subject} {verb}: {metric} {scores[0]} before, {scores[1]} after"
    if recommendation != TRY and is_vague(row.low, row.high):
        return f"{subject} {verb}"
    return f"{subject} {verb}: {gain_text(row, metric)}"


def _state_verdict(findings: Findings, labels: Labels, measured: tuple[ActionGain, ...]) -> str:
    """Return the verdict in a sentence: what is wrong and what mending it gains, or gained."""
    before = findings.before
    if before is not None:
        parts = [
            text_if(before.n_relabelled, f"correcting {count(before.n_relabelled, 'label')}"),
            text_if(before.n_removed, f"removing {count(before.n_removed, 'sample')}"),
        ]
        subject = _capital(" and ".join(filter(None, parts)) or "changing nothing")
        gain = before.gain
        if gain is None:
            return f"{subject}: what that gained was not measured, {before.why_none}."
        text = f"{_state_change(subject, gain.rows[0], gain.metric, THEN, gain.rows[0].before)}."
        if not any(parts):
            return text
        return f"{text} {'Take the changes back' if _is_loss(before) else 'Keep the changes'}."
    # What helps, else the correction as it was measured, a review's forecast, what may help.
    leading = [action for action in measured if action.advice == DO]
    leading += [a for a in measured if a.kind == RELABEL and labels.n_flagged]
    leading += _list_reviews(findings)
    leading += [action for action in measured if action.advice == TRY]
    ending = ""
    if leading and findings.acts is not None:
        ending = f"; {clause(leading[0], findings.acts, labels.tried)}"
    elif len(measured) == 1:
        ending = "; the one action tried is not shown to help"
    elif measured:
        ending = f"; of {len(measured)} actions tried none is shown to help"
    elif labels.n_flagged:
        reason = "was not measured"
        if findings.pending:
            reason = "is being measured"
        reason += text_if(labels.n < FEWEST_COMPARED, f", of fewer than {FEWEST_COMPARED} samples")
        ending = f"; the gain of correcting them {reason}"
    return f"{labels.sentence}{ending}."


def _is_loss(before: BeforeAfter) -> bool:
    """Return whether the changes since the run before surely cost something."""
    return before.gain is not None and before.gain.is_loss


def _list_actions(findings: Findings) -> tuple[ActionGain, ...]:
    """Return the actions that were compared, measured or not; () where none was."""
    if findings.acts is None:
        return ()
    return findings.acts.actions


def _list_reviews(findings: Findings) -> list[ActionGain]:
    """Return the review of labels, with what is expected of it, where it is among the actions."""
    return [action for action in _list_actions(findings) if action.kind == REVIEW]


def _find_drop(measured: tuple[ActionGain, ...]) -> ActionGain | None:
    """Return the largest drop that costs nothing measurable, or gains; None without one."""
    return next((a for a in measured if a.kind == DROP and a.advice in {DO, TRY, FREE}), None)


def _make_cards(
    findings: Findings, labels: Labels, typed: Typed, measured: tuple[ActionGain, ...]
) -> tuple[Advice, ...]:
    """Return cards of what to do next, best first, at most MOST_CARDS."""
    table: Any = findings.acts  # of any type: where it is None there are no actions
    other_actions = [action for action in measured if action.kind not in {RELABEL, REMOVE, DROP}]
    # Where a correction gains, others that leave out the suspects gain by the same labels.
    may_help = [action for action in other_actions if action.advice == TRY]
    if is_correction_advised(measured):
        may_help = [action for action in may_help if action.kind.startswith(f"{RELABEL}+")]
    data_cards = _make_data_cards(findings, typed, measured)
    n_leading = 1 if labels.leaks else 0  # a card of leaks, before labels can be judged
    cards = data_cards[:n_leading]
    if findings.before is not None:
        cards += _judge_review(findings.before)
    if labels.n_flagged or (labels.n_review and findings.before is None):
        cards += [_make_label_card(findings, labels, typed, measured)]
    arguments = table, labels.tried, typed
    cards += [_make_card(action, *arguments) for action in other_actions if action.advice == DO]
    cards += data_cards[n_leading:]
    cards += [_make_card(action, *arguments) for action in may_help]
    drop = _find_drop(measured)
    # Labels are corrected first: a drop leaves out the same suspects, and no loss is no gain.
    if drop is not None and not labels.n_flagged and findings.before is None:
        text = _capital(clause(drop, table))
        if drop.advice == FREE:
            text = f"No loss is shown when they are left out: {gain_text(drop, table.metric)}"
        text = f"{text}. The least informative samples are dropped first."
        command = typed.line("summarize", fraction=f"{1 - drop.cost / labels.n:.2g}", out="kept")
        headline = f"{drop.cost:,} of {labels.n:,} samples may be left out"
        cards += [Advice("drop", "look", headline, text, command=command)]
    for action in _list_actions(findings):
        kind = action_kinds().get(action.kind)
        if kind is None or action.how != EXPECTED or action.kind == REVIEW:
            continue
        command = typed.line(kind.command, out="curve")
        helps = advice(action.gain, action.low, action.high) == DO
        if helps and (command or not typed.is_known):
            text = f"{_capital(kind.doing)} is expected to gain {gain_text(action, table.metric)}"
            text += ", by the learning curve."
            cards += [Advice("more data", "look", "Collect more samples", text, command=command)]
    if all(card.kind in {"drop", "more data"} for card in cards):
        cards = [quiet_card(findings, typed.line("view")), *cards]
    return tuple(cards[:MOST_CARDS])


def _judge_review(before: BeforeAfter) -> list[Advice]:
    """Return [card: whether the reviewed labels are worth keeping]; [] if no gain is known."""
    changes = [
        text_if(before.n_relabelled, f"{count(before.n_relabelled, 'corrected label')}"),
        text_if(before.n_removed, f"{count(before.n_removed, 'removal')}"),
    ]
    phrase = " and ".join(filter(None, changes))
    if before.gain is None or not phrase:
        return []
    row = before.gain.rows[0]
    gain = gain_text(row, before.gain.metric)
    if _is_loss(before):
        text = f"On held-out samples they cost: {gain}. Review them again, or train on the data as "
        return [Advice("before", "act", f"Take back the {phrase}", f"{text}they were.")]
    recommendation = advice(row.gain, row.low, row.high)
    if recommendation == DO:
        text = f"On held-out samples they gain {gain}."
    else:
        text = f"Neither a gain nor a loss is shown: {gain}. "
        if recommendation == TRY:
            text = f"On held-out samples they may help: {gain}. "
        text += "Right labels are worth keeping all the same: every later model is judged by them."
    return [Advice("before", "fine", f"Keep the {phrase}", text)]


def _make_card(action: ActionGain, table: ActionTable, them: str, typed: Typed) -> Advice:
    """Return an action's card: its measured gain, and the command that does it."""
    text = f"{_capital(clause(action, table, them))} on held-out samples."
    if action.verdict != BETTER and action.low > 0:
        text += " Of several actions tried one may look so by chance."
    kind = action_kinds().get(action.kind.split("+")[0])
    command = ""
    if kind and kind.command:
        command = typed.line(kind.command, out=kind.command.split()[0])
    if kind and kind.name == COPIES:
        command = typed.apply("--drop-copies")
    severity = "act" if action.advice == DO else "look"
    return Advice("action", severity, action.words, text, command=command)


def _explain_review(labels: Labels, corrections: Sequence[ActionGain], highest: float) -> str:
    """Return why labels are to be looked at; `highest`: how likely wrong the likeliest is."""
    n = labels.n_flagged
    if not n:
        return (
            f"{_capital(labels.expected)} of {labels.n:,} may be wrong, though the most suspect is "
            f"{rough_percent(highest)} likely to be: a review of these tells how many."
        )
    subject = f"{n:,}" if labels.n_review > n else inflect(n, "It", "They")
    text = f"{subject} {inflect(n, 'is', 'are')} probably wrong"
    if any(a.advice == LEAVE and not shows_loss(a.high) for a in corrections):
        text += f": correct {inflect(n, 'it', 'them')} for clean data"
    return f"{text}."


def _make_label_card(
    findings: Findings, labels: Labels, typed: Typed, measured: tuple[ActionGain, ...]
) -> Advice:
    """Return the card of the labels: which to look at, why, and what mending them gains."""
    samples = findings.samples
    issues = findings.issues
    table: Any = findings.acts  # of any type, as for `_make_cards`
    is_sure = bool(labels.n_flagged)

    label_actions = [a for a in measured if a.kind in {RELABEL, REMOVE} and a.is_advised]
    corrections = [action for action in measured if action.kind == RELABEL]
    if labels.n_flagged:
        # Correcting them in any case, and first; removing them only where that gains more.
        gain = max((a.gain for a in corrections if a.advice != LEAVE), default=-1.0)
        removals = [a for a in label_actions if a.kind == REMOVE and a.gain > gain + SHOWN]
        label_actions = [*corrections, *removals]
        is_sure = not any(action.advice == LEAVE for action in label_actions[:1])
    text = [_explain_review(labels, corrections, float(issues.probability.max()))]
    text += [f"{_capital(clause(a, table, labels.tried))}." for a in label_actions]
    n_look = labels.n_review - labels.n_flagged
    if labels.n_flagged and n_look:
        text += [f"{n_look:,} more {inflect(n_look, 'is', 'are')} worth a look."]
    # What reviews gained elsewhere says nothing more where a correction was measured and may help.
    if not is_correction_advised(measured):
        text += [f"{_capital(clause(a, table))}." for a in _list_reviews(findings)]
    classes = []
    if samples.is_classification:
        classes = suspected_classes(samples.y, issues)
    for c in classes[:3]:
        in_class = samples.y == c
        is_sure = False
        n_suspects = issues.is_issue[in_class].sum()
        share = f"more than a third ({n_suspects:,} of {in_class.sum():,}) stand out"
        reason = "it is rather hard than wrong"
        if in_class.sum() < SMALL_CLASS:
            reason = "so small a class cannot be judged"
        text += [f"Of class “{shortened(samples.class_names[c])}” {share}: {reason}, so do not "
                 "remove them all."]  # fmt: skip
    if labels.n_slips:
        text += [f"{labels.n_slips:,} are wrong by a factor of {labels.factor}, which the "
                 "suggested value undoes."]  # fmt: skip
    cells = [(i, issues.cells[i]) for i in to_check(findings).tolist() if i in issues.cells]
    if cells:
        n = len(cells)
        i, words = cells[0]
        text += [f"Of {n:,} of them an input looks wrong rather than the target, which stays as it "
                 f"is, such as of {samples.ids[i]}: {words}."]  # fmt: skip
    ids = tuple(str(i) for i in samples.ids[to_check(findings)[:10]])
    return Advice("label errors", "act" if is_sure else "look", f"Review {labels.named}",
                  " ".join(text), ids, command=typed.line("view"))  # fmt: skip


def _make_data_cards(
    findings: Findings, typed: Typed, measured: tuple[ActionGain, ...]
) -> list[Advice]:
    """Return cards of faults of the data other than labels that must be mended first."""
    issues = ()
    if findings.data_issues is not None:
        issues = findings.data_issues.issues
    leaking = ",".join(leaking_columns(findings.samples))
    cards = []
    commands = {"leaking columns": typed.line("run", drop=leaking, out="without")}
    if any(action.kind == COPIES and action.advice != LEAVE for action in measured):
        commands["near duplicates"] = typed.apply("--drop-copies")
    issues = sorted(issues, key=lambda issue: issue.kind != "leaking columns")
    for issue in (issue for issue in issues if issue.severity == "act"):
        command = commands.get(issue.kind, "")
        headline = f"{_capital(issue.kind)}: {issue.counted}"
        cards += [Advice("data", "act", headline, issue.sentence, command=command)]
    return cards


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
