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
    background_warning,
    choose_background,
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
    """Return the images of a folder as samples: class = folder's name, id = path in `folder`."""
    # With a folder `train` inside, that is the training part, and the first of `val`, `valid`, ...
    # that is there is the validation part. Files that are no images, those that cannot be read,
    # and folders with a page of ours are left out; the source's columns and warnings say so.
    other_names: list[str] = []
    broken: list[tuple[str, DataError]] = []
    parts = _find_parts(folder)
    images = [_read_part(path, folder, other_names, broken) for path in parts[:2] or [folder]]
    if parts:
        other_names += _names_beside(folder, parts)
    other_names = [name for name in other_names if name not in FILES]
    columns = [Column(path.name, "left out", note="a further part") for path in parts[2:]]
    if other_names:
        text = f"{len(other_names):,} files or folders that are no images: {_abridge(other_names)}"
        columns += [Column("beside the images", "left out", note=text)]
    sizes = [size for read in images for size in read.sizes]
    background = choose_background(sizes)
    train, *held_out = [read.samples(folder, background) for read in images]
    return Source(
        folder.name, train, take_first(held_out), "classification", kind="image",
        columns=tuple(columns),
        warnings=_describe_broken(broken, len(sizes)) + background_warning(sizes, background),
    )  # fmt: skip


def _describe_broken(broken: list[tuple[str, DataError]], n_read: int) -> tuple[str, ...]:
    """Return a warning of the images that cannot be read; () if all can."""
    n = len(broken)
    if not n:
        return ()
    names = _abridge([name for name, _ in broken])
    verb = inflect(n, "is", "are")
    text = f"{n:,} of {n + n_read:,} images cannot be read and {verb} left out: {names}. Of the "
    return (f"{text}first: {broken[0][1]}",)


def _names_beside(folder: Path, folders: list[Path]) -> list[str]:
    """Return the names in a folder beside some of its folders, but for hidden ones."""
    names = {path.name for path in folders}
    return [e.name for e in scan(folder) if e.name not in names and not _is_hidden(e.name)]


def _abridge(names: list[str]) -> str:
    """Return the first few names as ASCII, with commas between."""
    return ", ".join(map(ascii, names[:SHOWN])) + text_if(len(names) > SHOWN, ", ...")


def _find_parts(folder: Path) -> list[Path]:
    """Return the folders "train", "val", … if they hold class folders, training first; or []."""
    # A class may be called "train": its folder holds images and no folders of classes.
    folder_names = [e.name for e in scan(folder) if os.path.isdir(e)]
    candidates = [folder / name for name in parts_among(folder_names)]
    parts = [path for path in candidates if _list_class_folders(path)]
    if parts[:1] != candidates[:1]:
        return []
    return parts


def _list_class_folders(folder: Path) -> list[Path]:
    """Return the folders inside, one per class, without hidden ones and our own results."""
    inside = [folder / e.name for e in scan(folder) if os.path.isdir(e) and not _is_hidden(e.name)]
    classes = []
    for path in inside:
        with suppress(OSError), (path / _PAGE).open("rb") as file:
            if _MARK in file.read(4096):
                continue
        classes.append(path)
    return classes


def _is_hidden(name: str) -> bool:
    """Return whether a name is of a hidden file, or of what systems add, such as __MACOSX."""
    return name.startswith((".", "__"))


@dataclass(frozen=True, slots=True)
class _Part:
    """The images of one part."""

    files: list[Path]
    sizes: list[ImageSize]
    labels: list[str]

    def samples(self, root: Path, background: str) -> SourcePart:
        """Return the images as samples; transparent parts show this background."""
        x = np.zeros((len(self.files), 0), dtype=np.float32)  # pixels, or what an encoder makes
        ids = [path.relative_to(root).as_posix() for path in self.files]
        images = Pictures(tuple(self.files), tuple(self.sizes), background)
        return SourcePart(x, np.array(self.labels, object), np.array(ids, object), images=images)


