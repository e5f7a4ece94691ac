"""Results in a file: a Parquet table, and with it as JSON what is no column; nothing pickled.

The table is the result's own, as `to_table` gives it, so any reader of Parquet can show it. A field
with a value a row is a column (`Class.field`, unless the table holds the same column already); an
array of another length is in the JSON, its bytes as base64.
"""

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
UNREADABLE = (pa.ArrowException, OSError, ValueError, LookupError, TypeError)


def write_result(result: Any, path: str | os.PathLike[str]) -> None:
    """Write a result to a file, whole or not at all."""
    file_path = Path(path)
    if file_path.exists() and _read_head(file_path) is None:
        raise SettingError(
            f"path must be new or a saved result; {file_path} is something else. Choose another "
            "name."
        )
    table = result.to_table()
    name = type(result).__name__
    columns = {c: table[c] for c in table.column_names}
    file_columns = _Columns(table.num_rows, columns)
    fields = {
        f.name: _encode(getattr(result, f.name), f"{name}.{f.name}", file_columns)
        for f in dataclasses.fields(result)
    }
    head = {"format": FORMAT, "datassay": version("datassay"), "class": name, "fields": fields}
    file_table = pa.table(columns).replace_schema_metadata({KEY: json.dumps(head, allow_nan=False)})
    try:
        write_whole(file_path, partial(pq.write_table, file_table))
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise SettingError(f"path must be writable; {file_path}: {reason}.") from error


def read_result(cls: type, path: str | os.PathLike[str]) -> Any:
    """Read the result of class `cls` that `write_result` wrote."""
    file_path = Path(path)
    if not file_path.is_file():
        raise DataError(
            f"path must be a saved result; there is no file {file_path}. Check the path."
        )
    head = _read_head(file_path)
    if head is None:
        raise DataError(f"path must be a saved result; {file_path} is none. save(path) writes one.")
    if head.get("class") != cls.__name__:
        raise DataError(
            f"{file_path} must hold a {cls.__name__}; it holds a {head.get('class')}. Load it with "
            f"{head.get('class')}.load."
        )
    names = [f.name for f in dataclasses.fields(cls)]
    if head.get("format") != FORMAT or list(head.get("fields", {})) != names:
        raise DataError(
            f"{file_path} must be of this version of datassay, {version('datassay')}; it is of "
            f"{head.get('datassay')}. Load it with that one, or compute and save it again."
        )
    try:
        with _open_file(file_path) as file:
            table = file.read()
        return _build(cls, head["fields"], table, _list_classes(cls))
    except (*UNREADABLE, AttributeError) as error:
        why = " ".join(str(error).split())[:200]
        raise DataError(f"{file_path} is damaged: {why}. Compute and save it again.") from error


def _read_head(path: Path) -> dict[str, Any] | None:
    """Return the JSON in a file's metadata; None if no result was saved there."""
    try:
        with _open_file(path) as file:
            head = json.loads((file.schema_arrow.metadata or {})[KEY])
    except UNREADABLE:
        return None
    if not isinstance(head, dict):
        return None
    return head


def _open_file(path: Path) -> pq.ParquetFile:
    return pq.ParquetFile(path, thrift_string_size_limit=LIMIT, thrift_container_size_limit=LIMIT)


@dataclasses.dataclass(slots=True)
class _Columns:
    """Columns of the file to come."""

    n_rows: int
    columns: dict[str, Any]

    def add(self, array: np.ndarray, name: str) -> str | None:
        """Return the name of the column that holds the array, added if none does yet.

        None if the array has not one value, or one list of values, per row.
        """
        if array.ndim == 0 or len(array) != self.n_rows or array.size == 0:
            return None
        column = pa.array(array.reshape(-1))
        if array.ndim > 1:
            column = pa.FixedSizeListArray.from_arrays(column, array.size // len(array))
        for same_name, values in self.columns.items():
            if values.type == column.type and values.combine_chunks().equals(column):
                return same_name  # NaN differs from itself: such a column stands there twice
        self.columns[name] = pa.chunked_array([column])
        return name


def _encode(value: Any, name: str, file_columns: _Columns) -> Any:
    """Return a field as JSON values; an array may become a column instead."""
    if isinstance(value, torch.Tensor):
        return {"tensor": _encode(value.detach().cpu().numpy(), name, file_columns)}
    if isinstance(value, np.ndarray):
        return _encode_array(value, name, file_columns)
    if isinstance(value, np.generic):
        return {"scalar": _encode_array(np.asarray(value), name, file_columns)}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}  # JSON has no inf or nan
    if isinstance(value, tuple | list):
        items = [_encode(v, f"{name}.{i}", file_columns) for i, v in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, Mapping):
        pairs = value.items()
        return {"dict": [[_encode(k, name, file_columns), _encode(v, f"{name}.{k}", file_columns)]
                         for k, v in pairs]}  # fmt: skip
    if isinstance(value, pa.Table):
        return {"table": value.column_names}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        encoded = {k: _encode(v, f"{name}.{k}", file_columns) for k, v in members.items()}
        return {"class": type(value).__name__, "fields": encoded}
    raise SettingError(
        f"save keeps numbers, words and arrays; {name} is a {type(value).__name__}. Keep the rows "
        "alone with to_table(), and a network by its own state_dict()."
    )


