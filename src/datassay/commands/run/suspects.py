"""The suspects of a table: their scores, and the user's own columns, most telling first."""

from typing import Any

import numpy as np
import pyarrow as pa

from datassay.commands.run.findings import Findings
from datassay.commands.run.labels import to_check
from datassay.data.back.original import format_spreadsheet
from datassay.optional import text_if
from datassay.report.page import Row, Table
from datassay.report.tables import column
from datassay.report.wording import label_text, labels_given, percent, value_text
from datassay.score.checks.columns import columns_first

MOST_ROWS, MOST_COLUMNS = 200, 12
FILE = "suspects.csv"
PROBABLY = "probably wrong"
LOOK = "worth a look"
CELL = "input_looks_wrong"


def suspects_shown(findings: Findings) -> Table | None:
    """Return the 200 most suspect rows as a table of the page; None if there are none."""
    all_suspects = to_check(findings)
    if findings.samples.rows is None or not len(all_suspects):
        return None
    names = columns_first(findings.samples)
    n = len(all_suspects)
    information = findings.information.information
    order = all_suspects[:MOST_ROWS]
    table = suspects_table(findings).slice(0, MOST_ROWS)
    cells = [findings.issues.cells.get(int(i), "") for i in order]
    if any(cells):
        table = table.drop_columns(CELL)
    ids, labels, suggestions, _, probabilities, _, *values = (c.to_pylist() for c in table.columns)
    rank = np.argsort(np.argsort(information, kind="stable")) / max(1, len(information) - 1)
    columns = {
        "given": labels,
        "suggested": suggestions,
        "wrong": ["not clear" if p is None else percent(round(p, 2)) for p in probabilities],
        "percentile": [f"{100 * rank[i]:.0f}" for i in order],
        **({"input": cells} if any(cells) else {}),
        **{name: map(value_text, cells) for name, cells in zip(names, values, strict=True)},
    }
    columns = dict(list(columns.items())[: 4 + any(cells) + MOST_COLUMNS])
    note = (
        "Wrong: how likely the given label is wrong. Percentile: of the information, among all "
        "rows. Click a heading to sort."
    )
    if None in probabilities:
        note += " Not clear: other groups contradict the label, its own does not."
    if any(cells):
        note += " Input: what looks wrong there, so that the target may be right."
    note += text_if(n > MOST_ROWS, f" The {MOST_ROWS} most suspect of {n:,}.")
    if len(names) > MOST_COLUMNS:
        note += f" The {MOST_COLUMNS} of {len(names)} columns that tell most of the target."
    rows = zip(ids, zip(*columns.values(), strict=True), strict=True)
    return Table(
        "Suspects", ("id", *columns), tuple(Row(str(i), row_cells) for i, row_cells in rows),
        wraps=False, sortable=True, note=note,
    )  # fmt: skip


def _word_labels(findings: Findings, order: np.ndarray) -> tuple[np.ndarray, list[str], list[str]]:
    """Return ids, given and suggested labels in words, [s] each; "" if an input is suspected."""
    samples = findings.samples

    def word(label: Any) -> str:
        if findings.has_several_labels:
            return labels_given(label, samples.target_names)
        return label_text(samples.class_names, label)

    labels = [word(samples.y[i]) for i in order]
    proposed = [word(findings.issues.suggested_label[i]) for i in order]
    cells = findings.issues.cells  # whose targets stay as they are
    proposed = [text_if(i not in cells, word) for i, word in zip(order, proposed, strict=True)]
    return samples.ids[order], labels, proposed


def suspects_table(findings: Findings) -> pa.Table:
    """Return all suspects with their scores and the user's columns, the most suspect first.

    Args:
        findings: of the run.

    Returns:
        `id`, `given` and `suggested` in words, `list` (PROBABLY or LOOK), `wrong_probability`
        (empty where only other groups contradict the label) and `information`; CELL, where one has
        an input that looks wrong; then the user's columns, "(data)" behind a name that is taken.
    """
    samples = findings.samples
    order = to_check(findings)
    ids, labels, suggested = _word_labels(findings, order)
    columns: dict[str, Any] = {
        "id": column(ids),
        "given": pa.array(labels),
        "suggested": pa.array(suggested),
        "list": pa.array(np.where(findings.issues.is_issue[order], PROBABLY, LOOK)),
        "wrong_probability": pa.array(findings.issues.known_probability[order], from_pandas=True),
        "information": pa.array(findings.information.information[order]),
    }
    if any(i in findings.issues.cells for i in order):
        columns[CELL] = pa.array([findings.issues.cells.get(int(i)) for i in order], pa.string())
    if samples.rows is not None:
        data = samples.rows.select(columns_first(samples)).take(pa.array(order, pa.int64()))
        for name, values in zip(data.column_names, data.columns, strict=True):
            columns[f"{name} (data)" if name in columns else name] = values
    return pa.table(columns)


def suspects_file(findings: Findings) -> str:
    """Return the suspects as CSV; an apostrophe precedes what a spreadsheet would compute."""
    table = suspects_table(findings)
    columns = zip(*(c.to_pylist() for c in table.columns), strict=True)
    return format_spreadsheet((table.column_names, *(map(_to_cell, row) for row in columns)))


def _to_cell(value: object) -> object:
    """Return a value for a CSV cell: numbers unchanged, "" if missing, else its text."""
    if isinstance(value, int | float):
        return value
    if value is None:
        return ""
    return str(value)
