"""Features of the averaged kernel, seen from some of the samples: the Nyström method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.jacobian.blocks import Block
from datassay.collect.jacobian.kernel import kernel

# Eigenvalues of the landmarks' kernel below this share of the largest are left out: they are
# rounding, and their inverse root would make features of it.
RANK_CUT = 1e-12


@dataclass(frozen=True, slots=True)
class Landmarks:
    """Samples from which the kernel is seen.

    Attributes:
        blocks: their Jacobian blocks.
        roots: Θ_mm^(−1/2) in their kernel's eigenbasis, [m, m]; columns of zeros where it has none.
        device: where products with them are computed.
    """

    blocks: Mapping[str, Block]
    roots: Float[Tensor, "m m"]
    device: str = "cpu"

    def features(self, blocks: Mapping[str, Block]) -> Float[Tensor, "rows m"]:
        """Φ with ΦΦᵀ = Θ_nm Θ_mm⁺ Θ_mn.

        Args:
            blocks: of any samples.

        Returns:
            Their features, float64.

        Cost: a kernel of rows x m, and 2 rows m² operations.
        """
        columns = kernel(dict(blocks), dict(self.blocks), "averaged", device=self.device)
        return columns @ self.roots


def landmarks(blocks: Mapping[str, Block], *, device: str = "cpu") -> Landmarks:
    """Make samples landmarks.

    Args:
        blocks: Jacobian blocks of m samples.
        device: where products with them are computed.

    Returns:
        The landmarks.

    Cost: their kernel, and 15 m³ operations.
    Source: Williams and Seeger (2001). Exact for the landmarks themselves, and for all samples
    where m reaches the kernel's rank.
    """
    within = kernel(dict(blocks), dict(blocks), "averaged", device=device)
    eigenvalues, vectors = torch.linalg.eigh((within + within.T) / 2)
    is_kept = eigenvalues > RANK_CUT * eigenvalues[-1].clamp_min(0)
    roots = torch.where(is_kept, eigenvalues, torch.inf).rsqrt()
    return Landmarks(blocks, vectors * roots, device)


def landmark_positions(ids: np.ndarray, n_landmarks: int, seed: int) -> Int[np.ndarray, " m"]:
    """The landmarks, drawn at random.

    Args:
        ids: [n], of the samples; the order of the rows is no matter.
        n_landmarks: m, at most n.
        seed: of the draw.

    Returns:
        Their positions, ascending.
    """
    by_id = np.argsort(ids, kind="stable")
    return np.sort(by_id[np.random.default_rng(seed).permutation(len(ids))[:n_landmarks]])
