"""Rows of few bits whose products with the queries' floats are inner products of long vectors.

N coordinates c are folded into K, a power of two, and mixed,

y = H Σ_j S_j c_j,    E ⟨y, y′⟩ = ⟨c, c′⟩,

with c_j the j-th K coordinates, S_j random signs, H Hadamard's matrix over √K. A row keeps y to
`bits` bits a coordinate, as s v with v among ±1/2, ±3/2, ..., and s = ‖y‖² / ⟨v, y⟩, with which
⟨s v, y⟩ = ‖y‖².
"""

import hashlib
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# Bits of a number; 32: float32, not rounded.
BITS = (32, 8, 4, 2, 1)
FLOAT = 32
FEWEST = 8  # numbers of a row that holds all coordinates
FOLDS = (1, 2, 4)  # coordinates that are added up, of numbers of 1 bit
ROWS_AT_ONCE = 8  # that are mixed and packed, so that they stay near the processor
# Steps of best uniform rounding of normal numbers, in deviations (Max, 1960), and the squared error
# that rounding adds to a product, over ‖c‖² ‖c′‖² / K: 1 / (1 − distortion) − 1. With 8 bits a step
# is the row's largest value over 127.5.
STEPS = {1: 1.0, 2: 0.9957, 4: 0.3352}
ROUNDING = {1: np.pi / 2 - 1, 2: 0.135, 4: 0.0117, 8: 7e-5, FLOAT: 0.0}


@dataclass(frozen=True, slots=True)
class Sketch:
    """How N coordinates become a row.

    Attributes:
        n_coordinates: N.
        width: K, of y.
        bits: of each number of y.
        seed: of signs, the same on every machine.
    """

    n_coordinates: int
    width: int
    bits: int
    seed: int

    @property
    def n_bytes(self) -> int:
        """Bytes of a row, without its scale."""
        return self.width * self.bits // 8

    @property
    def noise(self) -> float:
        """Variance of ⟨row, y′⟩ about ⟨c, c′⟩, over ‖c‖² ‖c′‖²."""
        folded = 1 - min(1.0, self.width / self.n_coordinates)
        return (folded + ROUNDING[self.bits]) / self.width

    @property
    def offset(self) -> float:
        """The difference v − level, the same for every number: 0 where rows are floats."""
        return {FLOAT: 0.0, 8: 0.5}.get(self.bits, (1 - 2**self.bits) / 2)

    def signs(self) -> Float[Tensor, " N"]:
        """Return random signs of the coordinates, −1 or 1, fixed by the seed."""
        n_bytes = ceil(self.n_coordinates / 8)
        drawn = hashlib.shake_256(f"signs {self.seed}".encode()).digest(n_bytes)
        bits = np.unpackbits(np.frombuffer(drawn, np.uint8), count=self.n_coordinates)
        return torch.from_numpy(bits.astype(np.float32) * 2 - 1)

    def mix(self, signed: Float[Tensor, "b N"]) -> Float[Tensor, "b width"]:
        """Return y of coordinates that were multiplied by their signs."""
        # A row's sums are taken in the same order whatever the batch. Cost: N + K log₂ K additions
        # a row.
        return torch.cat([self._mix_rows(rows) for rows in signed.split(ROWS_AT_ONCE)])

    def _mix_rows(self, signed: Float[Tensor, "b N"]) -> Float[Tensor, "b width"]:
        folded = signed.new_zeros(len(signed), self.width)
        for columns in signed.split(self.width, 1):
            folded[:, : columns.shape[1]] += columns
        return hadamard(folded)

    def pack(self, y: Float[Tensor, "b width"]) -> tuple[np.ndarray, Float[np.ndarray, " b"]]:
        """Return rows quantised and packed, [b, bytes], and their scales s, [b]."""
        batches = [self._pack_rows(rows) for rows in y.split(ROWS_AT_ONCE)]
        packed, scale = zip(*batches, strict=True)
        return np.concatenate(packed), np.concatenate(scale)

    def _pack_rows(self, y: Float[Tensor, "b width"]) -> tuple[np.ndarray, np.ndarray]:
        """Return the same as `pack`, for a few rows."""
        if self.bits == FLOAT:
            floats = y.float().contiguous().cpu().numpy()
            return floats.view(np.uint8), np.ones(len(y), np.float32)
        if self.bits == 1:
            product = y.abs().sum(1, dtype=torch.float64) / 2  # ⟨v, y⟩
            packed = np.packbits((y >= 0).cpu().numpy(), axis=1)
        else:
            levels = self._quantise(y)
            product = ((levels + 0.5) * y).sum(1, dtype=torch.float64)
            packed = self._pack_levels(levels)
        squares = (y * y).sum(1, dtype=torch.float64)
        # A row of zeros has the scale 0. A row that is not finite has a scale that is not.
        scale = torch.where(product == 0, 0.0, squares / torch.where(product == 0, 1.0, product))
        return packed, scale.float().cpu().numpy()

    def _quantise(self, y: Float[Tensor, "b width"]) -> Float[Tensor, "b width"]:
        """Return levels ⌊y / step⌋ as signed integers of `bits` bits; each row has its step."""
        half = 2 ** (self.bits - 1)
        if self.bits in STEPS:
            step = y.square().mean(1, dtype=torch.float64).sqrt() * STEPS[self.bits]
        else:
            step = y.abs().amax(1).double() / (half - 0.5)
        step = torch.where(step == 0, 1.0, step).to(y)  # of a row of zeros
        return (y / step[:, None]).floor_().clamp_(-half, half - 1)

    def _pack_levels(self, levels: Float[Tensor, "b width"]) -> np.ndarray:
        """Return levels as bytes, [b, n_bytes]; several share a byte below 8 bits."""
        if self.bits == 8:
            return levels.to(torch.int8).cpu().numpy().view(np.uint8)
        codes = (levels + 2 ** (self.bits - 1)).to(torch.uint8).cpu()
        codes = codes.view(len(levels), self.n_bytes, -1) << self._bit_shifts()
        return codes.sum(2, dtype=torch.uint8).numpy()

    def _bit_shifts(self) -> Tensor:
        """Return by how many bits each number in a byte is shifted, the first number the most."""
        return torch.arange(0, 8, self.bits, dtype=torch.uint8).flip(0)

    def levels(self, packed: np.ndarray) -> Tensor:
        """Return levels unpacked, [b, width]; a value is level + `offset`."""
        if self.bits == FLOAT:
            return torch.from_numpy(packed.view(np.float32))
        if self.bits == 8:
            return torch.from_numpy(packed.view(np.int8))
        if self.bits == 1:
            return torch.from_numpy(np.unpackbits(packed, axis=1).view(np.int8))
        codes = (torch.from_numpy(packed)[:, :, None] >> self._bit_shifts()) & (2**self.bits - 1)
        return codes.view(len(packed), self.width).view(torch.int8)


