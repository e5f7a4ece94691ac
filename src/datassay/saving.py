"""Results in a file: a Parquet table, and with it as JSON what is no column; nothing pickled.

The table is the result's own, as `to_table` gives it, so any reader of Parquet can show it. A field
with a value a row is a column (`Class.field`, unless the table holds the same column already); an
array of another length is in the JSON, its bytes as base64.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import os
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from datassay.errors import DataError, SettingError
from datassay.store.atomic import write_whole

KEY = b"datassay"
FORMAT = 1
LIMIT = 2**31 - 1  # bytes of the JSON; Arrow's own is 100 MB
PLAIN = "biuf"  # kinds of arrays that are stored as their bytes
WORDS = "UO"


def write_result(result: Any, path: str | os.PathLike[str]) -> None:
    """Write a result, whole or not at all."""
    folder = Path(path)
    if folder.exists() and _saved(folder) is None:
        raise SettingError(
            f"path must be new or a saved result; {folder} is something else. Choose another name."
        )
    table = result.to_table()
    name = type(result).__name__
    columns = {c: table[c] for c in table.column_names}
    kept = _Columns(table.num_rows, columns)
    fields = {
        f.name: _encoded(getattr(result, f.name), f"{name}.{f.name}", kept)
        for f in dataclasses.fields(result)
    }
    head = {"format": FORMAT, "datassay": version("datassay"), "class": name, "fields": fields}
    whole = pa.table(columns).replace_schema_metadata({KEY: json.dumps(head, allow_nan=False)})
    try:
        write_whole(folder, partial(pq.write_table, whole))
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise SettingError(f"path must be writable; {folder}: {reason}.") from error


def read_result(cls: type, path: str | os.PathLike[str]) -> Any:
    """The result that `write_result` wrote."""
    folder = Path(path)
    if not folder.is_file():
        raise DataError(f"path must be a saved result; there is no file {folder}. Check the path.")
    head = _saved(folder)
    if head is None:
        raise DataError(f"path must be a saved result; {folder} is none. save(path) writes one.")
    if head.get("class") != cls.__name__:
        raise DataError(
            f"{folder} must hold a {cls.__name__}; it holds a {head.get('class')}. Load it with "
            f"{head.get('class')}.load."
        )
    names = [f.name for f in dataclasses.fields(cls)]
    if head.get("format") != FORMAT or list(head.get("fields", {})) != names:
        raise DataError(
            f"{folder} must be of this version of datassay, {version('datassay')}; it is of "
            f"{head.get('datassay')}. Load it with that one, or compute and save it again."
        )
    try:
        with _opened(folder) as file:
            table = file.read()
        return _made(cls, head["fields"], table, _classes(cls))
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        raise DataError(
            f"{folder} is damaged: {' '.join(str(error).split())[:200]}. Compute and save it again."
        ) from error


def _saved(path: Path) -> dict[str, Any] | None:
    """What stands in the file's head; None where it is no saved result."""
    try:
        with _opened(path) as file:
            head = json.loads((file.schema_arrow.metadata or {})[KEY])
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError):
        return None
    return head if isinstance(head, dict) else None


def _opened(path: Path) -> pq.ParquetFile:
    return pq.ParquetFile(path, thrift_string_size_limit=LIMIT, thrift_container_size_limit=LIMIT)


