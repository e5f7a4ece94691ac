"""Tables and summaries: columns of Parquet files, JSON text."""

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa

from datassay.data.samples import SampleSet
from datassay.data.targets import as_given
from datassay.optional import text_if
from datassay.report.wording import gain_numbers, in_points
from datassay.results import with_meanings
from datassay.score.effects import EFFECTS, Attribution


def standard_json(value: object) -> str:
    """Return nested dicts, lists and arrays as standard JSON; non-finite becomes null."""
    return json.dumps(_to_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _to_plain(value: object) -> object:
    """Return a value as JSON types; NaN and infinity become None."""
    if isinstance(value, dict):
        return {str(k): _to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return _to_plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def labels(samples: SampleSet, values: np.ndarray) -> pa.Array:
    """Return a column of labels as the user gave them, or of targets."""
    return as_given(values, samples.class_names, samples.label_type)


def column(values: np.ndarray) -> pa.Array:
    """Return an array [n] or [n, k] as a column; lists for [n, k]."""
    # tolist: plain Python values, so that object arrays and [n, k] targets (lists) work too.
    return pa.array(values.tolist())


def effect_table(attribution: Attribution, queries: SampleSet) -> pa.Table:
    """Return a table of the largest effects on each query, to join by id."""
    table = attribution.to_table()
    ids = column(queries.ids[table["query"].to_numpy()])
    measures = pa.array([attribution.measure] * table.num_rows, pa.string())
    table = table.add_column(1, "query_id", ids).append_column("of", measures)
    return with_meanings(table, EFFECTS)


def gain_cells(row: Any, metric: str) -> tuple[str, str, str, str]:
    """Return the score before and after, the change and its 95 % interval, each in words."""
    change, low, high = gain_numbers(row.gain, row.low, row.high, metric)
    is_share = in_points(metric)
    scores = [f"{100 * v:.1f} %" if is_share else f"{v:.3f}" for v in (row.before, row.after)]
    return scores[0], scores[1], change + text_if(is_share, " points"), f"{low} to {high}"
