"""Store locations: a path on this machine, or any URL that fsspec opens."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

import fsspec

from datassay.errors import HIDDEN, SettingError, install, redacted

# What a run keeps in its store.
EMBEDDINGS, FEATURES, RETRAINED, WITHOUT_ONE = FOLDERS = (
    "embeddings",
    "features",
    "retrained",
    "without_one",
)
# Shorter parts of a URL's credentials are no secrets, and would be hidden all over a sentence.
SHORTEST_SECRET = 3
# Zarr and the file systems of each protocol have errors of their own.
FAILURES = (Exception,)


def normal(location: str | Path) -> str:
    """A location as text, local files as plain paths; refused where it names no folder."""
    text = str(location).removeprefix("file://")
    position = text.rpartition("://")[2]
    if not position.strip("/").strip() or "\0" in text:
        raise SettingError(
            f"store must name a folder; got {shown(location)!r}. Give a path such as 'store', or a "
            "URL with a folder in it."
        )
    text = os.path.expanduser(text) if "://" not in text else text
    if text.startswith("~"):
        user = text.partition("/")[0]
        raise SettingError(f"store must be in a folder that is there; there is no user {user!r}.")
    return text.rstrip("/")


def shown(location: str | Path) -> str:
    """A location, or a text that holds URLs, as messages show it: without credentials."""
    text = str(location)
    return redacted(text, is_url=" " not in text)  # whole: quotes may be part of a password


def shown_error(error: BaseException, location: str | Path) -> str:
    """One line of what a file system's error says, without the credentials of the location."""
    text = str(error).replace(str(location), shown(location))
    for secret in sorted(_secrets(str(location)), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return shown(" ".join(text.split())) or type(error).__name__


def _secrets(location: str) -> set[str]:
    if "://" not in location:
        return set()
    position, *queries = re.split("[?#]", location.partition("://")[2], maxsplit=1)
    query = "".join(queries)
    user = position.rpartition("@")[0]
    values = [part.partition("=")[2] or part for part in re.split("[&;#?]", query)]
    parts = {user, query, *user.split(":"), *values}
    parts |= {unquote(part) for part in parts}
    return {part for part in parts if len(part) >= SHORTEST_SECRET}


def inside(location: str | Path, name: str) -> str:
    """A folder in a location; refused where it is a link to elsewhere."""
    path = f"{normal(location)}/{name}"
    if is_local(location) and os.path.islink(path):
        raise SettingError(
            f"store must hold its own folders; {path} is a link. Name what it links to, or remove "
            "the link."
        )
    return path


def is_local(location: str | Path) -> bool:
    """Whether a location is a path on this machine: no URL of another protocol than file."""
    return "://" not in normal(location)


def check_place(location: str | Path) -> None:
    """Refuse, before any work is done, what cannot hold the folders of a run."""
    if not is_local(location):
        return
    path = Path(normal(location))
    if path.exists() and not path.is_dir():
        raise SettingError(f"store must be a folder; {path} is a file. Name another.")
    try:
        names = os.listdir(path) if path.is_dir() else []
    except OSError as error:
        raise SettingError(
            f"store must be a folder that can be read; {path} is not: {error.strerror}."
        ) from None
    if names and not set(names) & set(FOLDERS):
        raise SettingError(
            f"store must be an empty folder or one that an earlier run made; got {path}, which "
            f"holds {min(names)}. Name another folder."
        )


def failures(location: str | Path) -> tuple[type[Exception], ...]:
    """What reading and writing there may raise: of URLs anything, each protocol has its own."""
    return (OSError,) if is_local(location) else FAILURES


def file_system(location: str | Path) -> tuple[fsspec.AbstractFileSystem, str]:
    """The file system of a location and the path there, nothing remembered of earlier listings."""
    try:
        files, root = fsspec.core.url_to_fs(normal(location))
    except SettingError:
        raise
    except FAILURES as error:
        raise SettingError(
            f"store must be a path or a URL that fsspec opens; got {shown(location)}: "
            f"{shown_error(error, location)} For s3:// run: {install('s3')}."
        ) from None
    files.invalidate_cache()
    return files, root.rstrip("/")
