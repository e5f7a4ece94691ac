"""S3 §3.5: teachers, their data, students trained on it, and the polynomial regression on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from datassay.polynomial import Polynomial, all_monomials, fit_polynomial

BATCH, CHUNK = 100, 2000
# What S3's text says of the teacher's weights, and what its printed polynomial (3.26) says.
LAWS = ("normal", "uniform")


@dataclass(frozen=True)
class Problems:
    """S teachers y = sum of relu(x W), b = 1, with their own samples; x is standard normal."""

    teacher: torch.Tensor  # [S, d, m]
    start: torch.Tensor  # [S, d, m], of the students: the teacher's law
    x: torch.Tensor  # [S, n, d]
    x_test: torch.Tensor

    def __len__(self) -> int:
        return len(self.teacher)


def problems(law: str, d: int, m: int, n: int, n_test: int, runs: int) -> Problems:
    """Weights of standard deviation 1/sqrt(d), or uniform in +-1/sqrt(d): a norm of 1 or 0.577."""
    rows = []
    for seed in range(runs):
        g = torch.Generator().manual_seed(seed)
        if law == "normal":
            w = torch.randn(2, d, m, generator=g) / d**0.5
        else:
            w = (2 * torch.rand(2, d, m, generator=g) - 1) / d**0.5
        x = torch.randn(n + n_test, d, generator=g)
        rows.append((w[0], w[1], x[:n], x[n:]))
    return Problems(*(torch.stack(parts) for parts in zip(*rows, strict=True)))


def outputs(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """[S, n, d], [S, d, m] to [S, n], some samples at a time."""
    return torch.cat([(c @ w).clamp_(min=0).sum(2) for c in x.split(CHUNK, dim=1)], dim=1)


def students(given: Problems, optimizer: str, lr: float, epochs: int) -> torch.Tensor:
    """The mean squared error of batches of 100 goes down by SGD or Adam; [S, d, m]."""
    # One run after the other: at these sizes batched products are slower than single ones.
    every = zip(given.x, outputs(given.x, given.teacher), given.start, strict=True)
    return torch.stack([
        _student(x, y, start, optimizer, lr, epochs, seed)
        for seed, (x, y, start) in enumerate(every)
    ])


def _student(x, y, start, optimizer: str, lr: float, epochs: int, seed: int) -> torch.Tensor:
    w = start.clone()
    how = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]([w], lr=lr)
    g = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=g).split(BATCH):
            inputs, before = x[rows], x[rows] @ w
            residual = before.clamp(min=0).sum(1) - y[rows]
            w.grad = inputs.T @ ((before > 0) * (2 / len(rows) * residual)[:, None])
            how.step()
    return w


def r2(y: torch.Tensor, found: torch.Tensor) -> list[float]:
    """1 - squared error over variance, one a run."""
    y, found = y.double(), found.double()
    error = ((y - found) ** 2).mean(1)
    return (1 - error / y.var(1, correction=0)).tolist()


def regression(x: np.ndarray, y: np.ndarray, degree: int) -> tuple[Polynomial, float]:
    """Least squares on all monomials, without ridge, in double precision; in-sample R²."""
    monomials = all_monomials(x.shape[1], degree)
    found = fit_polynomial(x, y[:, None], monomials, ridge=0.0, precision="float64").polynomial
    left = y - found.outputs(x)[:, 0]
    return found, 1 - float(left @ left) / float(((y - y.mean()) ** 2).sum())
