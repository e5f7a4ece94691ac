"""The fitted treatment of a table's columns as JSON values, and back: nothing is pickled.

What was learned of each column is small: a median, the categories, the first date. Rows made of
that are fitted again by the same code, so that both treatments are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datassay.data.samples import Column
from datassay.data.tables.preparation import FittedColumns, fit_columns, kind_of
from datassay.data.tables.read import ReadColumn


def described(fitted: FittedColumns) -> dict[str, Any]:
    """Columns, names of features and what was learned of each column, as JSON values."""
    named, places = fitted.transformer.named_transformers_, dict[str, int]()
    learned = []
    for column in fitted.columns:
        kind = kind_of(column)
        place = places[kind] = places.get(kind, -1) + 1
        learned.append(_learned(kind, named[kind], place, column, fitted.feature_names))
    columns = [asdict(column) for column in fitted.columns]
    return {"columns": columns, "features": list(fitted.feature_names), "learned": learned}


def _learned(
    kind: str, maker: Any, place: int, column: Column, features: tuple[str, ...]
) -> dict[str, Any]:
    if kind == "vectors":
        named = (f"{column.name} {i}" in features for i in range(len(features)))
        return {"width": sum(named)}
    if kind.endswith("with missing"):
        return {"fill": float(maker.statistics_[place])}
    if kind == "categories":
        rare = maker.infrequent_categories_[place]
        rare = [] if rare is None else list(rare)
        often = [one for one in maker.categories_[place] if one not in rare]
        return {"often": often, "rare": rare}
    if kind != "dates":
        return {}
    return {
        "first": int(maker.first_[place].astype("datetime64[us]").astype(np.int64)),
        "parts": maker.parts_[place].tolist(),
        "medians": maker.medians_[place].tolist(),
        "had_missing": maker.had_missing_[place],
    }


def restored(stored: Mapping[str, Any]) -> FittedColumns:
    """The treatment that was described; ValueError where its parts contradict each other."""
    columns = tuple(Column(**one) for one in stored["columns"])
    n = max(2, *(_rows_needed(one) for one in stored["learned"]))
    pairs = list(zip(columns, stored["learned"], strict=True))
    made = [_made(column, one, n) for column, one in pairs]
    _, again = fit_columns(made)
    dates = [one for column, one in pairs if kind_of(column) == "dates"]
    if dates:  # medians of dates are not those of the rows made up here
        maker = again.transformer.named_transformers_["dates"]
        maker.first_ = np.array([one["first"] for one in dates], "datetime64[us]")
        maker.parts_ = [np.array(one["parts"], np.int64) for one in dates]
        maker.medians_ = [np.array(one["medians"], np.float64) for one in dates]
        maker.had_missing_ = [bool(one["had_missing"]) for one in dates]
    names = tuple(map(str, stored["features"]))
    order = [column.name for column in again.columns]
    if order != [c.name for c in columns] or (not dates and again.feature_names != names):
        raise ValueError("its columns contradict each other.")
    return FittedColumns(again.transformer, columns, names)


def _rows_needed(learned: Mapping[str, Any]) -> int:
    # Where some categories count as one, each of the others must be more frequent than those.
    return 2 * len(learned.get("often", ())) + len(learned.get("rare", ())) + 1


def _made(column: Column, learned: Mapping[str, Any], n: int) -> ReadColumn:
    """Rows of which the same is learned."""
    kind = kind_of(column)
    if kind == "categories":
        words = [*learned["often"] * 2, *learned["rare"]]
        words += [learned["often"][0]] * (n - len(words))
        return ReadColumn(column, words=pa.array(words, pa.large_string()))
    if kind == "dates":
        dates = np.full(n, learned["first"], np.int64).astype("datetime64[us]")
        dates[-1] = np.datetime64("NaT") if learned["had_missing"] else dates[-1]
        return ReadColumn(column, dates)
    if kind == "vectors":
        return ReadColumn(column, np.zeros((n, learned["width"])))
    values = np.full(n, learned.get("fill", 0.0))
    values[-1] = np.nan if "fill" in learned else 0.0
    return ReadColumn(column, values)


def unseen(fitted: FittedColumns, table: pa.Table) -> list[str]:
    """What to say of categories that a table has and the fitted rows had not."""
    lines, chosen = [], [c for c in fitted.columns if kind_of(c) == "categories"]
    makers = fitted.transformer.named_transformers_
    for place, column in enumerate(chosen):
        words = fitted.column_like(table[column.name], column).words
        known = pa.array(makers["categories"].categories_[place].tolist(), pa.large_string())
        counts = pc.value_counts(pc.drop_null(words)).flatten()
        values, times = (each.filter(pc.invert(pc.is_in(counts[0], known))) for each in counts)
        if len(values):
            rows, some = pc.sum(times).as_py(), "category" if len(values) == 1 else "categories"
            lines.append(
                f"column {column.name!r} holds {len(values):,} {some} that training did not have, "
                f"in {rows:,} row{'s' * (rows > 1)}, the first {values[0].as_py()[:40]!r}"
            )
    return lines
