"""Gradient descent on a first dense layer's preactivations instead of its weights."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from datassay.results import result
from datassay.train.batches import Batch


@result
class FunctionSpace:
    """Full-batch descent of the first layers, moved from weight space to the samples.

    W₁ − W₁(0) = C X stays in the span of the shared inputs X, and a gradient step on W₁ is one on
    C with the gradient of the preactivations Z. With K = XXᵀ + 1 (the 1 is the bias), Z = Z(0) +
    C K: 2 n² operations a unit and step instead of 4 n·inputs.

    Attributes:
        layer: what precedes the first layer's "weight" and "bias": "1.", or "".
        start: parameter name → [S, *shape], all starting weights.
        x: [n, inputs].
    """

    layer: str
    start: dict[str, Tensor]
    x: Float[Tensor, "n inputs"]

    def coordinates(self) -> dict[str, Tensor]:
        """The weights to descend on: C = 0 in place of the first layer's, [S, units, n]."""
        weight = self.start[f"{self.layer}weight"]
        c = weight.new_zeros(*weight.shape[:2], len(self.x))
        rest = {n: w for n, w in self.start.items() if n != f"{self.layer}bias"}
        return rest | {f"{self.layer}weight": c}

    def offset(self) -> Float[Tensor, "S units n"]:
        """Z(0)."""
        bias = self.start.get(f"{self.layer}bias")
        z = self.start[f"{self.layer}weight"] @ self.x.T
        return z if bias is None else z.add_(bias[..., None])

    def kernel(self, batch: Batch) -> Batch:
        """The batch with K for its inputs."""
        bias = f"{self.layer}bias" in self.start
        return replace(batch, x=(self.x @ self.x.T).add_(float(bias)))

    def weights(self, coordinates: dict[str, Tensor]) -> dict[str, Tensor]:
        """All weights again."""
        weight, bias = f"{self.layer}weight", f"{self.layer}bias"
        c = coordinates[weight]
        weights = coordinates | {weight: self.start[weight] + c @ self.x}
        if bias in self.start:
            weights[bias] = self.start[bias] + c.sum(2)
        return {name: weights[name] for name in self.start}
