"""Groups that permute the pixels of a square image."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

GROUPS = ("shifts", "rotations")


def pixel_orders(group: str, side: int) -> Int[np.ndarray, "G p"]:
    """Permutation of the pixels by each member of the group: (gx) = x[order]."""
    # The identity is first. As matrices the members are orthogonal, and their inverses are members.
    # group: "shifts", all side² cyclic ones in the order of their rows, then columns, or
    # "rotations", by 0, 90, 180 and 270 degrees. side: of the image in pixels; p = side².
    grid = np.arange(side * side).reshape(side, side)
    if group == "rotations":
        return np.array([np.rot90(grid, k).ravel() for k in range(4)])
    shifts = ((down, right) for down in range(side) for right in range(side))
    return np.array([np.roll(grid, shift, axis=(0, 1)).ravel() for shift in shifts])
