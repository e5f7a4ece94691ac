"""Read images from one folder a class, as torchvision's ImageFolder does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from datassay.data.back.changelog import FILES
from datassay.data.files.image import SUFFIXES
from datassay.data.pictures import Pictures
from datassay.data.samples import Column
from datassay.data.source import Part, Source, listed
from datassay.errors import DataError

_VALIDATION = ("val", "validation", "test")
SHOWN = 5
# By this a page of ours is known; a folder that holds one is no class.
_PAGE, _MARK = "index.html", b'<meta name="generator" content="datassay'


def read_image_folder(folder: Path) -> Source:
    """Images as files, the names of their folders as y, their paths within `folder` as ids.

    With a folder `train` inside, that is the training part, and the first of `val`, `validation`
    and `test` that is there is the validation part. Files that are no images, and folders with a
    page of ours, are passed over; the source's columns say so.

    Args:
        folder: holds one folder a class, or `train` and the like above them.

    Returns:
        The source; no image is unpacked yet.

    Raises:
        DataError: a folder or the head of an image cannot be read.
    """
    passed: list[str] = []
    if not (folder / "train").is_dir():
        train, val = _part(folder, folder, passed), None
    else:
        held_out = [folder / name for name in _VALIDATION if (folder / name).is_dir()]
        train = _part(folder / "train", folder, passed)
        val = _part(held_out[0], folder, passed) if held_out else None
        used = {"train", *(path.name for path in held_out[:1])}
        passed += [e.name for e in listed(folder) if e.name not in used and not _is_hidden(e.name)]
    return Source(folder.name, train, val, "classification", kind="image", columns=_note(passed))


def class_folders(folder: Path) -> list[Path]:
    """The folders in it that name classes; hidden ones, __MACOSX and results of ours are none.

    Args:
        folder: to look into.

    Returns:
        Paths by name.

    Raises:
        DataError: the folder cannot be listed.
    """
    inside = [folder / e.name for e in listed(folder) if e.is_dir() and not _is_hidden(e.name)]
    return [path for path in inside if not _is_ours(path)]


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "__"))


def _is_ours(folder: Path) -> bool:
    """Whether a folder holds results of an earlier run."""
    try:
        with (folder / _PAGE).open("rb") as file:
            return _MARK in file.read(4096)
    except OSError:
        return False


def _note(passed: Sequence[str]) -> tuple[Column, ...]:
    passed = [name for name in passed if name not in FILES]
    if not passed:
        return ()
    shown = ", ".join(map(ascii, passed[:SHOWN])) + ", ..." * (len(passed) > SHOWN)
    text = f"{len(passed):,} files or folders that are no images: {shown}"
    return (Column("beside the images", "left out", note=text),)


def _part(folder: Path, root: Path, passed: list[str]) -> Part:
    files, labels = [], []
    folders = class_folders(folder)
    for class_folder in folders:
        images, others = _images(class_folder, root)
        passed += others
        if not images:
            raise DataError(
                f"every class folder must hold images; {class_folder} holds none of "
                f"{', '.join(sorted(SUFFIXES))}. Remove it or fill it."
            )
        files += images
        labels += [class_folder.name] * len(images)
    if not files:
        raise DataError(
            f"an image folder must hold one folder a class; {folder} holds none. Sort the images "
            "into folders named after their classes."
        )
    names = {path.name for path in folders}
    if folder == root:
        passed += [e.name for e in listed(folder) if e.name not in names and not _is_hidden(e.name)]
    ids = [_id(p, root) for p in files]
    x = np.zeros((len(files), 0), dtype=np.float32)  # pixels, or what an encoder makes of them
    return Part(x, np.array(labels, object), np.array(ids, object), images=Pictures(tuple(files)))


def _images(folder: Path, root: Path) -> tuple[list[Path], list[str]]:
    """The images in a folder and the folders in it, sorted, and the names of all other files."""
    failed: list[OSError] = []
    images, others = [], []
    for place, inside, names in os.walk(folder, onerror=failed.append):
        links = [name for name in inside if os.path.islink(os.path.join(place, name))]
        if links:
            raise DataError(
                f"class folders must hold images and folders; {os.path.join(place, links[0])} is a "
                "link to a folder, which is not followed. Move the images, or remove the link."
            )
        for path in (Path(place, name) for name in names):
            if path.suffix.lower() in SUFFIXES:
                images.append(path)
            elif not _is_hidden(path.name):
                others.append(path.relative_to(root).as_posix())
    if failed:
        shown = ", ".join(f"{e.filename}: {e.strerror}" for e in failed[:SHOWN])
        more = f" and {len(failed) - SHOWN} more" * (len(failed) > SHOWN)
        raise DataError(
            f"every folder in {root} must be readable; {shown}{more}. Allow reading them, or move "
            "them away."
        )
    return sorted(images), sorted(others)


def _id(path: Path, root: Path) -> str:
    name = path.relative_to(root).as_posix()
    if any("\udc80" <= c <= "\udcff" for c in name):  # bytes that Python could not decode
        raise DataError(
            f"image files and folders must have names in UTF-8; got {name!r}. Rename it."
        )
    return name
