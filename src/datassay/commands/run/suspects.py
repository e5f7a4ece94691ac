"""The suspects of a table: beside their scores the user's own columns, most telling first."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pyarrow as pa

from datassay.commands.run.findings import Findings
from datassay.commands.run.labels import to_check
from datassay.report.page import Row, Table
from datassay.report.tables import column
from datassay.report.wording import label_text, number, percent, value_text
from datassay.score.checks.columns import columns_first

MOST_ROWS, MOST_COLUMNS = 200, 12
FILE = "suspects.csv"
# What a spreadsheet takes as the start of a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def suspects_shown(findings: Findings) -> Table | None:
    """The suspects of a table, at most 200, the most suspect first.

    Args:
        findings: of the run.

    Returns:
        None of what is no table, and where nothing is to be checked.
    """
    rows = findings.samples.rows
    chosen = to_check(findings)
    if rows is None or not len(chosen):
        return None
    shown, own = chosen[:MOST_ROWS], columns_first(findings.samples)
    scores, values = _scores(findings, shown), _values(rows.select(own[:MOST_COLUMNS]), shown)
    cells = list(zip(*scores.values(), *values, strict=True))
    return Table(
        "Suspects",
        (*scores, *own[:MOST_COLUMNS]),
        tuple(Row(cell[0], tuple(cell[1:])) for cell in cells),
        wraps=False,
        sortable=True,
        note=_note(len(shown), len(chosen), len(own)),
    )


def _scores(findings: Findings, shown: np.ndarray) -> dict[str, list[str]]:
    samples, issues = findings.samples, findings.issues
    information = findings.information.information
    place = np.argsort(np.argsort(information, kind="stable")) / max(1, len(samples) - 1)
    given = [label_text(samples.class_names, samples.y[i]) for i in shown]
    suggested = [label_text(samples.class_names, issues.suggested_label[i]) for i in shown]
    return {
        "id": [str(samples.ids[i]) for i in shown],
        "given": given,
        "suggested": suggested,
        "wrong": [percent(round(float(issues.probability[i]), 2)) for i in shown],
        "rank": [f"{rank:,}" for rank in range(1, len(shown) + 1)],
        "information": [f"{number(float(information[i]))} nats" for i in shown],
        "percentile": [f"{100 * place[i]:.0f}" for i in shown],
    }


def _values(rows: pa.Table, shown: np.ndarray) -> list[list[str]]:
    taken = rows.take(pa.array(shown))
    return [[value_text(v) for v in column.to_pylist()] for column in taken.columns]


def _note(n_shown: int, n_chosen: int, n_columns: int) -> str:
    parts = [
        "Wrong: how likely the given label is wrong. Percentile: of the information, among all "
        "rows. Click a heading to sort."
    ]
    if n_chosen > n_shown:
        parts.append(f"The {n_shown} most suspect of {n_chosen:,}; {FILE} holds all.")
    if n_columns > MOST_COLUMNS:
        parts.append(
            f"The {MOST_COLUMNS} of {n_columns} columns that tell most of the target; {FILE} "
            "holds all."
        )
    return " ".join(parts)


def suspects_table(findings: Findings) -> pa.Table:
    """All suspects with their scores and own columns, the most suspect first.

    Args:
        findings: of the run.

    Returns:
        `id`, `given` and `suggested` in words, `wrong_probability` and `information`; then the
        user's columns, "(data)" behind a name that is taken.
    """
    samples, issues, shown = findings.samples, findings.issues, to_check(findings)
    columns: dict[str, Any] = {
        "id": column(samples.ids[shown]),
        "given": pa.array([label_text(samples.class_names, samples.y[i]) for i in shown]),
        "suggested": pa.array([
            label_text(samples.class_names, issues.suggested_label[i]) for i in shown
        ]),
        "wrong_probability": pa.array(issues.probability[shown]),
        "information": pa.array(findings.information.information[shown]),
    }
    if samples.rows is not None:
        taken = samples.rows.select(columns_first(samples)).take(pa.array(shown, pa.int64()))
        for name, values in zip(taken.column_names, taken.columns, strict=True):
            columns[f"{name} (data)" if name in columns else name] = values
    return pa.table(columns)


def suspects_file(findings: Findings) -> str:
    """The suspects as CSV, safe to open in a spreadsheet.

    Args:
        findings: of the run.

    Returns:
        CSV text, `id` first; an apostrophe stands before a text that a spreadsheet would compute.
    """
    table = suspects_table(findings)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_safe(name) for name in table.column_names])
    columns = (column.to_pylist() for column in table.columns)
    writer.writerows([_safe(value) for value in row] for row in zip(*columns, strict=True))
    return text.getvalue()


def _safe(value: object) -> object:
    if isinstance(value, int | float):
        return value
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text
