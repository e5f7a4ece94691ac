"""Tables and summaries: columns of Parquet files, JSON text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from datassay.data.samples import SampleSet
from datassay.data.targets import as_given
from datassay.score.attribution import Attribution


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a column holds, kept in the metadata of its field in Parquet files.

    Attributes:
        meaning: in words.
        unit: of the values; empty of names.
        sign: what a high value says, and what 0 is where that says something; may be empty.
    """

    meaning: str
    unit: str = ""
    sign: str = ""


def with_meanings(table: pa.Table, meanings: Mapping[str, Meaning]) -> pa.Table:
    """The same table; the fields that are named say in their metadata what they hold.

    Args:
        table: any.
        meanings: column name → what it holds; of columns that the table lacks too.

    Returns:
        The table; each field's metadata has `meaning` and, where there are any, `unit` and `sign`.
    """
    fields = []
    for named in table.schema:
        told = meanings.get(named.name)
        said = (
            {}
            if told is None
            else {
                key: value for key in ("meaning", "unit", "sign") if (value := getattr(told, key))
            }
        )
        fields.append(named.with_metadata({**(named.metadata or {}), **said}) if said else named)
    return table.cast(pa.schema(fields, table.schema.metadata))


def meaning_of(named: pa.Field) -> Meaning:
    """What `with_meanings` said of a column; empty where it said nothing."""
    said = {key.decode(): value.decode() for key, value in (named.metadata or {}).items()}
    return Meaning(*(said.get(key, "") for key in ("meaning", "unit", "sign")))


def standard_json(value: object) -> str:
    """Nested dictionaries, lists and arrays as standard JSON; what is not finite becomes null."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def labels(samples: SampleSet, values: np.ndarray) -> pa.Array:
    """A column of labels, as the user gave them, or of targets."""
    return as_given(values, samples.class_names, samples.label_type)


def column(values: np.ndarray) -> pa.Array:
    """An array [n] or [n, k] as a column; lists for [n, k]."""
    # tolist: plain Python values, so that object arrays and [n, k] targets (lists) work too.
    return pa.array(values.tolist())


def effect_table(attribution: Attribution, queries: SampleSet) -> pa.Table:
    """The largest effects on each query, to join by id.

    Args:
        attribution: of the queries.
        queries: in its order.

    Returns:
        One row a query, direction and rank: `query` (its position), `query_id`, `direction`
        ("raises" or "lowers"), `rank` from 1, `id` of the training sample, `effect` (signed) and
        `of` (what it is the effect on).
    """
    table = attribution.to_table()
    ids = column(queries.ids[table["query"].to_numpy()])
    return table.add_column(1, "query_id", ids).append_column(
        "of", pa.array([attribution.measure] * table.num_rows, pa.string())
    )