def sketches(n_coordinates: int, n_bytes: int, seed: int) -> list[Sketch]:
    """Return the possible sketches of at most n_bytes: few coordinates, or few bits each."""
    padded_width = 1 << max(n_coordinates - 1, FEWEST - 1).bit_length()
    results = []
    for bits in BITS:
        most_numbers = 8 * n_bytes // bits
        if most_numbers:
            largest_power = 1 << most_numbers.bit_length() - 1  # of two
            width = min(padded_width, largest_power)
            folds = FOLDS if bits == 1 else (1,)
            sizes = {min(n_coordinates, fold * width) for fold in folds}
            results += [Sketch(size, width, bits, seed) for size in sorted(sizes)]
    return results


def hadamard(y: Float[Tensor, "b width"]) -> Float[Tensor, "b width"]:
    """Return y times a column-permuted Hadamard matrix / √width."""
    b, width = y.shape
    # H = H_outer ⊗ H_inner, one after the other: numbers that are added lie near in memory.
    inner = 1 << (width.bit_length() - 1) // 2
    y = _transform_hadamard(y.view(b, width // inner, inner))
    y = _transform_hadamard(y.transpose(1, 2).contiguous())
    return y.view(b, width) / width**0.5


def _transform_hadamard(y: Float[Tensor, "b n inner"]) -> Float[Tensor, "b n inner"]:
    """Return the unscaled Walsh–Hadamard transform along the second axis."""
    b, n, inner = y.shape
    half = 1
    while half < n:
        pairs = y.view(b, n // (2 * half), 2, half, inner)
        y = torch.empty_like(y)
        result = y.view(pairs.shape)
        torch.add(pairs[:, :, 0], pairs[:, :, 1], out=result[:, :, 0])
        torch.sub(pairs[:, :, 0], pairs[:, :, 1], out=result[:, :, 1])
        half *= 2
    return y
