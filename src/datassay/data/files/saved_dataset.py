"""Folders that `save_to_disk` of Hugging Face's datasets wrote, as tables; without that library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from datassay.data.files.arrow import read_arrow
from datassay.data.source import reading
from datassay.errors import DataError

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def is_saved_dataset(folder: Path) -> bool:
    """Whether a folder is one data set, or several splits, that `save_to_disk` wrote.

    Args:
        folder: any.

    Returns:
        By its files alone.
    """
    return (folder / STATE).is_file() or (folder / SPLITS).is_file()


def read_saved_dataset(folder: Path) -> pa.Table:
    """The table in a folder, labels of classes by their names.

    Args:
        folder: of one data set.

    Returns:
        The table; a label of −1, which means none, is missing.

    Raises:
        DataError: it holds several splits, or it is damaged.
        ValueError: never; it becomes a DataError.
    """
    table = stored_dataset(folder)
    for name, feature in _features(folder).items():
        if feature.get("_type") != "ClassLabel" or name not in table.column_names:
            continue
        words = pa.array([str(word) for word in feature["names"]], pa.large_string())
        codes = table[name].cast(pa.int64())
        known = pc.if_else(pc.less(codes, 0), None, codes)  # type: ignore[attr-defined]
        with reading(folder / INFO):
            if (pc.max(known).as_py() or 0) >= len(words):  # type: ignore[attr-defined]
                raise ValueError(f"column {name!r} has labels beyond its {len(words)} names")
        column = words.take(known.combine_chunks())
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def stored_dataset(folder: Path) -> pa.Table:
    """The table as it is stored.

    Args:
        folder: of one data set.

    Returns:
        The table, all of its files one behind the other.
    """
    return pa.concat_tables([table for _, table in data_files(folder)])


def data_files(folder: Path) -> list[tuple[Path, pa.Table]]:
    """The files of a data set, with the rows that each holds.

    Args:
        folder: of one data set.

    Returns:
        Path and table of each, in order.

    Raises:
        DataError: it holds several splits, or it is damaged.
        ValueError: never; it becomes a DataError.
    """
    if (folder / SPLITS).is_file():
        with reading(folder / SPLITS):
            splits = json.loads((folder / SPLITS).read_text(encoding="utf-8"))["splits"]
        raise DataError(
            f"{folder} must be one data set; it holds {', '.join(map(str, splits))}. Name one of "
            f"them, such as {folder / str(splits[0])}."
        )
    with reading(folder / STATE):
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        files = [folder / Path(part["filename"]).name for part in state.get("_data_files", ())]
        if not files or state.get("_indices_data_files"):
            raise ValueError("it names no files of data, or rows that are chosen by indices")
    found = []
    for file in files:
        with reading(file):
            found.append((file, read_arrow(file)))
    return found


def _features(folder: Path) -> dict[str, dict[str, Any]]:
    """What the columns are."""
    if not (folder / INFO).is_file():
        return {}
    with reading(folder / INFO):
        features = json.loads((folder / INFO).read_text(encoding="utf-8")).get("features") or {}
    return {name: f for name, f in features.items() if isinstance(f, dict)}
