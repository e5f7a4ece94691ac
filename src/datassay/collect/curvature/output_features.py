"""Jacobians of the outputs at one set of weights: dense rows, or one input shared by all outputs.

A dense last layer f = W x + b has J_i = I_k ⊗ x_iᵀ, so n (d + 1) numbers say what n k p would.
Everything a score needs of the Jacobians is one of the products below, in float64.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from datassay.results import result

# Values that one chunk of products may hold, 256 MiB in float64.
CHUNK_VALUES = 2**25


@result
class DenseFeatures:
    """Jacobian rows as they are.

    Attributes:
        jacobian: J, [n, k, p], output unit per weight unit.
    """

    jacobian: Float[Tensor, "n k p"]

    def __len__(self) -> int:
        return len(self.jacobian)

    @property
    def n_outputs(self) -> int:
        """Outputs a sample, k."""
        return self.jacobian.shape[1]

    @property
    def n_parameters(self) -> int:
        """Weights, p."""
        return self.jacobian.shape[2]

    def outputs(self, weights: Float[Tensor, "*batch p"]) -> Float[Tensor, "*batch n k"]:
        """J_i w."""
        flat = weights @ self.jacobian.flatten(0, 1).T
        return flat.reshape(*weights.shape[:-1], *self.jacobian.shape[:2])

    def gradients(self, slopes: Float[Tensor, "n k"]) -> Float[Tensor, "n p"]:
        """J_iᵀ r_i of each sample."""
        return torch.bmm(slopes[:, None], self.jacobian)[:, 0]

    def along(self, moves: Float[Tensor, "n p"]) -> Float[Tensor, "n k"]:
        """J_i Δ_i, each sample along a move of its own."""
        return torch.bmm(self.jacobian, moves[..., None])[..., 0]

    def pullback(self, slopes: Float[Tensor, "*batch n k"]) -> Float[Tensor, "*batch p"]:
        """Σ_i J_iᵀ r_i."""
        return slopes.flatten(-2) @ self.jacobian.flatten(0, 1)

    def curvature(self, inner: Float[Tensor, "*batch n k k"]) -> Float[Tensor, "*batch p p"]:
        """Σ_i J_iᵀ S_i J_i, S symmetric.  Cost: 2 n k p² operations for each of the batch."""
        p = self.n_parameters
        total = inner.new_zeros(*inner.shape[:-3], p, p)
        for rows in _chunks(len(self), self.n_outputs * p * inner.shape[:-3].numel()):
            j = self.jacobian[rows]
            weighted = inner[..., rows, :, :] @ j
            total += weighted.flatten(-3, -2).mT @ j.flatten(0, 1)
        return total

    def quadratic(self, middle: Float[Tensor, "p p"]) -> Float[Tensor, "n k k"]:
        """J_i M J_iᵀ.  Cost: 2 n k p² operations."""
        chunks = _chunks(len(self), self.n_outputs * self.n_parameters)
        parts = [self.jacobian[rows] for rows in chunks]
        return torch.cat([(j @ middle) @ j.mT for j in parts])

    def rows(self, part: slice) -> Float[Tensor, "chunk k p"]:
        """J of some samples."""
        return self.jacobian[part]

    def subset(self, keep: Tensor) -> DenseFeatures:
        """Those of the samples at `keep`."""
        return DenseFeatures(self.jacobian[keep])


@result
class SharedFeatures:
    """Jacobian of a dense layer f_a = w_aᵀ x: all outputs see the same input.

    Weights are [w_1, ..., w_k], flat, p = k d.

    Attributes:
        x: inputs of the layer, [n, d], with a column of ones where it has a bias.
        n_outputs: k.
    """

    x: Float[Tensor, "n d"]
    n_outputs: int

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_parameters(self) -> int:
        """Weights, p = k d."""
        return self.n_outputs * self.x.shape[1]

    def outputs(self, weights: Float[Tensor, "*batch p"]) -> Float[Tensor, "*batch n k"]:
        """J_i w."""
        by_output = weights.unflatten(-1, (self.n_outputs, -1))  # [*batch, k, d]
        return self.x @ by_output.mT

    def gradients(self, slopes: Float[Tensor, "n k"]) -> Float[Tensor, "n p"]:
        """J_iᵀ r_i of each sample."""
        return (slopes[:, :, None] * self.x[:, None]).flatten(1)

    def along(self, moves: Float[Tensor, "n p"]) -> Float[Tensor, "n k"]:
        """J_i Δ_i, each sample along a move of its own."""
        return torch.bmm(moves.unflatten(1, (self.n_outputs, -1)), self.x[..., None])[..., 0]

    def pullback(self, slopes: Float[Tensor, "*batch n k"]) -> Float[Tensor, "*batch p"]:
        """Σ_i J_iᵀ r_i."""
        return (slopes.mT @ self.x).flatten(-2)

    def curvature(self, inner: Float[Tensor, "*batch n k k"]) -> Float[Tensor, "*batch p p"]:
        """Σ_i J_iᵀ S_i J_i, S symmetric.  Cost: n k² d² operations, half that for a batch."""
        (n, d), k = self.x.shape, self.n_outputs
        batch = inner.shape[:-3]
        if batch and n * d * (d + 1) // 2 <= CHUNK_VALUES:
            blocks = self._curvature_blocks(inner)
        else:
            blocks = inner.new_empty(*batch, k, k, d, d)
            for a in range(k):
                for c in range(a, k):
                    block = (self.x * inner[..., a, c, None]).mT @ self.x
                    blocks[..., a, c, :, :] = block
                    blocks[..., c, a, :, :] = block
        return blocks.transpose(-3, -2).reshape(*batch, k * d, k * d)

    def _curvature_blocks(
        self, inner: Float[Tensor, "*batch n k k"]
    ) -> Float[Tensor, "*batch k k d d"]:
        """Σ_i S_i[a, c] x_i x_iᵀ: one product of matrices for the batch, of upper halves only."""
        (a, c), outputs = _upper(self.n_outputs)
        (i, j), inputs = _upper(self.x.shape[1])
        halves = inner[..., a, c].mT @ (self.x[:, i] * self.x[:, j])
        return halves[..., outputs, :][..., inputs]

    def quadratic(self, middle: Float[Tensor, "p p"]) -> Float[Tensor, "n k k"]:
        """J_i M J_iᵀ.  Cost: 2 n k² d² operations."""
        (n, d), k = self.x.shape, self.n_outputs
        products = middle.new_empty(n, k, k)
        for a in range(k):
            for c in range(k):
                block = middle[a * d : (a + 1) * d, c * d : (c + 1) * d]
                products[:, a, c] = ((self.x @ block) * self.x).sum(1)
        return products

    def rows(self, part: slice) -> Float[Tensor, "chunk k p"]:
        """J of some samples."""
        x, k = self.x[part], self.n_outputs
        return torch.einsum("ab,nd->nabd", torch.eye(k, dtype=x.dtype), x).flatten(2)

    def subset(self, keep: Tensor) -> SharedFeatures:
        """Those of the samples at `keep`."""
        return SharedFeatures(self.x[keep], self.n_outputs)


OutputFeatures = DenseFeatures | SharedFeatures


def _upper(size: int) -> tuple[Tensor, Tensor]:
    """Rows and columns of a square's upper half, and each of its places' position among them."""
    upper = torch.triu_indices(size, size)
    position = torch.empty(size, size, dtype=torch.int64)
    position[upper[0], upper[1]] = position[upper[1], upper[0]] = torch.arange(upper.shape[1])
    return upper, position


def _chunks(n: int, values_each: int) -> list[slice]:
    size = max(1, CHUNK_VALUES // max(1, values_each))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
