"""A run's files: all of them written, or the earlier ones left as they were."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from datassay.errors import SettingError

Part = pa.Table | str | Callable[[Path], object]  # a table, a text, or what writes a file


def write_pages(parts: Mapping[str, Part], out: Path) -> Path:
    """Write tables, texts and other files, all of them or none.

    Every file is completed in a temporary folder on the same disk, then moved into place. Where
    one cannot be moved, those that stood there before are put back.

    Args:
        parts: file name → a table, written as Parquet, a text, or what writes the file to a path;
            moved into place in this order.
        out: the folder; made where it does not exist.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    check_writable(out, parts)
    try:
        # Inside `out` where it exists: it can be a mount, which os.replace cannot move onto.
        parent = out if out.is_dir() else out.parent
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".datassay-", dir=parent) as folder:
            new, old = Path(folder, "new"), Path(folder, "old")
            new.mkdir()
            old.mkdir()
            for name, part in parts.items():
                write_part(part, new / name)
            out.mkdir(exist_ok=True)
            _replace(new, old, out, parts)
    except OSError as error:
        raise SettingError(
            f"out must be a folder with room for the results; writing to {out} failed: "
            f"{error.strerror or error}. Free space or choose another folder."
        ) from error
    return out / "index.html"


def _replace(new: Path, old: Path, out: Path, names: Iterable[str]) -> None:
    """Move every new file into place; after a failure the old ones stand there again."""
    touched = []
    try:
        for name in names:
            touched.append(name)
            if os.path.lexists(out / name):
                os.replace(out / name, old / name)
            os.replace(new / name, out / name)
    except BaseException:  # an interruption, too
        for name in touched:
            if os.path.lexists(old / name):
                os.replace(old / name, out / name)
            elif not os.path.lexists(new / name):
                (out / name).unlink(missing_ok=True)
        raise


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


def check_outputs(out: Path, names: Iterable[str], inputs: Iterable[object]) -> None:
    """Refuse results that would replace a file that one of the inputs, texts and paths, names."""
    results = {os.path.realpath(out / name) for name in names}
    for given in inputs:
        if isinstance(given, str | Path) and os.path.realpath(given) in results:
            raise SettingError(
                f"out must not replace what is read; {given} is an input, and the results of the "
                f"same name would go to {out}. Choose another folder."
            )
