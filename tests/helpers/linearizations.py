"""Linearisations made from given Jacobians, without a model: all that the oracles need."""

import numpy as np
import torch

from datassay.collect.form import Form
from datassay.collect.linearization import Linearization


def form(representation, outputs, n_rows, n_features, n_outputs):
    return Form(
        representation=representation, outputs=outputs, projection=None, kind="coordinates",
        precision="float64", n_rows=n_rows, n_features=n_features, n_outputs=n_outputs,
        n_parameters=n_features, chunk=1, jacobian_bytes=0.0, result_bytes=0.0, flops=0.0,
        reason="made by hand",
    )  # fmt: skip


def linearization(phi, residual, val_phi=None, *, dual, labels=None, outputs=None):
    """From Φ [n, b, p], r [n, b, c]; f₀ is 0 unless `outputs` [n, k] is given."""
    n, b, c = residual.shape
    rows = phi.reshape(n * b, -1)
    val_rows = None if val_phi is None else val_phi.reshape(len(val_phi) * b, -1)
    targets = residual.reshape(n, b * c)
    f0 = torch.zeros_like(targets) if outputs is None else outputs
    return Linearization(
        outputs=f0,
        targets=targets + f0,
        ids=np.arange(n),
        labels=labels,
        class_names=() if labels is None else tuple(map(str, range(max(b * c, 2)))),
        kernel=rows @ rows.T if dual else None,
        features=None if dual else rows,
        val_outputs=None if val_phi is None else torch.zeros(len(val_phi), b * c).double(),
        val_kernel=val_rows @ rows.T if dual and val_rows is not None else None,
        val_features=None if dual else val_rows,
        form=form(
            "kernel" if dual else "features",
            "joint" if c == 1 else "averaged",
            n * b,
            rows.shape[1],
            b * c,
        ),
    )


def random_jacobians(n, b, c, p, m, seed, decay=0.0):
    """Φ, r, Φ_val with feature scales p^−decay; n and m samples of b rows, c columns."""
    g = torch.Generator().manual_seed(seed)
    scale = torch.arange(1, p + 1, dtype=torch.float64) ** -decay

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    return draw(n, b, p) * scale, draw(n, b, c), draw(m, b, p) * scale


def random_linearization(n, b, c, p, m, seed, decay=0.0, dual=True):
    """Of random Jacobians, with m validation samples."""
    return linearization(*random_jacobians(n, b, c, p, m, seed, decay), dual=dual)


def close(ours, oracle):
    """The issue's measure: |a − b| ≤ 1e-8 (|b| + 1e-6 max|b|)."""
    ours, oracle = np.asarray(ours), np.asarray(oracle)
    allowed = 1e-8 * (np.abs(oracle) + 1e-6 * np.abs(oracle).max())
    return bool((np.abs(ours - oracle) <= allowed).all())


def weights(phi, r, kind, eta, steps, penalty):
    """w − w₀ of one training run by the definition, from Φ [rows, p] and r [rows, c]."""
    if kind == "converged" and penalty == 0:
        return torch.linalg.pinv(phi, rtol=1e-10) @ r
    kernel = phi @ phi.T
    z, q = torch.linalg.eigh(kernel)
    z = z.clamp_min(0)
    if kind == "converged":
        g = 1 / (z + penalty)
    elif kind == "flow":
        x = eta * steps * (z + penalty)
        g = torch.where(x > 0, -torch.expm1(-x) / (z + penalty), eta * steps)
    else:
        x = eta * (z + penalty)
        power = torch.where(
            x < 1, torch.exp(steps * torch.log1p(-x.clamp_max(1 - 1e-16))), (1 - x) ** steps
        )
        g = torch.where(x > 0, (1 - power) / (z + penalty), eta * steps)
    return phi.T @ (q @ (g[:, None] * (q.T @ r)))


def trainings(phi, r, kind, eta, steps, penalty, groups=None, reduction="sum"):
    """Weights trained on all samples [p, c], and without each group, else each sample [g, p, c].

    eta and penalty are those of the sum loss of all samples.
    """

    def trained(keep):
        share = 1.0 if reduction == "sum" else len(keep) / len(r)
        decay = penalty * (share if reduction == "mean" else 1.0)
        x, y = phi[keep].flatten(0, 1), r[keep].flatten(0, 1)
        return weights(x, y, kind, eta / share, steps, decay)

    every, groups = np.arange(len(r)), range(len(r)) if groups is None else groups
    return trained(every), torch.stack([trained(np.setdiff1d(every, group)) for group in groups])


def brute_force(phi, r, val_phi, kind, eta, steps, penalty, reduction="sum"):
    """held_out [n, k], prediction_change [n], weight_change [n], one retraining per sample."""
    full, without = trainings(phi, r, kind, eta, steps, penalty, reduction=reduction)
    held, change = torch.einsum("nbp,npc->nbc", phi, without).flatten(1), full - without
    prediction = (val_phi.flatten(0, 1) @ change).square().sum((1, 2))
    return held, prediction, change.square().sum((1, 2))


FORMS = ["dual", "singular dual", "primal"]
