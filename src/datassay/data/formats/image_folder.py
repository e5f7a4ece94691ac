"""One folder of images per class, as torchvision's ImageFolder has them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath

import numpy as np

from datassay.data.back.original import FILES, Original, files_in, hand_on
from datassay.data.format import Format
from datassay.data.pictures import SUFFIXES, Pictures
from datassay.data.samples import Column
from datassay.data.source import Source, SourcePart, listed
from datassay.data.strings import as_arrow, compact
from datassay.data.targets import encode_targets
from datassay.errors import DataError

_VALIDATION = ("val", "validation", "test")
SHOWN = 5
# By this a page of ours is known; a folder that holds one is no class.
_PAGE, _MARK = "index.html", b'<meta name="generator" content="datassay'


def _read(folder: Path) -> Source:
    """Images as files, the names of their folders as y, their paths within `folder` as ids."""
    # With a folder `train` inside, that is the training part, and the first of `val`, `validation`
    # and `test` that is there is the validation part. Files that are no images, and folders with a
    # page of ours, are passed over; the source's columns say so.
    passed: list[str] = []
    if not (folder / "train").is_dir():
        train, val = _part(folder, folder, passed), None
    else:
        held_out = [folder / name for name in _VALIDATION if (folder / name).is_dir()]
        train = _part(folder / "train", folder, passed)
        val = _part(held_out[0], folder, passed) if held_out else None
        used = {"train", *(path.name for path in held_out[:1])}
        passed += [e.name for e in listed(folder) if e.name not in used and not _is_hidden(e.name)]
    passed = [name for name in passed if name not in FILES]
    shown = ", ".join(map(ascii, passed[:SHOWN])) + ", ..." * (len(passed) > SHOWN)
    text = f"{len(passed):,} files or folders that are no images: {shown}"
    columns = (Column("beside the images", "left out", note=text),) * bool(passed)
    return Source(folder.name, train, val, "classification", kind="image", columns=columns)


def _class_folders(folder: Path) -> list[Path]:
    """The folders in it that name classes; hidden ones, __MACOSX and results of ours are none."""
    inside = [
        folder / e.name for e in listed(folder) if os.path.isdir(e) and not _is_hidden(e.name)
    ]
    classes = []
    for path in inside:
        with suppress(OSError), (path / _PAGE).open("rb") as file:
            if _MARK in file.read(4096):
                continue
        classes.append(path)
    return classes


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "__"))


def _part(folder: Path, root: Path, passed: list[str]) -> SourcePart:
    files, labels = [], []
    folders = _class_folders(folder)
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
            f"an image folder must hold one folder per class; {folder} holds none. Sort the images "
            "into folders named after their classes."
        )
    names = {path.name for path in folders}
    if folder == root:
        passed += [e.name for e in listed(folder) if e.name not in names and not _is_hidden(e.name)]
    ids = [path.relative_to(root).as_posix() for path in files]
    for name in ids:
        if any("\udc80" <= c <= "\udcff" for c in name):  # bytes that Python could not decode
            raise DataError(
                f"image files and folders must have names in UTF-8; got {name!r}. Rename it."
            )
    x = np.zeros((len(files), 0), dtype=np.float32)  # pixels, or what an encoder makes of them
    return SourcePart(
        x, np.array(labels, object), np.array(ids, object), images=Pictures(tuple(files))
    )


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


def _give_back(folder: Path, task: str | None, link: bool) -> Original:
    """The images of both parts under the class that they have now; all other files handed on."""
    source = _read(folder)
    parts = [part for part in (source.train, source.val) if part is not None]
    val_y = None if source.val is None else source.val.y
    encoded = encode_targets(source.train.y, val_y, (), "classification")
    y = np.concatenate([each for each in encoded[:2] if each is not None])
    ids = np.concatenate([np.asarray(part.ids) for part in parts])

    depth = 1 if (folder / "train").is_dir() else 0

    def write(target: Path, keep: np.ndarray, new: np.ndarray) -> np.ndarray:
        positions = _new_positions(ids.tolist(), keep, [encoded[2][c] for c in new], depth)
        for file in files_in(folder):
            if (place := positions.get(file, file)) is not None:
                hand_on(folder / file, target / place, link=link)
        return compact(as_arrow(np.array([positions[i] for i in ids[keep]], object), "ids"))

    return Original(ids, y, encoded[2], False, "", write)


def _new_positions(
    ids: list[str], keep: np.ndarray, labels: list[str], depth: int
) -> dict[str, str | None]:
    """Path → path in the folder of its class, None where it is removed; no name occurs twice."""
    # ids: paths within the folder; labels: of the class folders; depth: how many folders stand
    # above those. Of names that are taken the stem gets -2, -3, ...
    positions: dict[str, str | None] = {}
    moved: list[tuple[str, PurePosixPath]] = []
    for name, stays, label in zip(ids, keep.tolist(), labels, strict=True):
        parts = PurePosixPath(name).parts
        is_moved = stays and parts[depth] != label
        if is_moved:
            moved.append((name, PurePosixPath(*parts[:depth], label, *parts[depth + 1 :])))
        positions[name] = name if stays and not is_moved else None
    # Without regard to case, as some disks keep names.
    taken = {place.casefold() for place in positions.values() if place is not None}
    for name, place in moved:
        free, number = place, 2
        while str(free).casefold() in taken:
            free = place.with_name(f"{place.stem}-{number}{place.suffix}")
            number += 1
        taken.add(str(free).casefold())
        positions[name] = str(free)
    return positions


FORMAT = Format(
    name="image folders",
    holds="one folder of images per class",
    is_folder=lambda folder: bool(_class_folders(folder)),
    asked_last=True,  # any folder of folders is one
    read=_read,
    give_back=_give_back,
)
