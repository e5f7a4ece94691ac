"""Tables of the page of a run."""

import numpy as np

from datassay.act.choose.gains import ActionGain, ActionTable
from datassay.act.choose.kinds import action_kinds
from datassay.act.review.gain import BeforeAfter
from datassay.commands.run.findings import Findings
from datassay.commands.run.gallery import times_median
from datassay.commands.run.labels import Confusion
from datassay.optional import text_if
from datassay.report.page import Details, Row, Table
from datassay.report.result_plots import advice_text, gains_title
from datassay.report.tables import gain_cells
from datassay.report.wording import (
    count,
    gain_numbers,
    in_points,
    number,
    percent,
    shortened,
)
from datassay.score.checks.data_issues import DataIssues
from datassay.score.labels.sources import LabelSources

MOST_PAIRS = 20
MOST_NEAR = 50
MOST_COLUMNS = 3
MOST_CONFUSIONS = 20
GROUP_COLUMNS = ("samples", "median", "total, nats", "share", "jointly, nats", "suspects")
JOINTLY = (
    "Jointly: what the network loses without the whole {}. Samples that can stand in for each "
    "other carry little information alone and much jointly."
)


def acts_table(table: ActionTable) -> Table:
    """Return the table of actions with their intervals, gains and advice, best first."""
    if in_points(table.metric):
        unit = "points"
    else:
        unit = table.metric
    columns = ("action", f"gain, {unit}", "95 % interval", "advice")
    rows = tuple(_action_row(action, table) for action in table.actions)
    return Table(gains_title(table.actions), columns, rows, in_terminal=True)


def _action_row(action: ActionGain, table: ActionTable) -> Row:
    """Return an action's row: interval, gain, advice, evidence."""
    if action.is_measured:
        ends = (action.low, action.high)
    else:
        ends = (action.gain, action.gain)
    gain, low, high = gain_numbers(action.gain, *ends, table.metric)
    cells = (
        text_if(not np.isnan(action.gain), gain),
        text_if(action.is_measured, f"{low} to {high}"),
        advice_text(action, table.actions),
    )
    kind = action_kinds().get(action.kind)
    evidence = ""
    if kind is not None:
        evidence = kind.evidence
    return Row(action.words, cells, action is table.best, evidence)


