"""Data as they are stored: their ids and labels, and how they are given back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Shaped

from datassay.errors import DataError
from datassay.results import result

Write = Callable[[Path, Bool[np.ndarray, " n"], Shaped[np.ndarray, " n *k"]], np.ndarray]
"""Called with an empty folder, which samples stay, and the labels of all; gives the new ids of
those that stay."""


@result
class Original:
    """One data set as it is stored.

    Attributes:
        ids: [n], of all samples that decisions can be about, whichever part they are in.
        y: [n] class indices, or [n] or [n, k] targets, as `load` gives them.
        class_names: in index order; empty: y holds targets.
        is_numbered: whether ids are places in the data: when samples go, later ones move up.
        file: name of the file in the folder that `write` fills; empty: that folder is the data.
        write: gives the data back.
        notes: what the user must know of what is given back.
    """

    ids: Shaped[np.ndarray, " n"]
    y: Shaped[np.ndarray, " n *k"]
    class_names: tuple[str, ...]
    is_numbered: bool
    file: str
    write: Write
    notes: tuple[str, ...] = ()


def ids_after(
    ids: Shaped[np.ndarray, " n"], keep: Bool[np.ndarray, " n"], *, is_numbered: bool
) -> np.ndarray:
    """The ids that samples have when some are gone.

    Args:
        ids: of all samples, ascending where they are places.
        keep: which stay.
        is_numbered: whether ids are places, so that later samples move up.

    Returns:
        [kept].
    """
    return (ids - np.cumsum(~keep))[keep] if is_numbered else ids[keep]


def donors(
    y: Shaped[np.ndarray, " n"], new: Shaped[np.ndarray, " n"], class_names: tuple[str, ...]
) -> dict[int, int]:
    """For each sample with another class a sample that has that class already.

    How the class is written there is how it is written: quotes, decimals, type and all.

    Args:
        y: class indices.
        new: the ones to be.
        class_names: in index order.

    Returns:
        Position → position.

    Raises:
        DataError: no sample has a class that is named.
    """
    first = {int(c): int(place) for c, place in zip(*np.unique(y, return_index=True), strict=True)}
    changed = np.flatnonzero(new != y)
    if absent := sorted({class_names[int(c)] for c in new[changed] if int(c) not in first}):
        raise DataError(
            f"a new label must be one that the data have; no sample has {', '.join(absent)}. Add "
            "one, so that it is known how that class is written there."
        )
    return {int(i): first[int(new[i])] for i in changed}


def hand_on(source: Path, target: Path, *, link: bool) -> None:
    """The same file in another place: a second name for it where that is possible, else a copy.

    Args:
        source: the file; of a link what it leads to.
        target: where it goes; its folder is made.
        link: whether a second name will do.

    Raises:
        OSError: it cannot be read or written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if link:
        try:
            os.link(os.path.realpath(source), target)
            return
        except OSError:  # another disk, or a file system without links
            pass
    shutil.copy2(source, target)
