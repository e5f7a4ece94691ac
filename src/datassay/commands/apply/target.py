"""The folder that data are given back in: a whole new one, or the earlier one as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datassay.data.back.changelog import read_changelog
from datassay.data.back.origin import source_digest
from datassay.data.format import suffixes
from datassay.errors import DataError, SettingError
from datassay.store.atomic import whole_folder
from datassay.store.outputs import check_outputs, check_writable


def check_target(out: Path, data: str, decisions: Path, *, overwrite: bool) -> None:
    """Refuse, before any work is done, a folder that the data could not go to."""
    if out.name.lower().endswith(suffixes()) and not out.is_dir():
        raise SettingError(
            f"out must name a folder, in which the data have their own name; got {out}. Give "
            f"--out {out.with_suffix('')}."
        )
    check_outputs(out, (Path(data).name,), (data, decisions), (data,))
    real = Path(os.path.realpath(out))
    if lost := [p for p in (data, decisions) if real in Path(os.path.realpath(p)).parents]:
        raise SettingError(
            f"out must not replace what is read; {lost[0]} lies in {out}. Choose another folder."
        )
    check_writable(out, ())
    if not out.is_dir() or not any(out.iterdir()):
        return
    try:
        log = read_changelog(out)
    except DataError:
        log = None
    if log is None:
        raise SettingError(
            f"out must be a new folder, or one that datassay apply made; {out} holds something "
            "else. Choose another folder."
        )
    if not overwrite and source_digest(out) != log.digest_after:
        raise SettingError(
            f"out must not replace data that were changed since datassay apply made them; {out} "
            "holds such. Choose another folder, or give --overwrite."
        )


@contextmanager
def placed(out: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `out` once it is whole."""
    try:
        with whole_folder(Path(os.path.abspath(out))) as folder:
            yield folder
    except OSError as error:
        raise SettingError(
            f"out must be a folder with room for the data; writing to {out} failed: "
            f"{error.strerror or error}. Free space or choose another folder."
        ) from error