def _encode_array(array: np.ndarray, name: str, file_columns: _Columns) -> dict[str, Any]:
    """Return an array as JSON values: a column's name, words, or base64 of its bytes."""
    is_words = array.dtype.kind in WORDS and all(isinstance(v, str) for v in array.flat)
    if array.dtype.kind not in PLAIN and not is_words:
        raise SettingError(f"save keeps numbers and words; {name} holds {array.dtype}.")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # Arrow takes no other order
    head = {"dtype": array.dtype.str, "shape": array.shape}
    if (column := file_columns.add(array, name)) is not None:
        return {"array": {"column": column, **head}}
    if is_words:
        return {"array": {"words": array.reshape(-1).tolist(), **head}}
    content = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"array": {"bytes": content, **head}}


def _build(cls: type, fields: dict[str, Any], table: pa.Table, classes: dict[str, type]) -> Any:
    """Return an instance of a dataclass from its encoded fields."""
    values = {k: _decode(v, table, classes) for k, v in fields.items()}
    return cls(**values)


def _decode(value: Any, table: pa.Table, classes: dict[str, type]) -> Any:
    """Return the value from the JSON that `_encode` made of it."""
    if isinstance(value, list):
        return [_decode(v, table, classes) for v in value]
    if not isinstance(value, dict):
        return value
    if "class" in value:
        return _build(classes[value["class"]], value["fields"], table, classes)
    ((kind, content),) = value.items()
    if kind == "float":
        return float(content)
    if kind == "table":
        return table.select(content).replace_schema_metadata(None)
    if kind == "array":
        return _decode_array(content, table)
    if kind == "dict":
        return {_decode(k, table, classes): _decode(v, table, classes) for k, v in content}
    decoded = _decode(content, table, classes)
    if kind == "tuple":
        return tuple(decoded)
    if kind == "tensor":
        return torch.from_numpy(np.array(decoded))
    return decoded[()]  # kind "scalar": an array without axes


def _decode_array(content: dict[str, Any], table: pa.Table) -> np.ndarray:
    """Return the array that `_encode_array` described, its values from the table."""
    dtype = np.dtype(content["dtype"])
    shape = tuple(content["shape"])
    column = None
    if "column" in content:
        column = table[content["column"]].combine_chunks()
    if column is None:
        has_words = "words" in content
    else:
        has_words = _holds_words(column.type)
    if dtype.kind not in PLAIN + WORDS or has_words != (dtype.kind in WORDS):
        raise ValueError(f"an array of {dtype}")
    if "bytes" in content:
        flat = np.frombuffer(base64.b64decode(content["bytes"], validate=True), dtype)
    elif column is None:
        flat = np.array(content["words"], dtype)
    else:
        if pa.types.is_fixed_size_list(column.type):
            column = column.flatten()
        flat = column.to_numpy(zero_copy_only=False).astype(dtype)
    return flat.reshape(shape).copy()


def _holds_words(kind: pa.DataType) -> bool:
    """Return whether a column's values, or the items of its lists, are strings."""
    if pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _list_classes(cls: type) -> dict[str, type]:
    """Return name → dataclass for all dataclasses in a result's fields, at any depth."""
    class_by_name: dict[str, type] = {}
    unvisited = [cls]
    while unvisited:
        for hint in get_type_hints(unvisited.pop()).values():
            for member in _members(hint):
                is_ours = isinstance(member, type) and dataclasses.is_dataclass(member)
                if is_ours and member.__name__ not in class_by_name:
                    class_by_name[member.__name__] = member
                    unvisited.append(member)
    return class_by_name


def _members(hint: Any) -> list[Any]:
    """Return the types that an annotation is made of: of dict[str, A | None], str, A and None."""
    return [m for arg in get_args(hint) for m in _members(arg)] or [hint]
