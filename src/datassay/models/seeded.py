"""Draws that depend on a seed alone and leave torch's global stream as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Start torch's global stream at the seed, and put it back at the end.

    Args:
        seed: of every draw inside.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
