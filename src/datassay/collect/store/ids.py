"""Ids of samples as a store keeps them: integers, or UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int, UInt8


def encoded(
    ids: Mapping[str, np.ndarray],
) -> dict[str, Int[np.ndarray, " n"] | UInt8[np.ndarray, "n width"]]:
    """Ids of all parts as one type that Zarr's specification has.

    Args:
        ids: part → [n].

    Returns:
        Part → int64, or UTF-8 bytes filled up with zeros.
    """
    if all(np.can_cast(part.dtype, np.int64) for part in ids.values()):
        return {name: part.astype(np.int64) for name, part in ids.items()}
    texts = {name: np.char.encode(part.astype(str), "utf-8") for name, part in ids.items()}
    width = max(1, *(text.dtype.itemsize for text in texts.values()))
    return {
        name: text.astype(f"S{width}").view(np.uint8).reshape(len(text), width)
        for name, text in texts.items()
    }


def decoded(kept: np.ndarray) -> np.ndarray:
    """Ids from what a store keeps.

    Args:
        kept: from `encoded`.

    Returns:
        [n], integers or texts.
    """
    if kept.ndim == 1:
        return kept
    return np.char.decode(np.ascontiguousarray(kept).view(f"S{kept.shape[1]}")[:, 0], "utf-8")
