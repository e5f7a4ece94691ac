"""One folder of images per class, as torchvision's ImageFolder has them."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from datassay.data.back.original import FILES, Original, files_in, hand_on
from datassay.data.format import Format
from datassay.data.pictures import (
    SUFFIXES,
    ImageSize,
    Pictures,
    choose_ground,
    ground_warning,
    image_size,
)
from datassay.data.samples import Column
from datassay.data.source import Source, SourcePart, parts_among, scan
from datassay.data.strings import as_arrow, compact
from datassay.data.targets import encode_targets
from datassay.errors import DataError

SHOWN = 5
# By this a page of ours is known; a folder that holds one is no class.
_PAGE, _MARK = "index.html", b'<meta name="generator" content="datassay'


def _read(folder: Path) -> Source:
    """Images as files, the names of their folders as y, their paths within `folder` as ids."""
    # With a folder `train` inside, that is the training part, and the first of `val`, `valid`, ...
    # that is there is the validation part. Files that are no images, those that cannot be read,
    # and folders with a page of ours are passed over; the source's columns and warnings say so.
    passed: list[str] = []
    broken: list[tuple[str, DataError]] = []
    parts = _parts(folder)
    read = [_part(part, folder, passed, broken) for part in (parts[:2] or [folder])]
    used = {part.name for part in parts}
    beside = [e.name for e in scan(folder) if e.name not in used and not _is_hidden(e.name)]
    passed = [name for name in passed + beside * bool(parts) if name not in FILES]
    columns = [Column(part.name, "left out", note="a further part") for part in parts[2:]]
    if passed:
        text = f"{len(passed):,} files or folders that are no images: {_some(passed)}"
        columns += [Column("beside the images", "left out", note=text)]
    sizes = [size for part in read for size in part.sizes]
    ground = choose_ground(sizes)
    train, *held_out = [part.samples(folder, ground) for part in read]
    return Source(
        folder.name, train, held_out[0] if held_out else None, "classification", kind="image",
        columns=tuple(columns),
        warnings=_told(broken, len(sizes)) + ground_warning(sizes, ground),
    )  # fmt: skip


def _told(broken: list[tuple[str, DataError]], n_read: int) -> tuple[str, ...]:
    """Return what is to be said of images that cannot be read."""
    n = len(broken)
    if not n:
        return ()
    names, verb = _some([name for name, _ in broken]), "is" if n == 1 else "are"
    text = f"{n:,} of {n + n_read:,} images cannot be read and {verb} left out: {names}. Of the "
    return (f"{text}first: {broken[0][1]}",)


def _some(names: list[str]) -> str:
    return ", ".join(map(ascii, names[:SHOWN])) + ", ..." * (len(names) > SHOWN)


def _parts(folder: Path) -> list[Path]:
    """Return the folders of parts, for training first, then to hold out; none where classes are."""
    # A class may be called "train": its folder holds images.
    inside = [e.name for e in scan(folder) if os.path.isdir(e)]
    named = [folder / name for name in parts_among(inside)]
    parts = [part for part in named if _class_folders(part)]
    return parts if parts[:1] == named[:1] else []


def _class_folders(folder: Path) -> list[Path]:
    """The folders in it that name classes; hidden ones, __MACOSX and results of ours are none."""
    inside = [folder / e.name for e in scan(folder) if os.path.isdir(e) and not _is_hidden(e.name)]
    classes = []
    for path in inside:
        with suppress(OSError), (path / _PAGE).open("rb") as file:
            if _MARK in file.read(4096):
                continue
        classes.append(path)
    return classes


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "__"))


@dataclass(frozen=True, slots=True)
class _Part:
    """The images of one part."""

    files: list[Path]
    sizes: list[ImageSize]
    labels: list[str]

    def samples(self, root: Path, ground: str) -> SourcePart:
        """Return them as samples, shown on a ground where they are transparent."""
        x = np.zeros((len(self.files), 0), dtype=np.float32)  # pixels, or what an encoder makes
        ids = [path.relative_to(root).as_posix() for path in self.files]
        images = Pictures(tuple(self.files), tuple(self.sizes), ground)
        return SourcePart(x, np.array(self.labels, object), np.array(ids, object), images=images)


def _part(
    folder: Path, root: Path, passed: list[str], broken: list[tuple[str, DataError]]
) -> _Part:
    """Return the images of one part that can be read; the others go to `passed` and `broken`."""
    part, folders = _Part([], [], []), _class_folders(folder)
    for class_folder in folders:
        images, others = _images(class_folder, root)
        passed += others
        if not images:
            raise DataError(
                f"every class folder must hold images; {class_folder} holds none of "
                f"{', '.join(sorted(SUFFIXES))}. Remove it or fill it."
            )
        before = len(part.files)
        for path in images:
            name = path.relative_to(root).as_posix()
            if any("\udc80" <= c <= "\udcff" for c in name):  # bytes that Python could not decode
                raise DataError(
                    f"image files and folders must have names in UTF-8; got {name!r}. Rename it."
                )
            try:
                part.sizes.append(image_size(path))
                part.files.append(path)
            except DataError as error:
                broken.append((name, error))
        if len(part.files) == before:
            raise broken[-len(images)][1]
        part.labels.extend([class_folder.name] * (len(part.files) - before))
    if not part.files:
        raise DataError(
            f"an image folder must hold one folder per class; {folder} holds none. Sort the images "
            "into folders named after their classes."
        )
    names = {path.name for path in folders}
    if folder == root:
        passed += [e.name for e in scan(folder) if e.name not in names and not _is_hidden(e.name)]
    return part


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

    depth = len(_parts(folder)[:1])

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