def acts_details(table: ActionTable) -> Details:
    """Return a table of each action's samples, gains by other measures, and seconds."""

    def format_gain(gain: float) -> str:
        if np.isnan(gain):
            return ""
        return gain_numbers(gain, gain, gain, table.metric)[0]

    rows = []
    for action in table.actions:
        if action.cost > 0:
            samples = f"{action.cost:,} removed"
        elif action.cost == 0:
            samples = f"{action.changed:,} changed"
        else:  # samples to collect
            samples = f"{-action.cost:,} more"
        seconds = text_if(action.seconds, f"{action.seconds:.1f}")
        cells = (
            action.verdict,
            samples,
            format_gain(action.control),
            format_gain(action.given),
            format_gain(action.unsuspected),
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
    details = Table("Details of the actions", columns, tuple(rows), prose=True, note=note)
    return Details("Controls, samples and seconds of each action", (details,))


def before_table(before: BeforeAfter) -> Table:
    """Return a table of the score, samples and labels of the run before and of this one."""
    rows: list[Row] = []
    if before.gain is not None:
        row = before.gain.rows[0]
        rows += [Row(before.gain.metric, (f"{row.n:,}", *gain_cells(row, before.gain.metric)))]
    for name, n, n_now in (("training samples", *before.n), ("suspected labels", *before.suspects)):
        if n_now != n or name == "suspected labels":
            difference = f"{n_now - n:+,}".replace("-", "−").replace("+0", "0")
            rows += [Row(name, ("", f"{n:,}", f"{n_now:,}", difference, ""))]
    if before.confirmed:
        row = ("", "", f"{before.confirmed:,}", "", "")
        rows += [Row("suspected, but reviewed and kept", row)]
    columns = ("", "held-out samples", "before", "now", "change", "95 % interval")
    return Table("Before and after", columns, tuple(rows), in_terminal=True)


def relabelled_table(before: BeforeAfter) -> Details | None:
    """Return which labels were changed to which, most frequent first; None if none were."""
    pairs = before.relabelled[:MOST_PAIRS]
    if not pairs:
        return None
    rows = tuple(Row(shortened(a, 60), (shortened(b, 60), f"{n:,}")) for a, b, n in pairs)
    n_hidden = len(before.relabelled) - len(pairs)
    note = text_if(n_hidden, f"And {count(n_hidden, 'more pair')} of classes.")
    columns = ("label before", "label now", "samples")
    return Details(
        "Which labels were changed", (Table("Changed labels", columns, rows, note=note),)
    )


def issues_table(issues: DataIssues) -> Table:
    """Return a table of what is wrong with the data apart from labels, worst first."""
    rows = []
    for issue in issues.issues:
        rows.append(Row(issue.kind, (issue.counted, issue.sentence)))
    columns = ("issue", "count", "what")
    return Table("Issues of the data", columns, tuple(rows), prose=True, in_terminal=True)


def near_table(issues: DataIssues) -> Table | None:
    """Return a table of near-duplicates with the columns that differ; None if there are none."""
    pairs = issues.pairs[:MOST_NEAR]
    if not pairs:
        return None
    note = f"The first {len(pairs)} of {count(len(issues.pairs), 'pair')}."
    rows = []
    for pair in pairs:
        members = zip(pair.ids, pair.in_validation, strict=True)
        names = " and ".join(name + " (validation)" * held_out for name, held_out in members)
        differences = [f"{c}: {shortened(a)} / {shortened(b)}" for c, a, b in pair.columns]
        cells = differences[:MOST_COLUMNS]
        if len(differences) > MOST_COLUMNS:
            cells.append(f"{len(differences) - MOST_COLUMNS} more")
        rows += [Row(names, (", ".join(cells),))]
    return Table(
        "Near duplicates", ("near duplicates", "columns that differ"), tuple(rows),
        caption="Near duplicates", prose=True, note=text_if(len(pairs) < len(issues.pairs), note),
    )  # fmt: skip


def group_table(findings: Findings, kind: str) -> Table:
    """Return a table with a row per class or source.

    Its cells: samples, median and total information, its share, information that is lost with the
    whole group, suspects.
    """
    samples = findings.samples
    totals = findings.groups[kind]
    whole_groups = findings.whole_groups.get(kind)
    if kind == "source":
        labels = samples.source
    else:
        labels = np.array(samples.class_names)[samples.y]
    assert labels is not None
    order = list(range(len(totals.names)))  # sources by name
    if kind == "class":
        order.sort(key=lambda g: samples.class_names.index(str(totals.names[g])))
    rows = []
    for g in order:
        cells = (
            f"{totals.count[g]:,}",
            times_median(float(totals.median[g]), findings),
            number(totals.total[g]),
            f"{100 * totals.share[g]:.1f} %",
            "–" if whole_groups is None else number(whole_groups.information[g]),
            f"{findings.issues.is_issue[labels == totals.names[g]].sum():,}",
        )
        rows.append(Row(str(totals.names[g]), cells))
    note = text_if(whole_groups is not None, JOINTLY.format(kind))
    columns = (kind, *GROUP_COLUMNS)
    return Table(f"Totals by {kind}", columns, tuple(rows), note=note, wraps=False)


def sources_table(sources: LabelSources) -> Table:
    """Return a table of the labels of each source, those that are contradicted most first."""
    order = np.argsort(-(sources.contradicted - sources.expected), kind="stable")
    rows = []
    for v in order:
        shares = (sources.contradicted[v], sources.expected[v], sources.share_wrong[v])
        cells = (f"{sources.n_labels[v]:,}", *(percent(round(x, 3)) for x in shares))
        rows += [Row(sources.values[v], cells, bool(sources.errs[v]))]
    note = (
        "Contradicted: by held-out predictions; expected: if labels did not depend on the source. "
        "Wrong: as the noise found has it, of all sources together but for those that stand out."
    )
    columns = (sources.column, "labels", "contradicted", "expected", "wrong")
    title = f"Labels by {sources.column}"
    return Table(title, columns, tuple(rows), note=note, wraps=False, sortable=True)


def confusion_table(confused: list[Confusion], *, is_multi: bool) -> Table:
    """Return a table of which labels are given wrongly, the most frequent first."""
    columns = ("true class", "given label", "share of the class")
    if is_multi:
        columns = ("label", "what is wrong", "share")
    listed = confused[:MOST_CONFUSIONS]
    rows = tuple(Row(c.true, (c.given, percent(round(c.share, 3)))) for c in listed)
    return Table("Label noise found", columns, rows)
