"""Image folders given back: files under the class that they have now."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from datassay.data.back.changelog import FILES
from datassay.data.back.original import Original, hand_on
from datassay.data.files.image_folder import read_image_folder
from datassay.data.strings import as_arrow, compact
from datassay.data.targets import encode_targets


def original_image_folder(folder: Path, *, link: bool) -> Original:
    """A folder of class folders as it is stored.

    Args:
        folder: of class folders, or of `train` and the like above them.
        link: whether files may be second names of the same files, where the disk has them.

    Returns:
        Ids and labels of the images of both parts; all other files are handed on.

    Raises:
        DataError: what `load` raises of such a folder.
    """
    source = read_image_folder(folder)
    parts = [part for part in (source.train, source.val) if part is not None]
    val_y = None if source.val is None else source.val.y
    encoded = encode_targets(source.train.y, val_y, (), "classification")
    y = np.concatenate([each for each in encoded[:2] if each is not None])
    ids = np.concatenate([np.asarray(part.ids) for part in parts])

    depth = 1 if (folder / "train").is_dir() else 0

    def write(target: Path, keep: np.ndarray, new: np.ndarray) -> np.ndarray:
        places = new_places(ids.tolist(), keep, [encoded[2][c] for c in new], depth)
        for file in files_in(folder):
            if (place := places.get(file, file)) is not None:
                hand_on(folder / file, target / place, link=link)
        return compact(as_arrow(np.array([places[i] for i in ids[keep]], object), "ids"))

    return Original(ids, y, encoded[2], False, "", write)


def new_places(
    ids: list[str], keep: np.ndarray, labels: list[str], depth: int
) -> dict[str, str | None]:
    """Where each image goes: into the folder of its class, without taking the name of another.

    Args:
        ids: [n] paths within the folder.
        keep: [n] bool, which stay.
        labels: [n], of the class folders that they belong to.
        depth: how many folders stand above those of the classes.

    Returns:
        Path → path, or None where it is removed. Of names that are taken the stem gets -2, -3, ...
    """
    places: dict[str, str | None] = {}
    moved: list[tuple[str, PurePosixPath]] = []
    for name, stays, label in zip(ids, keep.tolist(), labels, strict=True):
        parts = PurePosixPath(name).parts
        is_moved = stays and parts[depth] != label
        if is_moved:
            moved.append((name, PurePosixPath(*parts[:depth], label, *parts[depth + 1 :])))
        places[name] = name if stays and not is_moved else None
    # Without regard to case, as some disks keep names.
    taken = {place.casefold() for place in places.values() if place is not None}
    for name, place in moved:
        free, number = place, 2
        while str(free).casefold() in taken:
            free = place.with_name(f"{place.stem}-{number}{place.suffix}")
            number += 1
        taken.add(str(free).casefold())
        places[name] = str(free)
    return places


def files_in(folder: Path) -> Iterator[str]:
    """Paths of all files within a folder, by name, without hidden ones and our changelog."""
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name).relative_to(folder).as_posix()
            if not name.startswith(".") and path not in FILES:
                yield path
