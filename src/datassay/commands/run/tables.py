"""Tables of the page of a run."""

from __future__ import annotations

import numpy as np

from datassay.act.choose.action import MORE, action_kinds
from datassay.act.choose.gains import EXPECTED, ActionGain, ActionTable
from datassay.act.review.gain import BeforeAfter
from datassay.commands.run.findings import Findings
from datassay.commands.run.gallery import times_median
from datassay.commands.run.labels import Confusion
from datassay.report.page import Details, Row, Table
from datassay.report.wording import (
    count,
    gain_numbers,
    in_points,
    number,
    percent,
    shortened,
)
from datassay.score.checks.data_issues import DataIssues

MOST_PAIRS, MOST_NEAR, MOST_COLUMNS, MOST_CONFUSIONS = 20, 50, 3, 20
GROUP_COLUMNS = ("samples", "median", "total, nats", "share", "jointly, nats", "suspects")
JOINTLY = (
    "Jointly: what the network loses without the whole {}. Samples that can stand in for each "
    "other carry little information alone and much jointly."
)


def acts_table(table: ActionTable) -> Table:
    """Per action its interval, gain and what to do, best first."""
    unit = "points" if in_points(table.metric) else table.metric
    columns = ("action", "95 % interval", f"gain, {unit}", "advice")
    rows = tuple(_action_row(action, table) for action in table.actions)
    return Table("What each action gains", columns, rows, in_terminal=True)


def _action_row(action: ActionGain, table: ActionTable) -> Row:
    ends = (action.low, action.high) if action.is_measured else (action.gain, action.gain)
    gain, low, high = gain_numbers(action.gain, *ends, table.metric)
    cells = (
        f"{low} to {high}" if action.is_measured else "",
        "" if np.isnan(action.gain) else gain,
        action.advice or ("expected" if action.how == EXPECTED else "only screened"),
    )
    # More samples are no action that retraining measures.
    kind = action_kinds().get(action.kind)
    evidence = kind.evidence if kind else "modes" if action.kind == MORE else ""
    return Row(action.words, cells, action is table.best, evidence)


def acts_details(table: ActionTable) -> Details:
    """What else is known of each action: samples, controls, other held-out labels, seconds."""

    def told(gain: float) -> str:
        return "" if np.isnan(gain) else gain_numbers(gain, gain, gain, table.metric)[0]

    rows = []
    for action in table.actions:
        removed = f"{action.cost:,} removed" if action.cost > 0 else f"{action.changed:,} changed"
        samples = removed if action.cost >= 0 else f"{-action.cost:,} more"
        seconds = f"{action.seconds:.1f}" if action.seconds else ""
        cells = (
            action.verdict,
            samples,
            told(action.control),
            told(action.given),
            told(action.unsuspected),
            seconds,
        )
        rows += [Row(action.words, (*cells, action.note))]
    columns = (
        "action", "evidence", "samples", "gain of its control", "by labels as given",
        "by unsuspected labels", "seconds", "note",
    )  # fmt: skip
    note = (
        "Evidence: of all actions together (Holm, 5 %). "
        "Control: as many samples at random, the same weights shuffled, blocks at random. Left out "
        "are suspects first, then the least informative samples."
    )
    shown = Table("Details of the actions", columns, tuple(rows), prose=True, note=note)
    return Details("Controls, samples and seconds of each action", (shown,))


def before_table(before: BeforeAfter) -> Table:
    """Scores, samples and labels of the run before and of this one."""
    gain, (n, n_now), (suspects, now) = before.gain, before.n, before.suspects
    metric, measured = ("", ()) if gain is None else (gain.metric, gain.rows)
    rows: list[Row] = []
    is_share = in_points(metric)
    for one in measured:
        change, low, high = gain_numbers(one.gain, one.low, one.high, metric)
        change += " points" * is_share
        scores = (f"{100 * v:.1f} %" if is_share else f"{v:.3f}" for v in (one.before, one.after))
        name = f"{metric}, {one.by}" if len(measured) > 1 else metric
        rows += [Row(name, (f"{one.n:,}", *scores, change, f"{low} to {high}"))]
    for name, then, today in (("training samples", n, n_now), ("suspected labels", suspects, now)):
        difference = f"{today - then:+,}".replace("-", "−") if today != then else "0"
        rows += [Row(name, ("", f"{then:,}", f"{today:,}", difference, ""))]
    if before.confirmed:
        rows += [Row("of these reviewed and kept", ("", "", f"{before.confirmed:,}", "", ""))]
    columns = ("", "held-out samples", "before", "now", "change", "95 % interval")
    return Table("Before and after", columns, tuple(rows), in_terminal=True)


