"""What becomes of a table's rows, and how new labels are written as the table writes them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Bool, Shaped

from datassay.errors import DataError
from datassay.results import result


@result
class Change:
    """What becomes of a table's rows.

    Attributes:
        column: name of the label's column.
        index: of that column among all.
        keep: [rows], which rows stay.
        donor: row → another row, whose label it gets as it is written there.
        number: row → the target it gets.
    """

    column: str
    index: int
    keep: Bool[np.ndarray, " rows"]
    donor: dict[int, int]
    number: dict[int, float | str]  # a string where the column has numbers in words of its own


def find_donors(
    y: Shaped[np.ndarray, " n"], labels: Shaped[np.ndarray, " n"], class_names: tuple[str, ...]
) -> dict[int, int]:
    """Map each relabelled sample to one of its new class, whose stored label is copied."""
    # y and labels: before and after, class indices. With the stored text its quotes, number format
    # and type are copied.
    classes, positions = np.unique(y, return_index=True)
    first_of_class = dict(zip(classes.tolist(), positions.tolist(), strict=True))
    changed = np.flatnonzero(labels != y)
    absent = {class_names[int(c)] for c in labels[changed] if int(c) not in first_of_class}
    if absent:
        raise DataError(
            "a new label must be one that the data have; no sample has "
            f"{', '.join(sorted(absent))}. Add one, so that it is known how that class is written "
            "there."
        )
    return {int(i): first_of_class[int(labels[i])] for i in changed}


def ids_after(
    ids: Shaped[np.ndarray, " n"], keep: Bool[np.ndarray, " n"], *, is_numbered: bool
) -> np.ndarray:
    """Return the ids that samples have when some are removed, [kept]."""
    # is_numbered: whether ids are positions, so that later samples move up.
    if is_numbered:
        return (ids - np.cumsum(~keep))[keep]
    return ids[keep]


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
