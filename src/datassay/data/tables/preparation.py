"""The treatment of a table's columns, fitted once and reused on new rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from datassay.data.memory.frames import frame_table
from datassay.data.samples import Column
from datassay.data.source import check_fits
from datassay.data.tables.columns import read_column
from datassay.data.tables.dates import PARTS
from datassay.data.tables.read import NAMED, Choices, ReadColumn, abridge
from datassay.errors import DataError
from datassay.optional import coalesce, text_if
from datassay.results import result

MAX_CATEGORIES = 50
_RARE = "infrequent_sklearn"  # what OneHotEncoder calls the others


class Grid:
    """Columns of many kinds side by side, as ColumnTransformer takes them: X[:, positions]."""

    def __init__(self, columns: Sequence[ReadColumn]):
        self.columns = columns
        data = coalesce(columns[0].values, columns[0].words)
        self.shape = (len(data), len(columns))  # pyrefly: ignore[bad-argument-type] (one of both)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("columns of many kinds are no one array")

    def __getitem__(self, key: tuple[slice, Sequence[int]]) -> np.ndarray:
        """Return columns of one kind, [n, width]: float64, datetime64[us], or objects with None."""
        _, positions = key
        columns = [self.columns[position] for position in positions]
        if columns[0].words is not None:  # equal strings are one object
            coded = [c.words.dictionary_encode() for c in columns if c.words is not None]
            names = [np.array([*c.dictionary.to_pylist(), None], dtype=object) for c in coded]
            codes = [c.indices.fill_null(len(c.dictionary)).to_numpy() for c in coded]
            return np.stack([n[i] for n, i in zip(names, codes, strict=True)], axis=1)
        blocks = [c.values.reshape(len(self), -1) for c in columns if c.values is not None]
        if blocks[0].dtype.kind == "M" or len(blocks) == 1:
            block = np.hstack(blocks)
            if block.dtype.kind in "Mf":
                return block
            return block.astype(np.float64)
        numbers = np.empty((len(self), sum(block.shape[1] for block in blocks)))
        np.concatenate(blocks, axis=1, out=numbers)
        return numbers


@result
class FittedColumns:
    """The fitted treatment by which a table's rows become x.

    Attributes:
        transformer: fitted; its `named_transformers_` are one a kind, of scikit-learn or ours, and
            their columns are positions in `columns`.
        columns: the columns used, in the order in which the transformer takes them.
        feature_names: one per column of x.
    """

    transformer: Any  # scikit-learn's ColumnTransformer
    columns: tuple[Column, ...]
    feature_names: tuple[str, ...]

    def transform(self, frame: Any, /) -> Float[np.ndarray, "n features"]:
        """Return x of new rows by what was fitted: medians, categories and first dates.

        A category that was not there counts with the infrequent ones; where there are none, the
        0/1 columns of that category are all 0.

        Args:
            frame: of pandas, polars or Arrow, with the columns used; others are passed over.

        Returns:
            [n, features], as `feature_names` has them; without the words of text columns.

        Raises:
            DataError: it is no data frame; a column is absent, is of another kind than it was, or
                has missing values and had none.
        """
        table = frame_table(frame)
        if table is None:
            raise DataError(
                "frame must be a data frame of pandas, polars or Arrow; got a "
                f"{type(frame).__name__}. Build one, or read the file into one."
            )
        absent = [c.name for c in self.columns if c.name not in table.column_names]
        if absent:
            raise DataError(
                f"frame must have the columns of the training data; it has no {abridge(absent)}. "
                f"Its columns are {abridge(table.column_names)}."
            )
        read = [self.column_like(table[column.name], column) for column in self.columns]
        refuse(read, "frame")
        x = np.asarray(self.transformer.transform(Grid(read)))
        if x.shape[1] != len(self.feature_names):
            raise DataError(
                f"vectors of frame must have as many numbers as before; they make {x.shape[1]:,} "
                f"features instead of {len(self.feature_names):,}. Cut or pad them."
            )
        if x.dtype.kind == "f":
            return x
        return x.astype(np.float32)

    def column_like(self, values: pa.ChunkedArray, column: Column) -> ReadColumn:
        """Return a column of new rows read as the fitted one of its name, or with its problem."""
        name = column.name
        categorical = ()
        if column.read_as == "category":
            categorical = (name,)
        choices = Choices(keep=(name,), categorical=categorical, earlier={name: column})
        read = read_column(values, name, choices)
        if read.problem:
            return read
        if read.column.read_as == "left out":
            read = _make_missing(column, len(values))
        read_as = read.column.read_as
        n_missing = read.column.missing
        if read_as != column.read_as and not {read_as, column.read_as} <= _NUMBERS:
            form = text_if(column.form, f" as {column.form}")
            problem = (
                f"column {name!r} must hold what it held, {column.read_as}{form}; got {read_as}"
            )
            return replace(read, problem=problem, remedy="Convert it, or load the data anew")
        if n_missing and not column.missing and column.read_as != "category":
            problem = (
                f"column {name!r} must have no missing values, as it had none; {n_missing} "
                f"of {len(values)} are missing" + text_if(read.warning, f" ({read.warning})")
            )
            return replace(read, problem=problem, remedy="Fill them in or drop those rows")
        return read


def _make_missing(column: Column, n: int) -> ReadColumn:
    """Return a column of n missing values, of the type of a fitted column."""
    column = replace(column, missing=n)
    if column.read_as == "category":
        return ReadColumn(column, words=pa.nulls(n, pa.large_string()))
    if column.read_as == "date":
        return ReadColumn(column, np.full(n, np.datetime64("NaT", "us")))
    return ReadColumn(column, np.full(n, np.nan))


def fit_columns(columns: Sequence[ReadColumn]) -> tuple[np.ndarray, FittedColumns]:
    """Return features [n, features] and the fitted encoding of the columns they come from."""
    # In the order of _KINDS: vectors, numbers and booleans as they are; those with missing values
    # (filled by the median or the more frequent one), then a 0/1 column each that says where; dates
    # as their parts; categories as a 0/1 column a value. x is float64, or of a smaller type that
    # holds all, and is held twice while it is made.
    from sklearn.compose import ColumnTransformer  # slow to import

    # Stable: within a kind, the table's order stays.
    columns = sorted(columns, key=lambda read: _KINDS.index(kind_of(read.column)))
    width = sum(map(_count_features, columns))
    grid = Grid(columns)
    check_fits(16.0 * len(grid) * width, f"{width:,} features of {len(grid):,} samples")
    positions = {
        kind: [j for j, c in enumerate(columns) if kind_of(c.column) == kind] for kind in _KINDS
    }
    steps = [(kind, _make_step(kind), positions[kind]) for kind in _KINDS if positions[kind]]
    transformer = ColumnTransformer(steps, sparse_threshold=0)
    x = np.asarray(transformer.fit_transform(grid))
    names: list[str] = []
    treated: list[Column] = []
    for kind, _, idx in steps:
        step = transformer.named_transformers_[kind]
        columns_of_kind = [columns[j] for j in idx]
        names += _name_features(kind, step, columns_of_kind)
        treated += [
            replace(read.column, treatment=_describe_step(kind, step, position, read))
            for position, read in enumerate(columns_of_kind)
        ]
    return x, FittedColumns(transformer, tuple(treated), tuple(names))


def _category_name(name: str, category: object) -> str:
    """Return the name of the 0/1 column of a category, such as "city=Graz"."""
    special_names: dict[object, object] = {None: "missing", _RARE: "infrequent"}
    return f"{name}={special_names.get(category, category)}"


_NUMBERS = {"number", "boolean"}
_KINDS = ["vectors", "numbers", "numbers with missing", "booleans with missing"]
_KINDS += ["dates", "categories"]


def _make_step(kind: str) -> Any:
    """Return the unfitted scikit-learn transformer for one kind of columns."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    from datassay.data.tables.date_parts import DateParts

    if kind == "dates":
        return DateParts()
    if kind.endswith("with missing"):
        strategy = "most_frequent"
        if kind.startswith("numbers"):
            strategy = "median"
        return SimpleImputer(strategy=strategy, add_indicator=True)
    if kind != "categories":
        return "passthrough"
    return OneHotEncoder(
        max_categories=MAX_CATEGORIES,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
        dtype=np.uint8,
        feature_name_combiner=_category_name,  # pyrefly: ignore[unexpected-keyword] (old stubs)
    )


