"""Read images from one folder a class, as torchvision's ImageFolder does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from datassay.data.source import Part, Source, reading
from datassay.errors import DataError

SUFFIXES = frozenset({
    ".bmp",
    ".gif",
    ".jpeg",
    ".jpg",
    ".pgm",
    ".png",
    ".ppm",
    ".tif",
    ".tiff",
    ".webp",
})
_VALIDATION = ("val", "validation", "test")


def read_image_folder(folder: Path) -> Source:
    """Images as x, the names of their folders as y, their paths within `folder` as ids.

    With a folder `train` inside, that is the training part, and the first of `val`, `validation`
    and `test` that is there is the validation part. Files that are no images are passed over.

    Args:
        folder: holds one folder a class, or `train` and the like above them.

    Returns:
        The source; x [n, channels, height, width] float32 in [0, 1], 1 channel where all are grey.
    """
    if not (folder / "train").is_dir():
        return Source(folder.name, _part(folder, folder), None, "classification", kind="image")
    held_out = [folder / name for name in _VALIDATION if (folder / name).is_dir()]
    return Source(
        folder.name,
        train=_part(folder / "train", folder),
        val=_part(held_out[0], folder) if held_out else None,
        task="classification",
        kind="image",
    )


def class_folders(folder: Path) -> list[Path]:
    """The folders in it that name classes, sorted; hidden ones and __MACOSX are none."""
    inside = (p for p in folder.iterdir() if p.is_dir() and not p.name.startswith((".", "__")))
    return sorted(inside)


def pixels(image: Any) -> np.ndarray:
    """A Pillow image as numbers.

    Args:
        image: any mode but 32-bit; transparency is dropped, palettes become colours.

    Returns:
        [channels, height, width] float32 in [0, 1], 1 channel for a grey image and else 3.

    Raises:
        DataError: 32 bits a pixel, whose white is not known.
    """
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() >= 0 and values.max() <= 65535:  # 16-bit grey; older Pillow calls it "I"
            return (values[None] / np.float32(65535)).astype(np.float32)
    if image.mode[0] in "IF":
        raise DataError(
            f"images must have 8 or 16 bits a channel; got mode {image.mode}. Save them as 8-bit."
        )
    if image.mode in {"1", "L", "LA"}:
        return np.asarray(image.convert("L"), dtype=np.float32)[None] / 255
    colours = np.asarray(image.convert("RGB"), dtype=np.float32)  # [h, w, 3]
    return np.ascontiguousarray(colours.transpose(2, 0, 1)) / 255


def _part(folder: Path, root: Path) -> Part:
    files, labels = [], []
    for class_folder in class_folders(folder):
        images = sorted(p for p in class_folder.rglob("*") if p.suffix.lower() in SUFFIXES)
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
    ids = [_id(p, root) for p in files]
    return Part(_stacked([_read(p) for p in files], ids), np.array(labels), np.array(ids))


def _id(path: Path, root: Path) -> str:
    name = path.relative_to(root).as_posix()
    if any("\udc80" <= c <= "\udcff" for c in name):  # bytes that Python could not decode
        raise DataError(
            f"image files and folders must have names in UTF-8; got {name!r}. Rename it."
        )
    return name


def _read(path: Path) -> np.ndarray:
    try:
        with reading(path), Image.open(path) as image:
            return pixels(image)
    except Image.DecompressionBombError as error:
        raise DataError(f"{path} is too large: {error}. Resize it before loading.") from error


def _stacked(images: list[np.ndarray], ids: list[str]) -> np.ndarray:
    size = images[0].shape[1:]
    odd = [i for i, image in enumerate(images) if image.shape[1:] != size]
    if odd:
        height, width = images[odd[0]].shape[1:]
        raise DataError(
            f"images must all have one size; {ids[0]} is {size[1]}×{size[0]}, but {len(odd)} of "
            f"{len(ids)} differ, the first {ids[odd[0]]} with {width}×{height}. Resize or crop "
            "them to one size, for example with Pillow's ImageOps.fit."
        )
    channels = max(len(image) for image in images)  # a grey image among coloured ones gets 3
    return np.stack([np.broadcast_to(image, (channels, *size)) for image in images])
