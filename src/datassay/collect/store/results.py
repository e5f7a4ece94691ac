"""Finished results of long work, one file each, so that an interrupted call can resume."""

from __future__ import annotations

import json
import logging
import os
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from datassay.collect.store.location import is_local, normal
from datassay.collect.store.manifest import claim, writing
from datassay.errors import DataError, SettingError

logger = logging.getLogger(__name__)

MANIFEST = "run.json"
# Entry of each file that holds its own name, so that one moved to another's place is noticed.
NAME = "__name__"


class ResultStore:
    """Named groups of arrays, in memory or in a folder of .npz files.

    A file is written beside its place and moved there, so a name stands for a whole piece or for
    nothing; a file that does not read (its checksum differs) counts as missing and is logged.
    """

    def __init__(self, folder: str | Path | None, manifest: Mapping[str, object]):
        """Open or create.

        Args:
            folder: where to keep the pieces; None keeps them in memory.
            manifest: what the pieces belong to, plain JSON values.

        Raises:
            SettingError: the folder holds the pieces of something else, is no store, or is not on
                this machine.
            DataError: its manifest is damaged, or it can be neither read nor written.
        """
        self._held: dict[str, dict[str, np.ndarray]] = {}
        self._folder = None if folder is None else _local_path(folder)
        if self._folder is not None:
            create = partial(_create, self._folder, manifest)
            claim(self._folder, manifest, MANIFEST, _unpacked, create)

    def __contains__(self, name: str) -> bool:
        if name not in self._held and self._folder is not None:
            arrays = _read(self._folder / f"{name}.npz")
            if arrays is not None:
                self._held[name] = arrays
        return name in self._held

    def get(self, name: str) -> dict[str, np.ndarray]:
        """The piece of this name.

        Returns:
            Its arrays by name.

        Raises:
            KeyError: there is none.
        """
        if name not in self:
            raise KeyError(name)
        return self._held[name]

    def put(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Store a piece; it is on disk when this returns.

        Args:
            name: of the piece.
            arrays: by name.

        Raises:
            DataError: the folder is full or not writable.
        """
        self._held[name] = dict(arrays)
        if self._folder is None:
            return
        part = self._folder / f".{name}.{os.getpid()}.part"
        try:
            with writing(self._folder):
                with part.open("wb") as file:
                    np.savez(file, **{NAME: np.array(name)}, **self._held[name])  # pyright: ignore[reportArgumentType]
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(part, self._folder / f"{name}.npz")
        except DataError:
            part.unlink(missing_ok=True)
            raise

    def kept(
        self, name: str, compute: Callable[[], Mapping[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """The piece of this name; computed and stored if it is missing.

        Args:
            name: of the piece.
            compute: gives its arrays by name.

        Returns:
            Its arrays by name.
        """
        if name not in self:
            self.put(name, compute())
        return self.get(name)


def _local_path(folder: str | Path) -> Path:
    if not is_local(folder):
        raise SettingError(f"store must be a folder on this machine; got {folder}.")
    return Path(normal(folder))


def _unpacked(values: Any) -> dict[str, Any]:
    return {"run": {**values}}


def _create(folder: Path, run: Mapping[str, object]) -> dict[str, Any]:
    part = folder / f".{MANIFEST}.part"
    folder.mkdir(parents=True, exist_ok=True)
    part.write_text(json.dumps(run, indent=1, ensure_ascii=False), encoding="utf-8")
    os.replace(part, folder / MANIFEST)
    return {"run": run}


def _read(path: Path) -> dict[str, np.ndarray] | None:
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        if (written_as := str(arrays.pop(NAME, path.stem))) != path.stem:
            raise ValueError(f"it was written as {written_as}.npz")
        return arrays
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        logger.warning("%s is damaged (%s) and is computed again.", path, error)
        return None
