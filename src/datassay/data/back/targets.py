"""A table given back with several new targets, each 0 or 1."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Bool, Shaped

from datassay.data.back.original import Change, find_donors, ids_after


def give_back_targets(
    source: tuple[Path, str],
    names: tuple[Sequence[str], Sequence[str]],
    samples: tuple[np.ndarray, np.ndarray, np.ndarray],
    staying_rows: Callable[[np.ndarray], np.ndarray],
    give_back: Callable[[Path, Path, Change], None],
    folder: Path,
    keep: Bool[np.ndarray, " n"],
    labels: Shaped[np.ndarray, "n k"],
) -> np.ndarray:
    """Write a table with new targets, one after the other; return the ids of those that stay."""
    # source: the table and its name in the folder; names: of the targets, of all columns; samples:
    # their ids, rows of the table and targets. Rows go with the last target.
    path, file = source
    targets, columns = names
    ids, rows, y = samples
    new_y = np.where(keep[:, None], labels, y)
    changed = np.flatnonzero((new_y != y).any(0)).tolist() or [0]
    stays = staying_rows(keep)
    with TemporaryDirectory() as between:
        for j in changed:
            index = columns.index(targets[j])
            by_position = find_donors(y[:, j], new_y[:, j], ("0", "1"))
            donors = {int(rows[i]): int(rows[k]) for i, k in by_position.items()}
            is_last = j == changed[-1]
            goal = folder if is_last else Path(between, str(j))
            goal.mkdir(exist_ok=True)
            kept_rows = stays if is_last else np.ones_like(stays)
            give_back(path, goal / file, Change(targets[j], index, kept_rows, donors, {}))
            path = goal / file
    return ids_after(ids, keep, is_numbered=ids is rows)
