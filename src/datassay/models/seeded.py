"""Draw random numbers from a seed without changing torch's global generator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator, and restore its state at the end.

    Args:
        seed: of every draw inside.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
