"""Samples as short rows of length 1: what the fit that chooses a keep-set works on."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.linearization import Features, Linearization

MOST_COLUMNS = 256
# Samples from which the leading directions are read; all of them would cost n p².
SEEN = {"features": 4096, "kernel": 1024}
# Directions below this share of the largest eigenvalue are rounding.
LEAST_SHARE = 1e-9
PANEL = 4096


def unit_rows(lin: Linearization, seed: int) -> Float[Tensor, "n q"]:
    """The samples in the leading directions of the averaged kernel, scaled to length 1."""
    # Lengths are left out because outliers, whose rows are long, would otherwise be kept first.
    # Cost: features of one row a sample: 4096 p² + p³ + 256 n p operations, read in panels. Of b
    # rows: 1024 n b p. A kernel: 1024³ + 1024 n q.
    # Source: Williams and Seeger (2001) for the kernel.
    n, whole = len(lin), lin.features is not None and lin.rows_per_sample == 1
    seen = np.random.default_rng((seed, 1)).permutation(n)
    seen = np.sort(seen[: SEEN["features" if whole else "kernel"]])
    if whole:
        rows = _projected(lin.features, seen)
    else:
        products = _products(lin, seen)  # [n, s]
        values, vectors = _leading(products[torch.as_tensor(seen)])
        rows = (products @ (vectors / values.sqrt())).float()
    return rows / rows.norm(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)


def _products(lin: Linearization, seen: np.ndarray) -> Float[Tensor, "n s"]:
    """The averaged kernel between all samples and some, without [n, n] where features are held."""
    if lin.features is None:
        kernel = lin.averaged().kernel
        assert kernel is not None
        return kernel[:, torch.as_tensor(seen)].double()
    b, features = lin.rows_per_sample, lin.features
    n, parts = len(lin), range(0, len(lin), PANEL)

    def read(a: int) -> Tensor:  # all rows of a sample side by side
        rows = features[a * b : min(a + PANEL, n) * b].double()
        return rows.reshape(-1, b * rows.shape[1])

    places = [torch.as_tensor(seen[(seen >= a) & (seen < a + PANEL)] - a) for a in parts]
    some = torch.cat([read(a)[here] for a, here in zip(parts, places, strict=True)])
    return torch.cat([read(a) @ some.T / b for a in parts])


def _projected(features: Features | None, seen: np.ndarray) -> Float[Tensor, "n q"]:
    assert features is not None
    n, p = features.shape
    parts = range(0, n, PANEL)
    if p <= MOST_COLUMNS:
        return torch.cat([features[a : a + PANEL].float() for a in parts])
    gram = torch.zeros(p, p, dtype=torch.float64)
    for a in parts:
        here = seen[(seen >= a) & (seen < a + PANEL)] - a
        part = features[a : min(a + PANEL, n)][torch.as_tensor(here)].double()
        gram += part.T @ part
    vectors = _leading(gram)[1].float()
    return torch.cat([features[a : min(a + PANEL, n)].float() @ vectors for a in parts])


def _leading(symmetric: Tensor) -> tuple[Float[Tensor, " q"], Float[Tensor, "p q"]]:
    values, vectors = torch.linalg.eigh(symmetric.double())
    wanted = values > LEAST_SHARE * values[-1]
    return values[wanted][-MOST_COLUMNS:], vectors[:, wanted][:, -MOST_COLUMNS:]