def kind_of(column: Column) -> str:
    """Return which step of the ColumnTransformer a column goes through, such as "dates"."""
    if column.read_as in _NUMBERS:
        if not column.missing:
            return "numbers"
        return f"{column.read_as}s with missing"
    return {"vector": "vectors", "date": "dates", "category": "categories"}[column.read_as]


def _count_features(read: ReadColumn) -> int:
    """Return how many features a column becomes at most."""
    if read.words is not None:
        return min(MAX_CATEGORIES, (read.column.n_values or 0) + 1)
    if read.values is not None and read.values.ndim == 2:
        return read.values.shape[1]
    if read.column.read_as == "date":
        return len(PARTS) + 1
    return 1 + bool(read.column.missing)


def _name_features(kind: str, step: Any, columns: list[ReadColumn]) -> list[str]:
    """Return the names of the features that a fitted step makes."""
    names = [read.column.name for read in columns]
    if kind == "vectors":
        widths = [read.values.shape[1] for read in columns if read.values is not None]
        return [f"{name} {i}" for name, m in zip(names, widths, strict=True) for i in range(m)]
    if kind.endswith("with missing"):
        return names + [f"{names[j]} missing" for j in step.indicator_.features_]
    if kind == "numbers":
        return names
    return list(step.get_feature_names_out(names))


