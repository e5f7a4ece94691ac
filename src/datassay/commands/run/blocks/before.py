"""What a review gained: this run beside the run before it."""

from __future__ import annotations

from datassay.act.review.gain import BeforeAfter, GainRow, ReviewGain
from datassay.commands.run.findings import Findings
from datassay.report.advice import Advice
from datassay.report.page import Row, Section, Table, Text
from datassay.report.wording import count, in_points, percent, shortened, signed

MOST_PAIRS = 20
BETTER, WORSE, SAME = "better", "worse", "no difference shown"


def section(findings: Findings) -> tuple[Section, ...]:
    """The gain and what else changed; none of a run without --before."""
    before = findings.before
    if before is None:
        return ()
    blocks: list[Text | Table] = [Text(_answer(before)), _numbers(before)]
    if before.gain is not None:
        blocks.append(Text(_measured(before.gain), note=True))
    if before.other_model:
        blocks.append(Text(
            f"The run before judged labels by another model ({before.other_model}): its numbers of "
            "suspected and of wrong labels are not those that this model would have found.",
            note=True,
        ))  # fmt: skip
    if before.relabelled:
        shown = before.relabelled[:MOST_PAIRS]
        rows = tuple(Row(shortened(a, 60), (shortened(b, 60), f"{n:,}")) for a, b, n in shown)
        more = len(before.relabelled) - len(shown)
        note = f"And {count(more, 'more pair')} of classes." if more else ""
        columns = ("label before", "label now", "samples")
        blocks.append(Table("Changed labels", columns, rows, caption="Changed labels", note=note))
    return (Section("before", "Gained", "What the review gained", tuple(blocks)),)


def gain_advice(findings: Findings) -> tuple[Advice, ...]:
    """The gain in one line."""
    before = findings.before
    if before is None:
        return ()
    if before.gain is None:
        headline = "The gain of the review was not measured"
        return (Advice("review", "look", headline, _answer(before)),)
    gain, verdict = before.gain, _verdict(before.gain.rows[0])
    headline = {
        BETTER: f"The review gained {_amount(gain)}",
        WORSE: f"The review cost {_amount(gain)}",
        SAME: "The review shows no difference in what the model learns",
    }[verdict]
    severity = "look" if verdict == WORSE else "fine"
    return (Advice("review", severity, headline, _answer(before)),)


def _answer(before: BeforeAfter) -> str:
    changed = (
        f"{count(before.n_relabelled, 'label')} changed and "
        f"{count(before.n_removed, 'sample')} removed since the run before."
    )
    if before.gain is None:
        return f"{changed} No gain was measured: {before.why_none}."
    return f"{changed} {_sentence(before.gain)}"


def _amount(gain: ReviewGain) -> str:
    unit = f" points of {gain.metric}" if in_points(gain.metric) else f" of {gain.metric}"
    return f"{signed(abs(gain.gain), gain.metric).lstrip('+')}{unit}"


def _sentence(gain: ReviewGain) -> str:
    row = gain.rows[0]
    low, high = signed(row.low, gain.metric), signed(row.high, gain.metric)
    unit = " points" if in_points(gain.metric) else ""
    return (
        f"Trained on the samples as they are now the model reaches {_score(row.after, gain)} on "
        f"{count(row.n, 'held-out sample')}{_whose(gain)}, before "
        f"{_score(row.before, gain)}: {signed(gain.gain, gain.metric)}{unit} (95 % interval {low} "
        f"to {high})."
    )


def _whose(gain: ReviewGain) -> str:
    return " whose label was not changed" if len(gain.rows) > 1 else ""


def _score(value: float, gain: ReviewGain) -> str:
    is_share = in_points(gain.metric)
    return f"{100 * value:.1f} % {gain.metric}" if is_share else f"{gain.metric} {value:.3f}"


def _verdict(row: GainRow) -> str:
    return BETTER if row.low > 0 else WORSE if row.high < 0 else SAME


def _measured(gain: ReviewGain) -> str:
    parts = (
        f"{count(gain.n_parts, 'part')} of the samples, each held out from both sides"
        if gain.n_parts > 1
        else "the same held-out samples, which neither side learnt from"
    )
    changed = (
        "A held-out sample whose label the review changed would favour one side, so it does not "
        "count in the first row. "
    )
    return (
        "The same model learnt from the samples as they were and as they are now, from "
        f"{count(gain.n_seeds, 'seed')}; both were asked about {parts}. "
        f"{changed if len(gain.rows) > 1 else ''}Held-out labels that are still wrong count "
        "against both."
    )


def _numbers(before: BeforeAfter) -> Table:
    rows = [] if before.gain is None else [_gain_row(row, before.gain) for row in before.gain.rows]
    (n, n_now), (suspects, now) = before.n, before.suspects
    share, share_now = before.expected_wrong
    rows += [
        Row("training samples", ("", f"{n:,}", f"{n_now:,}", _difference(n_now - n), "")),
        Row("suspected labels", ("", f"{suspects:,}", f"{now:,}", _difference(now - suspects), "")),
    ]
    if before.confirmed:
        rows += [Row("of these looked at and kept", ("", "", f"{before.confirmed:,}", "", ""))]
    shares = percent(round(share, 3)), percent(round(share_now, 3))
    points = f"{signed(share_now - share, 'accuracy')} points"
    rows += [Row("labels expected to be wrong", ("", *shares, points, ""))]
    columns = ("", "held-out samples", "before", "now", "change", "95 % interval")
    return Table("Before and after", columns, tuple(rows), in_terminal=True)


def _gain_row(row: GainRow, gain: ReviewGain) -> Row:
    unit = " points" if in_points(gain.metric) else ""
    change = signed(row.after - row.before, gain.metric) + unit
    interval = f"{signed(row.low, gain.metric)} to {signed(row.high, gain.metric)}"
    scores = (
        f"{100 * value:.1f} %" if in_points(gain.metric) else f"{value:.3f}"
        for value in (row.before, row.after)
    )
    name = gain.metric if len(gain.rows) == 1 else f"{gain.metric}, {row.by}"
    return Row(name, (f"{row.n:,}", *scores, change, interval))


def _difference(n: int) -> str:
    return f"{n:+,}".replace("-", "−") if n else "0"
