"""A run, and the Lyapunov equation by brute force."""

import torch
from scipy.linalg import solve_continuous_lyapunov

RUN = {"lr": 1e-3, "steps": 300, "weight_decay": 0.5}


def lyapunov(phi, r, trained, column, run, batch):
    """Σ of H Σ + Σ H = n²(η/b) Λ in weight space, by Bartels and Stewart."""
    n = len(r)
    flat = phi.flatten(0, 1)
    error = (phi @ trained - r)[..., column]  # [n, b]
    g = torch.einsum("nbp,nb->pn", phi, error)
    noise = g @ g.T / n - torch.outer(g.mean(1), g.mean(1))
    hessian = flat.T @ flat + run["weight_decay"] * torch.eye(flat.shape[1])
    right = (n**2 * run["lr"] / batch * noise).numpy()
    return solve_continuous_lyapunov(hessian.numpy(), right)
