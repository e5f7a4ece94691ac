"""Store locations: a path on this machine, or any URL that fsspec opens."""

from __future__ import annotations

from pathlib import Path

import fsspec

from datassay.errors import SettingError

# What a run keeps in its store.
FEATURES, RETRAINED, WITHOUT_ONE = "features", "retrained", "without_one"


def normal(location: str | Path) -> str:
    """A location as text, local files as plain paths.

    Args:
        location: path or URL.

    Returns:
        The same place; no slash at its end.
    """
    return str(location).removeprefix("file://").rstrip("/")


def inside(location: str | Path, name: str) -> str:
    """A folder in a location.

    Args:
        location: path or URL.
        name: of the folder.

    Returns:
        Its path or URL.
    """
    return f"{normal(location)}/{name}"


def is_local(location: str | Path) -> bool:
    """Whether a location is a path on this machine.

    Args:
        location: path or URL.

    Returns:
        True for anything but a URL of another protocol than file.
    """
    return "://" not in normal(location)


def file_system(location: str | Path) -> tuple[fsspec.AbstractFileSystem, str]:
    """The file system of a location, and the path there.

    Args:
        location: path or URL.

    Returns:
        Both, with nothing remembered of earlier listings.

    Raises:
        SettingError: the protocol is unknown, or its package is not installed.
    """
    try:
        files, root = fsspec.core.url_to_fs(normal(location))
    except (ImportError, ValueError) as error:
        raise SettingError(
            f"store must be a path or a URL that fsspec opens; got {location}: {error} For s3:// "
            'run: pip install "datassay[s3]".'
        ) from error
    files.invalidate_cache()
    return files, root.rstrip("/")
