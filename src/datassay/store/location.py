"""Store locations: a path on this machine, or any URL that fsspec opens."""

import os
import re
from pathlib import Path
from urllib.parse import unquote

import fsspec

from datassay.errors import HIDDEN, SettingError, hide_credentials, install

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
    """Return a location as normalised text; raise where it names no folder."""
    text = str(location).removeprefix("file://")
    path = text.rpartition("://")[2]
    if not path.strip("/").strip() or "\0" in text:
        raise SettingError(
            f"store must name a folder; got {redact(location)!r}. Give a path such as 'store', or "
            "a URL with a folder in it."
        )
    if "://" not in text:
        text = os.path.expanduser(text)
    if text.startswith("~"):
        user = text.partition("/")[0]
        raise SettingError(f"store must be in a folder that is there; there is no user {user!r}.")
    return text.rstrip("/")


def redact(location: str | Path) -> str:
    """Return a location, or a text with URLs, without credentials, for a message."""
    # A URL as a whole: quotes may be part of a password.
    return hide_credentials(str(location), is_url=" " not in str(location))


def shown_error(error: BaseException, location: str | Path) -> str:
    """Return a file system error in one line, without credentials."""
    text = str(error).replace(str(location), redact(location))
    for secret in sorted(_list_secrets(str(location)), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return redact(" ".join(text.split())) or type(error).__name__


def _list_secrets(location: str) -> set[str]:
    """Return words of a URL that may be credentials: user, password, query values."""
    if "://" not in location:
        return set()
    address, *queries = re.split("[?#]", location.partition("://")[2], maxsplit=1)
    query = "".join(queries)
    user_and_password = address.rpartition("@")[0]
    values = [text.partition("=")[2] or text for text in re.split("[&;#?]", query)]
    words = {user_and_password, query, *user_and_password.split(":"), *values}
    words |= {unquote(word) for word in words}
    return {word for word in words if len(word) >= SHORTEST_SECRET}


def inside(location: str | Path, name: str) -> str:
    """Return the path of a folder inside a location; raise if it is a link to elsewhere."""
    path = f"{normal(location)}/{name}"
    if is_local(location) and os.path.islink(path):
        raise SettingError(
            f"store must hold its own folders; {path} is a link. Name what it links to, or remove "
            "the link."
        )
    return path


def is_local(location: str | Path) -> bool:
    """Return whether a location is a path on this machine: no URL but of the protocol file."""
    return "://" not in normal(location)


def check_place(location: str | Path) -> None:
    """Raise, before any work, if a location cannot hold the folders of a run."""
    if not is_local(location):
        return
    path = Path(normal(location))
    if path.exists() and not path.is_dir():
        raise SettingError(f"store must be a folder; {path} is a file. Name another.")
    try:
        names = []
        if path.is_dir():
            names = os.listdir(path)
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
    """Return the exceptions that reading and writing there may raise; of a URL, any."""
    if is_local(location):
        return (OSError,)
    return FAILURES


def file_system(location: str | Path) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return a location's file system, its cache cleared, and the path within it."""
    try:
        files, root = fsspec.core.url_to_fs(normal(location))
    except SettingError:
        raise
    except FAILURES as error:
        raise SettingError(
            f"store must be a path or a URL that fsspec opens; got {redact(location)}: "
            f"{shown_error(error, location)} For s3:// run: {install('s3')}."
        ) from None
    files.invalidate_cache()
    return files, root.rstrip("/")