@dataclasses.dataclass(slots=True)
class _Columns:
    """Columns of the file to come."""

    n_rows: int
    columns: dict[str, Any]

    def add(self, array: np.ndarray, name: str) -> str | None:
        """Name of the column that holds the array; None where it has not one value per row."""
        if array.ndim == 0 or len(array) != self.n_rows or array.size == 0:
            return None
        column = pa.array(array.reshape(-1))
        if array.ndim > 1:
            column = pa.FixedSizeListArray.from_arrays(column, array.size // len(array))
        for known, values in self.columns.items():
            if values.type == column.type and values.combine_chunks().equals(column):
                return known  # NaN differs from itself: such a column stands there twice
        self.columns[name] = pa.chunked_array([column])
        return name


def _encoded(value: Any, name: str, kept: _Columns) -> Any:
    """A field as JSON values; arrays may become columns."""
    if isinstance(value, torch.Tensor):
        return {"tensor": _encoded(value.detach().cpu().numpy(), name, kept)}
    if isinstance(value, np.ndarray):
        return _of_array(value, name, kept)
    if isinstance(value, np.generic):
        return {"scalar": _of_array(np.asarray(value), name, kept)}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple | list):
        items = [_encoded(v, f"{name}.{i}", kept) for i, v in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, Mapping):
        pairs = value.items()
        return {"dict": [[_encoded(k, name, kept), _encoded(v, f"{name}.{k}", kept)]
                         for k, v in pairs]}  # fmt: skip
    if isinstance(value, pa.Table):
        return {"table": value.column_names}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        each = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        encoded = {k: _encoded(v, f"{name}.{k}", kept) for k, v in each.items()}
        return {"class": type(value).__name__, "fields": encoded}
    raise SettingError(
        f"save keeps numbers, words and arrays; {name} is a {type(value).__name__}. Keep the rows "
        "alone with to_table(), and a network by its own state_dict()."
    )


def _of_array(array: np.ndarray, name: str, kept: _Columns) -> dict[str, Any]:
    is_words = array.dtype.kind in WORDS and all(isinstance(v, str) for v in array.flat)
    if array.dtype.kind not in PLAIN and not is_words:
        raise SettingError(f"save keeps numbers and words; {name} holds {array.dtype}.")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # Arrow takes no other order
    head = {"dtype": array.dtype.str, "shape": array.shape}
    if (column := kept.add(array, name)) is not None:
        return {"array": {"column": column, **head}}
    if is_words:
        return {"array": {"words": array.reshape(-1).tolist(), **head}}
    content = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"array": {"bytes": content, **head}}


def _made(cls: type, fields: dict[str, Any], table: pa.Table, classes: dict[str, type]) -> Any:
    values = {k: _decoded(v, table, classes) for k, v in fields.items()}
    return cls(**values)


def _decoded(value: Any, table: pa.Table, classes: dict[str, type]) -> Any:
    if isinstance(value, list):
        return [_decoded(v, table, classes) for v in value]
    if not isinstance(value, dict):
        return value
    if "class" in value:
        return _made(classes[value["class"]], value["fields"], table, classes)
    ((kind, held),) = value.items()
    if kind == "float":
        return float(held)
    if kind == "table":
        return table.select(held).replace_schema_metadata(None)
    if kind == "array":
        return _array(held, table)
    if kind == "dict":
        return {_decoded(k, table, classes): _decoded(v, table, classes) for k, v in held}
    inner = _decoded(held, table, classes)
    if kind == "tuple":
        return tuple(inner)
    return torch.from_numpy(np.array(inner)) if kind == "tensor" else inner[()]


def _array(held: dict[str, Any], table: pa.Table) -> np.ndarray:
    dtype, shape = np.dtype(held["dtype"]), tuple(held["shape"])
    column = table[held["column"]].combine_chunks() if "column" in held else None
    has_words = "words" in held if column is None else _holds_words(column.type)
    if dtype.kind not in PLAIN + WORDS or has_words != (dtype.kind in WORDS):
        raise ValueError(f"an array of {dtype}")
    if "bytes" in held:
        flat = np.frombuffer(base64.b64decode(held["bytes"], validate=True), dtype)
    elif column is None:
        flat = np.array(held["words"], dtype)
    else:
        column = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
        flat = column.to_numpy(zero_copy_only=False).astype(dtype)
    return flat.reshape(shape).copy()


def _holds_words(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_fixed_size_list(kind) else kind
    return pa.types.is_string(inner) or pa.types.is_large_string(inner)


def _classes(cls: type) -> dict[str, type]:
    """The dataclasses that a result's fields may hold, at any depth: no file names another."""
    results: dict[str, type] = {}
    waiting = [cls]
    while waiting:
        for hint in get_type_hints(waiting.pop()).values():
            for member in _members(hint):
                is_ours = isinstance(member, type) and dataclasses.is_dataclass(member)
                if is_ours and member.__name__ not in results:
                    results[member.__name__] = member
                    waiting.append(member)
    return results


def _members(hint: Any) -> list[Any]:
    return [m for arg in get_args(hint) for m in _members(arg)] or [hint]
