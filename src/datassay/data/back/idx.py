"""MNIST-style folders given back: labels and images of the training part in IDX files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from datassay.data.back.image_folder import files_in
from datassay.data.back.original import Original, donors, hand_on, ids_after
from datassay.data.files.idx import idx_part_files, read_idx
from datassay.data.targets import encode_targets

_CODES = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}


def original_idx_folder(folder: Path, *, link: bool) -> Original:
    """A folder of IDX files as it is stored.

    Args:
        folder: with a training part.
        link: whether files that do not change may be second names of the same files.

    Returns:
        Ids and labels of the training part; the test part is handed on.

    Raises:
        DataError: what `load` raises of such a folder.
    """
    images, labels = idx_part_files(folder, "train")
    stored = read_idx(labels)
    y, _, names = encode_targets(stored, None, (), "classification")
    ids = np.arange(len(y))

    def write(target: Path, keep: np.ndarray, new: np.ndarray) -> np.ndarray:
        rows = ids.copy()
        changed = donors(y, np.where(keep, new, y), names)
        rows[list(changed)] = list(changed.values())
        made = {labels.name: (labels, stored[rows][keep])}
        if not keep.all():
            made[images.name] = images, read_idx(images)[keep]
        for file in files_in(folder):
            if file not in made:
                hand_on(folder / file, target / file, link=link)
        for file, (like, values) in made.items():
            _write(target / file, values, like)
        return ids_after(ids, keep, is_numbered=True)

    return Original(ids, y, names, True, "", write)


def _write(path: Path, values: np.ndarray, like: Path) -> None:
    """An array as an IDX file, gzipped as another one is."""
    kind = f"{values.dtype.kind}{values.dtype.itemsize}"
    head = bytes([0, 0, _CODES[kind], values.ndim])
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    content = head + sizes + values.astype(values.dtype.newbyteorder(">")).tobytes()
    path.write_bytes(gzip.compress(content, mtime=0) if like.suffix == ".gz" else content)
