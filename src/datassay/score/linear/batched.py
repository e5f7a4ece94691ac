"""Many systems of equations at once, large ones one by one.

After torch.set_num_threads torch factorises a batch on several threads at once, which MKL does not
bear from about 150 rows on: it fails, or is wrong (torch's issue 142815).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Inexact
from torch import Tensor

# Rows of a system that is solved alone, its own threads busy; MKL's trouble begins above.
ONE_BY_ONE = 64


def solved(
    left: Inexact[Tensor, "*n b b"], right: Inexact[Tensor, "*n b c"]
) -> Inexact[Tensor, "*n b c"]:
    """left⁻¹ right of each system, as `torch.linalg.solve`; b³ operations each."""
    return _each(torch.linalg.solve, left, right)


def inverted(matrices: Inexact[Tensor, "*n b b"]) -> Inexact[Tensor, "*n b b"]:
    """Inverse of each matrix, as `torch.linalg.inv`; b³ operations each."""
    return _each(torch.linalg.inv, matrices)


def _each(call: Callable[..., Tensor], *given: Tensor) -> Tensor:
    if given[0].shape[-1] < ONE_BY_ONE or given[0].ndim == 2:
        return call(*given)
    flat = zip(*(one.flatten(0, -3) for one in given), strict=True)
    return torch.stack([call(*one) for one in flat]).reshape(given[-1].shape)
