"""Small networks of S0's Table 1: all seeds and all weightings of the samples in one program.

Networks of one seed start alike and see the same batches, so that differences between weightings
are paired. Weights of mean 1: (1/b) Σ w ℓ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

KEEP_EVERY = 50  # epochs between two looks


@dataclass(frozen=True)
class Training:
    """Width of the hidden ReLU layer (None: linear) and how it is trained."""

    units: int | None
    optimizer: str
    lr: float
    epochs: int
    batch_size: int
    loss: str = "cross_entropy"  # one output: binary


def mlps(
    x: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    how: Training,
    seeds: Sequence[int],
    rescale: bool = True,
):
    """Parameters of [seeds * weightings] networks, seeds outermost: the last epoch's and `Kept`.

    Args:
        x: [n, d].
        y: [n], {0, 1} or numbers.
        weights: [V, n], any scale.
        how: the recipe.
        seeds: of weights (Glorot, zero bias) and batches.
        rescale: weights to mean 1.
    """
    inputs, targets = torch.tensor(x).float(), torch.tensor(y).float()[:, None]
    w = torch.tensor(weights / weights.mean(1, keepdims=True) if rescale else weights).float()
    n_weightings = len(w)
    layers = _start(x.shape[1], how.units, seeds, n_weightings)
    flat = [p for pair in layers for p in pair]
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[how.optimizer]
    optimizer = kind(flat, lr=how.lr, **({"eps": 1e-7} if how.optimizer == "adam" else {}))
    kept = Kept(layers, x, y)
    every = KEEP_EVERY * -(-len(x) // how.batch_size)
    for update, batch in enumerate(_batches(inputs, targets, w, how, seeds), 1):
        _write_gradients(layers, *batch, how.loss)
        optimizer.step()
        if update % every == 0 and how.loss != "mse":
            kept.look(layers)
    return layers, kept.layers


class Kept:
    """Each network as it was when it first had its highest accuracy on the training samples."""

    def __init__(self, layers, x: np.ndarray, y: np.ndarray):
        self.x, self.y = x, torch.tensor(y) > 0
        self.layers = [tuple(p.clone() for p in pair) for pair in layers]
        self.best = torch.full((len(layers[0][0]),), -1.0)

    def look(self, layers) -> None:
        """Note which networks have never been better."""
        right = ((outputs(layers, self.x) > 0) == self.y).float().mean(1)
        better = right > self.best
        self.best = torch.where(better, right, self.best)
        for kept, now in zip(self.layers, layers, strict=True):
            for old, new in zip(kept, now, strict=True):
                old[better] = new[better]


@torch.no_grad()
def outputs(layers, x: np.ndarray) -> Tensor:
    """[networks, m], of the last layer: logits for cross-entropy."""
    h = torch.tensor(x).float().expand(len(layers[0][0]), -1, -1)
    for i, (w, b) in enumerate(layers):
        h = torch.baddbmm(b, h, w)
        h = h if i == len(layers) - 1 else h.relu()
    return h[..., 0]


def _start(d: int, units: int | None, seeds: Sequence[int], n_weightings: int):
    sizes = [(d, 1)] if units is None else [(d, units), (units, 1)]
    streams = [torch.Generator().manual_seed(s) for s in seeds]
    layers = []
    for a, b in sizes:
        w = torch.stack([2 * torch.rand(a, b, generator=g) - 1 for g in streams])
        w = (w * math.sqrt(6 / (a + b))).repeat_interleave(n_weightings, 0)
        layers.append((w, torch.zeros(len(w), 1, b)))
    return layers


def _batches(x: Tensor, y: Tensor, w: Tensor, how: Training, seeds: Sequence[int]):
    """Inputs, targets and weights over the batch size, [S V, b, ...], for every update."""

    def batch(rows: Tensor):
        return (
            x[rows].repeat_interleave(len(w), 0),
            y[rows].repeat_interleave(len(w), 0),
            w[:, rows].transpose(0, 1).flatten(0, 1)[..., None] / rows.shape[1],
        )

    if how.batch_size >= len(x):
        whole = batch(torch.arange(len(x)).expand(len(seeds), -1))
        for _ in range(how.epochs):
            yield whole
        return
    stream = torch.Generator().manual_seed(2**20 + seeds[0])
    for _ in range(how.epochs):
        order = torch.rand(len(seeds), len(x), generator=stream).argsort(1)
        for rows in order.split(how.batch_size, 1):
            yield batch(rows)


def _write_gradients(layers, x: Tensor, y: Tensor, w: Tensor, loss: str) -> None:
    (w_out, b_out), h = layers[-1], x
    if len(layers) > 1:
        h = torch.baddbmm(layers[0][1], x, layers[0][0]).relu_()
    out = torch.baddbmm(b_out, h, w_out)
    if loss == "mse_of_sigmoid":  # what the paper's code minimises on double moon
        p = out.sigmoid()
        slope = 2 * (p - y) * p * (1 - p) * w
    else:
        slope = (out.sigmoid() - y if loss == "cross_entropy" else 2 * (out - y)) * w
    w_out.grad, b_out.grad = h.mT @ slope, slope.sum(1, keepdim=True)
    if len(layers) > 1:
        back = (slope @ w_out.mT) * (h > 0)
        layers[0][0].grad, layers[0][1].grad = x.mT @ back, back.sum(1, keepdim=True)


def linear_by_moments(designs, targets, weights, seeds: Sequence[int], how: Training) -> Tensor:
    """As `mlps` for linear regressions on different data each: only X'WX and X'Wy are needed.

    Args:
        designs: B matrices [n, d].
        targets: B vectors [n].
        weights: B vectors [n].
        seeds: B seeds.
        how: full-batch Adam.

    Returns:
        [B, d + 1], the intercept last.
    """
    gram, right, start = [], [], []
    for x, y, w, seed in zip(designs, targets, weights, seeds, strict=True):
        a = np.c_[x, np.ones(len(x))]
        v = (w / w.sum())[:, None]
        gram.append(2 * a.T @ (v * a))
        right.append(2 * a.T @ (v[:, 0] * y))
        draw = torch.rand(x.shape[1], 1, generator=torch.Generator().manual_seed(seed))
        start.append(
            torch.cat([(2 * draw - 1) * math.sqrt(6 / (x.shape[1] + 1)), torch.zeros(1, 1)])
        )
    theta = torch.stack(start).double()
    gram, right = (torch.tensor(np.stack(t)) for t in (gram, right))
    optimizer = torch.optim.Adam([theta], lr=how.lr, eps=1e-7)
    for _ in range(how.epochs):
        theta.grad = torch.baddbmm(right[..., None], gram, theta, beta=-1)
        optimizer.step()
    return theta[..., 0]
