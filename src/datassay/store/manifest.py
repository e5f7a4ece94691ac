"""The manifest of a store: what run its contents belong to, written, read and compared."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec

from datassay.errors import DataError, DatassayError, ModelError, SettingError
from datassay.optional import text_if
from datassay.store.atomic import UNFINISHED, write_whole
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
from datassay.store.plain import open_plain

# The entry that names every piece of a model's code.
CODE = "code"
# Of values longer than this, messages give only the name.
SHOWN = 24
# Pieces of code named in a message.
FEW = 4
# Bytes of the largest manifest: one entry per layer and a piece of code.
LARGEST_MANIFEST = 2**26
NOT_THERE = (FileNotFoundError, NotADirectoryError)
# What JSON text gives that is no manifest: of another type, too deep, digits without end.
NO_MANIFEST = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


def seal(values: Mapping[str, object]) -> dict[str, object]:
    """Return plain JSON values with their digest, as manifests are stored."""
    return {**values, "digest": digest_of_values(values)}


def unseal(stored: Any) -> dict[str, Any]:
    """Return the values of a stored manifest; raise ValueError if their digest differs."""
    values = dict(stored)
    if values.pop("digest") != digest_of_values(values) or not isinstance(values["run"], dict):
        raise ValueError
    return values


def claim(
    location: str | Path,
    run: Mapping[str, object],
    file: str,
    unpack: Callable[[Any], dict[str, Any]],
    content: Callable[[], bytes],
) -> dict[str, Any]:
    """Return a store's manifest, created if there is none; raise if it is of another run."""
    # file: name of the manifest in the store. unpack: its JSON → the manifest, as `unseal` does.
    # content: bytes of a new manifest. Of several processes that write it at once the first counts;
    # of a URL, the last.
    manifest = read_manifest(location, file, unpack)
    if manifest is None:
        with writing(location):
            write_new(location, file, content())
        manifest = read_manifest(location, file, unpack)
    if manifest is None:
        raise DataError(
            f"store must stay where it is; {redact(location)} was removed as this run began. Run "
            "the same again."
        )
    _check_run(location, manifest["run"], json.loads(json.dumps(run)))
    return manifest


def _check_run(location: str | Path, stored: dict[str, Any], current: dict[str, Any]) -> None:
    """Raise if two runs differ: ModelError if only the model's code does, else SettingError."""
    differing = differences(stored, current)
    if stored.get(CODE) != current.get(CODE):
        changed_code = differences(stored.get(CODE) or {}, current.get(CODE) or {})
        names = ", ".join(changed_code[:FEW]) + text_if(len(changed_code) > FEW, ", ...")
        if set(stored) == set(current) and len(differing) == 1:
            raise ModelError(
                f"the model's code must be that which the store was made with; {redact(location)} "
                f"was made with another: {names}. Undo the change, or name another store."
            )
        differing = [f"code ({names})" if name == CODE else name for name in differing]
    if differing:
        raise SettingError(
            f"store must belong to this run; {redact(location)} differs in: "
            f"{', '.join(differing)}. Name another store, or delete that one."
        )


def write_new(location: str | Path, file: str, content: bytes, *, replace: bool = False) -> None:
    """Write a file of a store; an existing one is replaced only if `replace`, or at a URL."""
    if is_local(location):
        path = Path(normal(location), file)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda to: to.write(content), replace=replace)
    else:
        files, root = file_system(location)
        files.pipe_file(f"{root}/{file}", content)


def read_manifest(
    location: str | Path, file: str, unpack: Callable[[Any], dict[str, Any]]
) -> dict[str, Any] | None:
    """Return a store's manifest; None where no store exists; raise where it is not ours."""
    files, root = file_system(location)
    try:
        with reading(location):
            if is_local(location):
                with open_plain(Path(normal(location), file), LARGEST_MANIFEST) as opened:
                    text = opened.read()
            else:
                text = files.cat_file(f"{root}/{file}")
    except NOT_THERE:
        _check_empty(location, files, root, file)
        return None
    try:
        return unpack(json.loads(text))
    except NO_MANIFEST:
        raise DataError(
            f"store must hold a whole manifest; {redact(location)}/{file} is damaged or not ours. "
            "Put the file back from a copy, name another store, or delete that one."
        ) from None


def _check_empty(
    location: str | Path, files: fsspec.AbstractFileSystem, root: str, file: str
) -> None:
    """Raise if a location without manifest is a file, or holds files that are not ours."""
    with reading(location):
        if files.isfile(root):
            raise SettingError(f"store must be a folder; {redact(root)} is a file. Name another.")
        # A first attempt to write the manifest that was killed leaves only these.
        names = map(str, files.find(root))
        foreign = [name for name in names if not UNFINISHED.fullmatch(Path(name).name)]
        files.invalidate_cache()
        is_written = files.exists(f"{root}/{file}")  # by another process, meanwhile
    if foreign and not is_written:
        raise SettingError(
            f"store must be an empty folder or one that an earlier run made; got {redact(root)}, "
            f"which holds {foreign[0].removeprefix(root + '/')} but no {file}. Name another folder."
        )


@contextmanager
def reading(location: str | Path) -> Iterator[None]:
    """Turn failures to read a store into DataError; a missing file passes unchanged."""
    try:
        yield
    except (DatassayError, FileNotFoundError, NotADirectoryError):
        raise
    except FAILURES as error:
        raise DataError(
            f"store must be readable; {redact(location)} is not: {shown_error(error, location)}."
        ) from None


@contextmanager
def writing(location: str | Path) -> Iterator[None]:
    """Turn failures to write to a store into DataError with the remedy."""
    try:
        yield
    except failures(location) as error:
        raise DataError(
            f"store must be writable; {redact(location)} is not: {shown_error(error, location)}. "
            "Make room or allow writing there, then run the same again (finished work is stored), "
            "or name another store."
        ) from None


def differences(stored: Mapping[str, object], current: Mapping[str, object]) -> list[str]:
    """Return the names of entries that differ between two manifests, with short values."""
    texts = []
    for name in sorted({*stored, *current}):
        if stored.get(name) != current.get(name):
            pair = [json.dumps(values.get(name)) for values in (stored, current)]
            if max(map(len, pair)) <= SHOWN:
                texts.append(f"{name} ({pair[0]} there, {pair[1]} here)")
            else:
                texts.append(name)
    return texts