def _describe_step(kind: str, step: Any, position: int, read: ReadColumn) -> str:
    """Return in words what features a column became; position: in its step."""
    column = read.column
    if kind == "vectors":
        return f"{read.values.shape[1]:,} columns"  # pyrefly: ignore[missing-attribute] (vectors have values)
    if kind == "numbers":
        if column.read_as == "number":
            return "as it is"
        return "0 or 1"
    if kind.endswith("with missing"):
        substitute = "more frequent value"
        if column.read_as == "number":
            substitute = "median"
        fill = f"{step.statistics_[position]:.6g}"
        return f"where missing the {substitute}, {fill}, and a column that says where"
    if kind == "dates":
        parts = [PARTS[place] for place in step.parts_[position][:-1]]
        first_date = str(step.first_[position]).removesuffix("T00:00:00.000000")
        indicator = text_if(column.missing, ", a column that says where it is missing")
        return ", ".join([*parts, f"days since {first_date}"]) + indicator
    rare = step.infrequent_categories_[position]
    text = "one 0/1 column a value"
    if rare is not None:
        frequent = f"one for each of the {MAX_CATEGORIES - 1} most frequent values"
        infrequent = "other"
        if len(rare) > 1:
            infrequent = f"{len(rare):,} others"
        text = f"0/1 columns: {frequent}, one for the {infrequent}"
    return text + text_if(column.missing, ", one for missing")


def refuse(columns: Sequence[ReadColumn], name: str) -> None:
    """Raise one error that names all columns with a problem; return if there is none."""
    bad = [c for c in columns if c.problem]
    if not bad:
        return
    problems = "; ".join(c.problem for c in bad[:NAMED])
    unnamed = bad[NAMED:]
    if unnamed:
        problems += f"; and {len(unnamed):,} more: {abridge([c.column.name for c in unnamed])}"
    remedies = ". ".join(dict.fromkeys(c.remedy for c in bad))
    count = text_if(len(bad) > 1, f"{len(bad):,} columns of {name} cannot be used: ")
    rows = text_if("(row" in problems, " Rows count from 0.")
    raise DataError(f"{count}{problems}. {remedies}.{rows}")
