"""The fitted treatment of a table's columns as JSON values, and back: nothing is pickled.

What was learned of each column is small: a median, the categories, the first date. Rows made of
that are fitted again by the same code, so that both treatments are one.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datassay.data.samples import Column
from datassay.data.tables.preparation import FittedColumns, fit_columns, kind_of
from datassay.data.tables.read import ReadColumn
from datassay.optional import coalesce, inflect, text_if


def describe_treatment(fitted: FittedColumns) -> dict[str, Any]:
    """Return fitted columns as JSON values, from which `restore_treatment` rebuilds them."""
    steps = fitted.transformer.named_transformers_
    positions = dict[str, int]()
    learned = []
    for column in fitted.columns:
        kind = kind_of(column)
        position = positions.get(kind, 0)
        positions[kind] = position + 1
        learned.append(_describe_column(kind, steps[kind], position, column, fitted.feature_names))
    columns = [asdict(column) for column in fitted.columns]
    return {"columns": columns, "features": list(fitted.feature_names), "learned": learned}


def _describe_column(
    kind: str, step: Any, position: int, column: Column, features: tuple[str, ...]
) -> dict[str, Any]:
    """Return what was fitted of one column as JSON values: fill, categories, first date."""
    if kind == "vectors":
        is_part = (f"{column.name} {i}" in features for i in range(len(features)))
        return {"width": sum(is_part)}
    if kind.endswith("with missing"):
        return {"fill": float(step.statistics_[position])}
    if kind == "categories":
        rare = list(coalesce(step.infrequent_categories_[position], []))
        frequent = [category for category in step.categories_[position] if category not in rare]
        return {"often": frequent, "rare": rare}
    if kind != "dates":
        return {}
    return {
        "first": int(step.first_[position].astype("datetime64[us]").astype(np.int64)),
        "parts": step.parts_[position].tolist(),
        "medians": step.medians_[position].tolist(),
        "had_missing": step.had_missing_[position],
    }


def restore_treatment(stored: Mapping[str, Any]) -> FittedColumns:
    """Return fitted columns from `describe_treatment`; raise ValueError if inconsistent."""
    columns = tuple(Column(**fields) for fields in stored["columns"])
    n = max(2, *map(_rows_needed, stored["learned"]))
    pairs = list(zip(columns, stored["learned"], strict=True))
    _, refitted = fit_columns([_make_rows(column, learned, n) for column, learned in pairs])
    dates = [learned for column, learned in pairs if kind_of(column) == "dates"]
    if dates:  # medians of dates are not those of the rows made up here
        step = refitted.transformer.named_transformers_["dates"]
        step.first_ = np.array([d["first"] for d in dates], "datetime64[us]")
        step.parts_ = [np.array(d["parts"], np.int64) for d in dates]
        step.medians_ = [np.array(d["medians"], np.float64) for d in dates]
        step.had_missing_ = [bool(d["had_missing"]) for d in dates]
    names = tuple(map(str, stored["features"]))
    order = [column.name for column in refitted.columns]
    if order != [c.name for c in columns] or (not dates and refitted.feature_names != names):
        raise ValueError("its columns contradict each other.")
    return FittedColumns(refitted.transformer, columns, names)


def _rows_needed(learned: Mapping[str, Any]) -> int:
    """Return how many made-up rows teach as much of a column."""
    # Where some categories count as one, each of the others must be more frequent than those.
    return 2 * len(learned.get("often", ())) + len(learned.get("rare", ())) + 1


def _make_rows(column: Column, learned: Mapping[str, Any], n: int) -> ReadColumn:
    """Return n synthetic values of a column to which the same encoding would be fitted."""
    kind = kind_of(column)
    if kind == "categories":
        words = [*learned["often"] * 2, *learned["rare"]]
        words += [learned["often"][0]] * (n - len(words))
        return ReadColumn(column, words=pa.array(words, pa.large_string()))
    if kind == "dates":
        dates = np.full(n, learned["first"], np.int64).astype("datetime64[us]")
        if learned["had_missing"]:
            dates[-1] = np.datetime64("NaT")
        return ReadColumn(column, dates)
    if kind == "vectors":
        return ReadColumn(column, np.zeros((n, learned["width"])))
    values = np.full(n, learned.get("fill", 0.0))
    values[-1] = 0.0
    if "fill" in learned:
        values[-1] = np.nan
    return ReadColumn(column, values)


def describe_unseen(fitted: FittedColumns, table: pa.Table) -> list[str]:
    """Return a line for each column of the table with categories unseen when fitted."""
    lines = []
    columns = [c for c in fitted.columns if kind_of(c) == "categories"]
    steps = fitted.transformer.named_transformers_
    for position, column in enumerate(columns):
        words = fitted.column_like(table[column.name], column).words
        fitted_values = steps["categories"].categories_[position].tolist()
        values, counts = pc.value_counts(pc.drop_null(words)).flatten()
        is_new = pc.invert(pc.is_in(values, pa.array(fitted_values, pa.large_string())))
        values = values.filter(is_new)
        n_rows = pc.sum(counts.filter(is_new)).as_py()
        if len(values):
            noun = inflect(len(values), "category", "categories")
            lines.append(
                f"column {column.name!r} holds {len(values):,} {noun} that training did not have, "
                f"in {n_rows:,} row{text_if(n_rows > 1, 's')}, the first {values[0].as_py()[:40]!r}"
            )
    return lines
