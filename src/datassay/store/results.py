"""Finished results of long work, one file each, so that an interrupted call can resume."""

import hashlib
import json
import logging
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import numpy as np

from datassay.errors import SettingError
from datassay.store.atomic import UNFINISHED, write_whole
from datassay.store.digests import digest_of_values
from datassay.store.location import is_local, normal, redact
from datassay.store.manifest import claim, seal, unseal, writing
from datassay.store.plain import hold, open_plain

logger = logging.getLogger(__name__)

MANIFEST = "run.json"
FORMAT = 2
# The comment at the end of each .npz, a zip file: SHA-256 over the manifest, the piece's name and
# every byte before the comment. Nothing of a file is parsed unless it is right.
MARK = b"datassay sha256 "
COMMENT = len(MARK) + 64
BLOCK = 2**24


class ResultStore:
    """Named groups of arrays, in memory or in a folder of .npz files.

    A file is completed under another name and moved into place, so a name stands for a whole piece
    or for nothing; a file whose digest differs counts as missing and is logged.
    """

    def __init__(self, folder: str | Path | None, manifest: Mapping[str, object]):
        """Open the store, or create it.

        Args:
            folder: where to keep the pieces; None keeps them in memory.
            manifest: what the pieces belong to, plain JSON values.

        Raises:
            SettingError: the folder holds the pieces of something else, is no store, or is not on
                this machine.
            ModelError: the pieces belong to this, but the model's code was another.
            DataError: its manifest is damaged, or it can be neither read nor written.
        """
        self._pieces: dict[str, dict[str, np.ndarray]] = {}
        self._folder = None
        if folder is not None:
            if not is_local(folder):
                raise SettingError(f"store must be a folder on this machine; got {redact(folder)}.")
            self._folder = Path(normal(folder))
            run = {"format": FORMAT, **manifest}
            claim(self._folder, run, MANIFEST, unseal, lambda: _manifest(run))
            self._key = digest_of_values(run)
            hold(self, self._folder, _unfinished_files(self._folder))

    def __contains__(self, name: str) -> bool:
        if name not in self._pieces and self._folder is not None:
            arrays = self._read(name)
            if arrays is not None:
                self._pieces[name] = arrays
        return name in self._pieces

    def get(self, name: str) -> dict[str, np.ndarray]:
        """Return the arrays of a piece by name; raise KeyError where there is none."""
        if name not in self:
            raise KeyError(name)
        return self._pieces[name]

    def put(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Store a piece's arrays; they are on disk when this returns."""
        self._pieces[name] = dict(arrays)
        if self._folder is None:
            return
        with writing(self._folder):
            write_whole(self._folder / f"{name}.npz", partial(self._write, name))

    def get_or_compute(
        self, name: str, compute: Callable[[], Mapping[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """Return the arrays of a piece, computed and stored first if they are missing."""
        if name not in self:
            self.put(name, compute())
        return self.get(name)

    def _write(self, name: str, file: BinaryIO) -> None:
        """Write a piece's arrays to a file as .npz, with its digest as the comment at the end."""
        np.savez(file, **self._pieces[name])  # pyrefly: ignore[bad-argument-type] (no array is named allow_pickle)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = b" " * COMMENT  # its length is part of what the digest covers
        comment = self._digest_comment(name, file)
        file.seek(-COMMENT, os.SEEK_END)
        file.write(comment)

    def _digest_comment(self, name: str, file: BinaryIO) -> bytes:
        """Return the zip comment that a piece's file should end with: MARK and its SHA-256."""
        n_left = file.seek(0, os.SEEK_END) - COMMENT
        file.seek(0)
        sha = hashlib.sha256(f"{self._key} {name} ".encode())
        while n_left > 0 and (block := file.read(min(n_left, BLOCK))):
            sha.update(block)
            n_left -= len(block)
        return MARK + sha.hexdigest().encode()

    def _read(self, name: str) -> dict[str, np.ndarray] | None:
        """Return a piece's arrays from disk; None if missing, or damaged (logged)."""
        assert self._folder is not None
        path = self._folder / f"{name}.npz"
        try:
            with open_plain(path) as file:
                if self._digest_comment(name, file) == file.read():
                    file.seek(0)
                    with np.load(file, allow_pickle=False) as arrays:
                        return {array_name: arrays[array_name] for array_name in arrays.files}
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.warning("%s does not read (%s) and is computed again.", path, error)
            return None
        logger.warning("%s is damaged (not what was written) and is computed again.", path)
        return None


def _manifest(run: Mapping[str, object]) -> bytes:
    values = json.loads(json.dumps({"run": run, "versions": {"datassay": version("datassay")}}))
    return json.dumps(seal(values), indent=1, ensure_ascii=False).encode()


def _unfinished_files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if UNFINISHED.fullmatch(path.name) and path.is_file())
