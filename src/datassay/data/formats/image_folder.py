"""One folder of images per class, as torchvision's ImageFolder has them."""

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
from datassay.optional import drop_none, inflect, take_first, text_if

SHOWN = 5
# By this a page of ours is known; a folder that holds one is no class.
_PAGE = "index.html"
_MARK = b'<meta name="generator" content="datassay'


def _read(folder: Path) -> Source:
    """Return images as files, names of their folders as y, paths within `folder` as ids."""
    # With a folder `train` inside, that is the training part, and the first of `val`, `valid`, ...
    # that is there is the validation part. Files that are no images, those that cannot be read,
    # and folders with a page of ours are passed over; the source's columns and warnings say so.
    passed: list[str] = []
    broken: list[tuple[str, DataError]] = []
    parts = _parts(folder)
    read = [_read_part(path, folder, passed, broken) for path in (parts[:2] or [folder])]
    part_names = {path.name for path in parts}
    extras = [e.name for e in scan(folder) if e.name not in part_names and not _is_hidden(e.name)]
    passed = [name for name in passed + extras * bool(parts) if name not in FILES]
    columns = [Column(path.name, "left out", note="a further part") for path in parts[2:]]
    if passed:
        text = f"{len(passed):,} files or folders that are no images: {_abridge(passed)}"
        columns += [Column("beside the images", "left out", note=text)]
    sizes = [size for pictures in read for size in pictures.sizes]
    ground = choose_ground(sizes)
    train, *held_out = [pictures.samples(folder, ground) for pictures in read]
    return Source(
        folder.name, train, take_first(held_out), "classification", kind="image",
        columns=tuple(columns),
        warnings=_describe_broken(broken, len(sizes)) + ground_warning(sizes, ground),
    )  # fmt: skip


def _describe_broken(broken: list[tuple[str, DataError]], n_read: int) -> tuple[str, ...]:
    """Return a warning of images that cannot be read; none where all can."""
    n = len(broken)
    if not n:
        return ()
    names = _abridge([name for name, _ in broken])
    verb = inflect(n, "is", "are")
    text = f"{n:,} of {n + n_read:,} images cannot be read and {verb} left out: {names}. Of the "
    return (f"{text}first: {broken[0][1]}",)


def _abridge(names: list[str]) -> str:
    return ", ".join(map(ascii, names[:SHOWN])) + text_if(len(names) > SHOWN, ", ...")


def _parts(folder: Path) -> list[Path]:
    """Return the folders of parts, for training first, then to hold out; none where classes are."""
    # A class may be called "train": its folder holds images.
    inside = [e.name for e in scan(folder) if os.path.isdir(e)]
    candidates = [folder / name for name in parts_among(inside)]
    parts = [path for path in candidates if _class_folders(path)]
    if parts[:1] != candidates[:1]:
        return []
    return parts


def _class_folders(folder: Path) -> list[Path]:
    """Return the folders that name classes, without hidden ones, __MACOSX and our results."""
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
        """Return the images as samples, on a ground where they are transparent."""
        x = np.zeros((len(self.files), 0), dtype=np.float32)  # pixels, or what an encoder makes
        ids = [path.relative_to(root).as_posix() for path in self.files]
        images = Pictures(tuple(self.files), tuple(self.sizes), ground)
        return SourcePart(x, np.array(self.labels, object), np.array(ids, object), images=images)


def _read_part(
    folder: Path, root: Path, passed: list[str], broken: list[tuple[str, DataError]]
) -> _Part:
    """Return the images of one part that can be read; the others go to `passed` and `broken`."""
    result = _Part([], [], [])
    folders = _class_folders(folder)
    for class_folder in folders:
        images, other_names = _images(class_folder, root)
        passed += other_names
        if not images:
            raise DataError(
                f"every class folder must hold images; {class_folder} holds none of "
                f"{', '.join(sorted(SUFFIXES))}. Remove it or fill it."
            )
        before = len(result.files)
        for path in images:
            name = path.relative_to(root).as_posix()
            if any("\udc80" <= c <= "\udcff" for c in name):  # bytes that Python could not decode
                raise DataError(
                    f"image files and folders must have names in UTF-8; got {name!r}. Rename it."
                )
            try:
                result.sizes.append(image_size(path))
                result.files.append(path)
            except DataError as error:
                broken.append((name, error))
        if len(result.files) == before:
            text = f"{class_folder} must hold an image that can be read; all {len(images):,} fail"
            raise DataError(f"{text}. Of the first: {broken[-len(images)][1]}")
        result.labels.extend([class_folder.name] * (len(result.files) - before))
    if not result.files:
        raise DataError(
            f"an image folder must hold one folder per class; {folder} holds none. Sort the images "
            "into folders named after their classes."
        )
    names = {path.name for path in folders}
    if folder == root:
        passed += [e.name for e in scan(folder) if e.name not in names and not _is_hidden(e.name)]
    return result