def relabelled_table(before: BeforeAfter) -> Details | None:
    """Which labels were changed to which, the most frequent first; None where none was."""
    shown = before.relabelled[:MOST_PAIRS]
    if not shown:
        return None
    rows = tuple(Row(shortened(a, 60), (shortened(b, 60), f"{n:,}")) for a, b, n in shown)
    more = len(before.relabelled) - len(shown)
    note = f"And {count(more, 'more pair')} of classes." if more else ""
    columns = ("label before", "label now", "samples")
    return Details(
        "Which labels were changed", (Table("Changed labels", columns, rows, note=note),)
    )


def issues_table(issues: DataIssues) -> Table:
    """What is wrong with the data apart from their labels, worst first."""
    rows = []
    for one in issues.issues:
        rows.append(Row(one.kind, (one.counted, one.sentence)))
    columns = ("issue", "count", "what")
    return Table("Issues of the data", columns, tuple(rows), prose=True, in_terminal=True)


def near_table(issues: DataIssues) -> Table | None:
    """Near duplicates with the columns that differ; None where there are none."""
    shown = issues.pairs[:MOST_NEAR]
    if not shown:
        return None
    note = f"The first {len(shown)} of {count(len(issues.pairs), 'pair')}."
    rows = []
    for pair in shown:
        both = zip(pair.ids, pair.in_validation, strict=True)
        names = " and ".join(name + " (validation)" * held_out for name, held_out in both)
        differ = [f"{c}: {shortened(a)} / {shortened(b)}" for c, a, b in pair.columns]
        more = [f"{len(differ) - MOST_COLUMNS} more"] * (len(differ) > MOST_COLUMNS)
        rows += [Row(names, (", ".join([*differ[:MOST_COLUMNS], *more]),))]
    return Table(
        "Near duplicates", ("near duplicates", "columns that differ"), tuple(rows),
        caption="Near duplicates", prose=True, note=note if len(shown) < len(issues.pairs) else "",
    )  # fmt: skip


def group_table(findings: Findings, by: str) -> Table:
    """A row per group: classes in their order, sources by name."""
    samples, totals, whole = findings.samples, findings.groups[by], findings.whole_groups.get(by)
    labels = samples.source if by == "source" else np.array(samples.class_names)[samples.y]
    assert labels is not None
    order = list(range(len(totals.names)))
    if by == "class":
        order.sort(key=lambda g: samples.class_names.index(str(totals.names[g])))
    rows = []
    for g in order:
        cells = (
            f"{totals.count[g]:,}",
            times_median(float(totals.median[g]), findings),
            number(totals.total[g]),
            f"{100 * totals.share[g]:.1f} %",
            "–" if whole is None else number(whole.information[g]),
            f"{findings.issues.is_issue[labels == totals.names[g]].sum():,}",
        )
        rows.append(Row(str(totals.names[g]), cells))
    note = JOINTLY.format(by) if whole is not None else ""
    columns = (by, *GROUP_COLUMNS)
    return Table(f"Totals by {by}", columns, tuple(rows), note=note, wraps=False)


def confusion_table(confused: list[Confusion], *, several: bool) -> Table:
    """Which labels are given wrongly, the most frequent first."""
    columns = ("true class", "given label", "share of the class")
    columns = ("label", "what is wrong", "share") if several else columns
    shown = confused[:MOST_CONFUSIONS]
    rows = tuple(Row(c.true, (c.given, percent(round(c.share, 3)))) for c in shown)
    return Table("Label noise found", columns, rows)
