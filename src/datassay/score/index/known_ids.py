"""Ids of an index's samples: those asked for, and those that are new."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from jaxtyping import Int

from datassay.errors import DataError


def places_of(
    groups: Mapping[str, Collection[object]], ids: np.ndarray
) -> list[Int[np.ndarray, " s"]]:
    """Positions of each group's samples; unknown ids and empty groups are refused."""
    known = {str(one): place for place, one in enumerate(ids.tolist())}
    found = []
    for name, some in groups.items():
        lost = [one for one in some if str(one) not in known]
        if lost:
            which = ", ".join(map(repr, lost[:3])) + (", ..." if len(lost) > 3 else "")
            raise DataError(f"groups must hold ids of the index; {name!r} has {which}.")
        if not len(some):
            raise DataError(f"a group must hold at least 1 id; {name!r} is empty.")
        found.append(np.array([known[str(one)] for one in some]))
    return found


def new_ids(ids: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Ids of appended samples; those that were only counted are counted on, known ones refused."""
    n = len(there)
    counted = ids.dtype.kind in "iu" and there.dtype.kind in "iu"
    if counted and (ids == np.arange(len(ids))).all() and (there == np.arange(n)).all():
        return ids + n
    double = np.isin(ids.astype(str), there.astype(str))
    if double.any():
        which = ", ".join(map(repr, ids[double][:3].tolist()))
        raise DataError(
            f"ids of appended samples must be new; the index has {which} already. Leave out the "
            "samples that it has, or give these others."
        )
    return ids


def check_unique(ids: np.ndarray) -> None:
    """Refuse two samples of one id."""
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        which = ", ".join(map(repr, values[counts > 1][:3].tolist()))
        raise DataError(f"ids must be unique; {which} occurs more than once.")