def _images(folder: Path, root: Path) -> tuple[list[Path], list[str]]:
    """Return the images in a folder and its folders, sorted, and the names of other files."""
    failed: list[OSError] = []
    images = []
    other_names = []
    for parent, inside, names in os.walk(folder, onerror=failed.append):
        links = [name for name in inside if os.path.islink(os.path.join(parent, name))]
        if links:
            raise DataError(
                f"class folders must hold images and folders; {os.path.join(parent, links[0])} is "
                "a link to a folder, which is not followed. Move the images, or remove the link."
            )
        for path in (Path(parent, name) for name in names):
            if path.suffix.lower() in SUFFIXES:
                images.append(path)
            elif not _is_hidden(path.name):
                other_names.append(path.relative_to(root).as_posix())
    if failed:
        failures = ", ".join(sorted(f"{e.filename}: {e.strerror}" for e in failed)[:SHOWN])
        ending = text_if(len(failed) > SHOWN, f" and {len(failed) - SHOWN} more")
        raise DataError(
            f"every folder in {root} must be readable; {failures}{ending}. Allow reading them, or "
            "move them away."
        )
    return sorted(images), sorted(other_names)


def _give_back(folder: Path, task: str | None, link: bool) -> Original:
    """Return the images of both parts, to be given back in the folders of their new classes."""
    source = _read(folder)
    parts = drop_none(source.train, source.val)
    val_y = None
    if source.val is not None:
        val_y = source.val.y
    encoded = encode_targets(source.train.y, val_y, (), "classification")
    y = np.concatenate([codes for codes in encoded[:2] if codes is not None])
    ids = np.concatenate([np.asarray(samples.ids) for samples in parts])
    depth = len(_parts(folder)[:1])

    def write(target: Path, keep: np.ndarray, labels: np.ndarray) -> np.ndarray:
        destinations = _new_paths(ids.tolist(), keep, [encoded[2][c] for c in labels], depth)
        for file in files_in(folder):
            if (destination := destinations.get(file, file)) is not None:
                hand_on(folder / file, target / destination, link=link)
        return compact(as_arrow(np.array([destinations[i] for i in ids[keep]], object), "ids"))

    return Original(ids, y, encoded[2], False, "", write)


def _new_paths(
    ids: list[str], keep: np.ndarray, labels: list[str], depth: int
) -> dict[str, str | None]:
    """Map paths to those in their class's folder, no name twice; None where one is removed."""
    # ids: paths within the folder; labels: of the class folders; depth: how many folders stand
    # above those. Of names that are taken the stem gets -2, -3, ...
    destinations: dict[str, str | None] = {}
    moved: list[tuple[str, PurePosixPath]] = []
    for name, stays, label in zip(ids, keep.tolist(), labels, strict=True):
        parts = PurePosixPath(name).parts
        is_moved = stays and parts[depth] != label
        if is_moved:
            moved.append((name, PurePosixPath(*parts[:depth], label, *parts[depth + 1 :])))
        destinations[name] = None
        if stays and not is_moved:
            destinations[name] = name
    # Without regard to case, as some disks keep names.
    occupied = {path.casefold() for path in destinations.values() if path is not None}
    for name, path in moved:
        unused = path
        number = 2
        while str(unused).casefold() in occupied:
            unused = path.with_name(f"{path.stem}-{number}{path.suffix}")
            number += 1
        occupied.add(str(unused).casefold())
        destinations[name] = str(unused)
    return destinations


FORMAT = Format(
    name="image folders",
    holds="one folder of images per class",
    is_folder=lambda folder: bool(_class_folders(folder)),
    asked_last=True,  # any folder of folders is one
    read=_read,
    give_back=_give_back,
)
