"""A run's files: all of them written, or the earlier ones left as they were."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa

from datassay.errors import SettingError

Part = pa.Table | str | Callable[[Path], object]  # a table, a text, or what writes a file


def write_files(writers: Mapping[str, Callable[[Path], None]], out: Path) -> Path:
    """Complete every file in a temporary folder on the same disk, then move them into place."""
    check_writable(out, writers)
    try:
        # Inside `out` where it exists: it can be a mount, which os.replace cannot move onto.
        parent = out if out.is_dir() else out.parent
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".datassay-", dir=parent) as folder:
            for name, write in writers.items():
                write(Path(folder) / name)
            out.mkdir(exist_ok=True)
            for name in writers:
                os.replace(Path(folder) / name, out / name)
    except OSError as error:
        raise SettingError(
            f"out must be a folder with room for the results; writing to {out} failed: "
            f"{error.strerror or error}. Free space or choose another folder."
        ) from error
    return out


def write_pages(parts: Mapping[str, Part], out: Path) -> Path:
    """Write tables, texts and other files, all of them or none.

    Args:
        parts: file name → a table, written as Parquet, a text, or what writes the file to a path;
            moved into place in this order.
        out: the folder; made where it does not exist.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    write_files({name: partial(write_part, part) for name, part in parts.items()}, out)
    return out / "index.html"


def write_part(part: Part, path: Path) -> None:
    """Write a table as Parquet, a text, or what a callable writes to a path."""
    import pyarrow.parquet as pq

    if isinstance(part, str):
        path.write_text(part, encoding="utf-8")
    elif callable(part):
        part(path)
    else:
        pq.write_table(part, path)


def check_writable(out: Path, names: Iterable[str]) -> None:
    """Refuse, before any work is done, a folder that the results could not go to.

    Args:
        out: the folder, which need not exist yet.
        names: of the files that will go there.

    Raises:
        SettingError: `out` or a folder above it is a file, one of its result names is taken by
            a folder, or nothing can be written there.
    """
    nearest = next(path for path in (out, *out.absolute().parents) if _exists(path))
    if not nearest.is_dir():
        raise SettingError(
            f"out must be a folder; got {out}, but {nearest} is a file. Choose another folder."
        )
    for name in names:
        if (out / name).is_dir():
            raise SettingError(
                f"out must have room for the file {name}; in {out} that is a folder. "
                "Move it away or choose another folder."
            )
    try:
        # Trying is the only honest test: permission bits say nothing to root or on a full disk.
        with tempfile.TemporaryDirectory(prefix=".datassay-", dir=nearest):
            pass
    except OSError as error:
        raise SettingError(
            f"out must be a folder that can be written; got {out}, and {nearest} refuses: "
            f"{error.strerror or error}. Choose another folder or change its permissions."
        ) from error


def _exists(path: Path) -> bool:
    try:
        # lexists: a link to nowhere is in the way too.
        return os.path.lexists(path)
    except ValueError:  # a name that no file can have, such as one with a null byte
        return False
