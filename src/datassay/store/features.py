"""Chunks stored as a Zarr 3 group, on a local path or any fsspec URL.

Every array holds one row per sample and is chunked along the samples as the work is; Zarr's crc32c
guards each stored chunk. What it cannot see (a chunk that is missing and reads as fill values, was
swapped with another, or comes from another store) a second array can: `digests` holds SHA-256 of
every array's part of every chunk, made over the manifest, the chunk's number, the array's name and
the values, and is written last. A chunk without digests is not there; one that differs is damaged.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from jaxtyping import UInt8
from zarr.codecs import Crc32cCodec

from datassay.errors import DataError
from datassay.optional import text_if
from datassay.store.atomic import UNFINISHED
from datassay.store.chunks import Chunk, chunks_of
from datassay.store.digests import digest_of_values
from datassay.store.location import (
    FAILURES,
    failures,
    file_system,
    is_local,
    normal,
    redact,
    shown_error,
)
from datassay.store.manifest import claim, read_manifest, reading, seal, unseal, write_new, writing
from datassay.store.plain import check_plain, hold

logger = logging.getLogger(__name__)

FORMAT = 3
GROUP = "zarr.json"
ATTRIBUTE = "datassay"
DIGESTS = "digests"
# As Zarr names files until they are whole.
ZARRS = re.compile(r"(zarr|\d+)\.[0-9a-f]{32}\.partial")
# Recorded for readers of the file; versions that change results are compared, see `manifest`.
RECORDED = ("datassay", "numpy", "zarr")


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrays of a store."""

    sizes: Mapping[str, int]  # part → samples; "train" first
    arrays: Mapping[str, tuple[tuple[int, ...], np.dtype]]  # name → shape of a sample, type
    chunk: int  # samples of a chunk

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """All chunks in order."""
        return chunks_of(self.sizes, self.chunk)


@dataclass(frozen=True, slots=True)
class Survey:
    """Which chunks of a store are complete, missing or damaged."""

    complete: tuple[int, ...]  # every byte checked
    missing: tuple[int, ...]  # never finished
    damaged: Mapping[int, str]  # number → what is wrong, of those to compute again

    @property
    def sentence(self) -> str:
        """The numbers of complete, missing and damaged chunks, as a sentence."""
        total = len(self.complete) + len(self.missing) + len(self.damaged)
        damages = "".join(f"; {number}: {why}" for number, why in list(self.damaged.items())[:5])
        damages += text_if(len(self.damaged) > 5, "; ...")
        return (
            f"{len(self.complete):,} of {total:,} chunks found, {len(self.missing):,} missing, "
            f"{len(self.damaged):,} damaged{damages}"
        )


class DamagedChunk(DataError):
    """A stored chunk is not what was written; `.damage` says why in a few words."""

    def __init__(self, number: int, damage: str, location: str):
        super().__init__(
            f"chunk {number}: {damage} in {redact(location)}. Run the same again with this store: "
            "only that chunk is computed anew."
        )
        self.damage = damage
        self._arguments = (number, damage, location)

    def __reduce__(self) -> tuple:
        return DamagedChunk, self._arguments