def _read_part(
    folder: Path, root: Path, other_names: list[str], broken: list[tuple[str, DataError]]
) -> _Part:
    """Return the images of one part that can be read; add other files to the two lists."""
    result = _Part([], [], [])
    folders = _list_class_folders(folder)
    for class_folder in folders:
        images, names_of_others = _list_images(class_folder, root)
        other_names += names_of_others
        if not images:
            raise DataError(
                f"every class folder must hold images; {class_folder} holds none of "
                f"{', '.join(sorted(SUFFIXES))}. Remove it or fill it."
            )
        n_before = len(result.files)
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
        if len(result.files) == n_before:
            text = f"{class_folder} must hold an image that can be read; all {len(images):,} fail"
            raise DataError(f"{text}. Of the first: {broken[-len(images)][1]}")
        result.labels.extend([class_folder.name] * (len(result.files) - n_before))
    if not result.files:
        raise DataError(
            f"an image folder must hold one folder per class; {folder} holds none. Sort the images "
            "into folders named after their classes."
        )
    if folder == root:
        other_names += _names_beside(folder, folders)
    return result


def _list_images(folder: Path, root: Path) -> tuple[list[Path], list[str]]:
    """Return the images in a folder and its subfolders, sorted, and names of other files."""
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


def _open_original(folder: Path, task: str | None, may_link: bool) -> Original:
    """Return the images, to be written into the folders of their new classes."""
    source = _read(folder)
    parts = drop_none(source.train, source.val)
    val_y = None
    if source.val is not None:
        val_y = source.val.y
    y_train, y_val, classes = encode_targets(source.train.y, val_y, (), "classification")
    y = np.concatenate(drop_none(y_train, y_val))
    ids = np.concatenate([np.asarray(samples.ids) for samples in parts])
    depth = 1 if _find_parts(folder) else 0  # folders above those of the classes

    def write(target: Path, keep: np.ndarray, labels: np.ndarray) -> np.ndarray:
        destinations = _map_paths(ids.tolist(), keep, [classes[c] for c in labels], depth)
        for file in files_in(folder):
            destination = destinations.get(file, file)
            if destination is not None:
                hand_on(folder / file, target / destination, may_link=may_link)
        return compact(as_arrow(np.array([destinations[i] for i in ids[keep]], object), "ids"))

    return Original(ids, y, classes, is_numbered=False, file="", write=write)


def _map_paths(
    ids: list[str], keep: np.ndarray, labels: list[str], depth: int
) -> dict[str, str | None]:
    """Return each image's path → its path in the new class's folder; None if removed."""
    # ids: paths within the folder; labels: names of the new class folders; depth: number of folders
    # above those. Where a name is taken, the stem gets -2, -3, ...
    destinations: dict[str, str | None] = {}
    moved: list[tuple[str, PurePosixPath]] = []
    for name, stays, label in zip(ids, keep.tolist(), labels, strict=True):
        parts = PurePosixPath(name).parts
        destinations[name] = None
        if stays and parts[depth] == label:
            destinations[name] = name
        elif stays:
            moved.append((name, PurePosixPath(*parts[:depth], label, *parts[depth + 1 :])))
    # Without regard to case, as some disks keep names.
    occupied = {path.casefold() for path in destinations.values() if path is not None}
    for name, path in moved:
        new_path = path
        number = 2
        while str(new_path).casefold() in occupied:
            new_path = path.with_name(f"{path.stem}-{number}{path.suffix}")
            number += 1
        occupied.add(str(new_path).casefold())
        destinations[name] = str(new_path)
    return destinations


FORMAT = Format(
    name="image folders",
    holds="one folder of images per class",
    is_folder=lambda folder: bool(_list_class_folders(folder)),
    asked_last=True,  # any folder of folders is one
    read=_read,
    give_back=_open_original,
)