class FeatureStore:
    """Numbered chunks of named arrays in a Zarr group; written whole, read checked."""

    def __init__(
        self,
        location: str | Path,
        run: Mapping[str, object],
        layout: Layout,
        free: Mapping[str, object],
    ):
        """Open the store, or create it.

        Args:
            location: path or fsspec URL of the group.
            run: what the chunks belong to, plain JSON values.
            layout: the arrays.
            free: facts to note when the store is made, plain JSON values, on which runs may differ;
                `.free` is what was noted then.

        Raises:
            SettingError: the group belongs to something else, each difference named, or the URL
                needs a package that is not there.
            ModelError: it belongs to this run, but the model's code was another.
            DataError: its manifest is damaged, it holds links, or it can be neither read nor
                written.
        """
        self.location = normal(location)
        self.layout = layout
        self.chunks = layout.chunks
        self._names = sorted(layout.arrays)
        sizes = {"chunk": layout.chunk, "samples": layout.sizes}
        whole_run = json.loads(json.dumps({"format": FORMAT, **run, **sizes}))  # no tuples there
        manifest = claim(
            self.location, whole_run, GROUP, _read_group, lambda: _group_metadata(whole_run, free)
        )
        self.free = manifest["free"]
        self._claim_folders()
        self._key = digest_of_values(whole_run)
        self._known_digests: dict[int, UInt8[np.ndarray, "arrays 32"]] = {}
        self._arrays = {
            (split, name): self._open(f"{split}_{name}", (n, *tail), dtype)
            for split, n in layout.sizes.items()
            for name, (tail, dtype) in layout.arrays.items()
        }
        shape = (len(self.chunks), len(self._names), 32)
        self._digests = self._open(DIGESTS, shape, np.dtype(np.uint8), rows_per_chunk=1)

    def put(self, number: int, values: Mapping[str, np.ndarray]) -> None:
        """Write a chunk's arrays, then their digests, which mark it complete."""
        chunk = self.chunks[number]
        digests = np.stack([self._digest(number, name, values[name]) for name in self._names])
        try:
            for name in self._names:
                self._arrays[chunk.split, name][chunk.samples] = values[name]
            self._digests[number] = digests
        except failures(self.location) as error:
            raise DataError(
                f"store must take chunk {number}; {redact(self.location)} does not: "
                f"{shown_error(error, self.location)}. Make room or allow writing there, then run "
                "the same again: finished chunks are stored."
            ) from None
        self._known_digests[number] = digests

    def get(self, number: int, name: str) -> np.ndarray:
        """Return one array of a chunk; raise DamagedChunk if it is missing or was changed."""
        digests = self._read_digests(number)
        if digests is None:
            raise DamagedChunk(number, "missing", self.location)
        chunk = self.chunks[number]
        try:
            values = np.ascontiguousarray(self._arrays[chunk.split, name][chunk.samples])
        except FAILURES:
            raise DamagedChunk(number, f"{name} does not read", self.location) from None
        if not np.array_equal(digests[self._names.index(name)], self._digest(number, name, values)):
            raise DamagedChunk(number, f"{name} is not what was written", self.location)
        return values

    def list_unfinished(self) -> tuple[int, ...]:
        """Return the numbers of chunks that were never finished, without reading their bytes."""
        return tuple(n for n in range(len(self.chunks)) if self._read_digests(n) is None)

    def survey(self) -> Survey:
        """Verify the digest of every chunk; return which are complete, missing or damaged."""
        complete = []
        missing = []
        damaged = {}
        for number in range(len(self.chunks)):
            try:
                if self._read_digests(number) is None:
                    missing.append(number)
                    continue
                for name in self._names:
                    self.get(number, name)
                complete.append(number)
            except DamagedChunk as error:
                damaged[number] = error.damage
        return Survey(tuple(complete), tuple(missing), damaged)

    def list_complete(self) -> set[int]:
        """Return the numbers of complete chunks; log how many are missing or damaged."""
        survey = self.survey()
        log = logger.info if survey.complete else logger.debug
        if survey.damaged:
            log = logger.warning
        log("%s: %s.", redact(self.location), survey.sentence)
        return set(survey.complete)

    def _read_digests(self, number: int) -> UInt8[np.ndarray, "arrays 32"] | None:
        """Return a chunk's stored digests, cached; None if the chunk was never completed."""
        if number not in self._known_digests:
            try:
                digests = np.asarray(self._digests[number])
            except FAILURES:
                raise DamagedChunk(number, "its digests do not read", self.location) from None
            if not digests.any():
                return None
            self._known_digests[number] = digests
        return self._known_digests[number]

    def _digest(self, number: int, name: str, values: np.ndarray) -> UInt8[np.ndarray, " 32"]:
        """Return the SHA-256 of an array of a chunk, bound to the run, chunk and array name."""
        head = f"{self._key} {number} {name} {values.dtype} {values.shape} "
        sha = hashlib.sha256(head.encode())
        sha.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
        return np.frombuffer(sha.digest(), np.uint8)

    def _open(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype, rows_per_chunk: int | None = None
    ) -> zarr.Array:
        """Open a Zarr array; rewrite its metadata where they are missing or damaged."""
        if rows_per_chunk is None:
            rows_per_chunk = min(self.layout.chunk, shape[0])
        settings = {
            "shape": shape,
            "chunks": (rows_per_chunk, *shape[1:]),
            "dtype": dtype,
            "fill_value": 0,
            "compressors": [Crc32cCodec()],
            "filters": None,
        }
        template: dict[str, Any] = {}
        expected_metadata = zarr.create_array(template, **settings).metadata
        files, root = file_system(self.location)
        with reading(self.location):  # before opening: another process may write it meanwhile
            exists = files.exists(f"{root}/{name}/c") or files.exists(f"{root}/{name}/{GROUP}")
        try:
            array = zarr.open_array(self.location, path=name, mode="r+")
            if array.metadata == expected_metadata:
                return array
        except FAILURES as error:
            logger.debug("%s/%s: %s", redact(self.location), name, type(error).__name__)
        if exists:
            logger.warning(
                "%s: the metadata of %s were missing or damaged and are written again; its chunks "
                "are checked one by one.",
                redact(self.location),
                name,
            )
        with writing(self.location):
            # The same bytes from every process that writes here at once.
            content = template[GROUP].to_bytes()
            write_new(self.location, f"{name}/{GROUP}", content, replace=True)
            return zarr.open_array(self.location, path=name, mode="r+")

    def _claim_folders(self) -> None:
        """Raise if a local store holds links or devices; then lock it as in use by this process."""
        if is_local(self.location):
            path = Path(self.location)
            names = [f"{split}_{name}" for split in self.layout.sizes for name in self._names]
            folders = [path / name for name in (*names, DIGESTS)]
            for folder in folders:
                with reading(self.location):
                    check_plain(folder)
            hold(self, path, _list_unfinished(path, folders))


def features_manifest(location: str | Path) -> dict[str, Any] | None:
    """Read the manifest of a store ("run", "free", "versions"); None where there is none yet."""
    return read_manifest(location, GROUP, _read_group)


def _read_group(group: Any) -> dict[str, Any]:
    """Return our manifest from a Zarr group's metadata; raise ValueError if it is not ours."""
    if (group["zarr_format"], group["node_type"]) != (3, "group"):
        raise ValueError
    return unseal(group["attributes"][ATTRIBUTE])


def _group_metadata(run: Mapping[str, object], extras: Mapping[str, object]) -> bytes:
    """Return the metadata of a Zarr group that holds our manifest, as JSON bytes."""
    manifest = {"run": run, "free": extras, "versions": {name: version(name) for name in RECORDED}}
    template: dict[str, Any] = {}
    zarr.create_group(template, attributes={ATTRIBUTE: seal(manifest)})
    return template[GROUP].to_bytes()


def _list_unfinished(location: Path, folders: list[Path]) -> Iterator[Path]:
    """Yield temporary files that we or Zarr left in a store or its arrays' folders."""
    for path in location.iterdir():
        if UNFINISHED.fullmatch(path.name) and path.is_file():
            yield path
    for folder in folders:
        for path in folder.rglob("*"):
            if UNFINISHED.fullmatch(path.name) or ZARRS.fullmatch(path.name):
                yield path
