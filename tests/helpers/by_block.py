"""Influence by blocks from its definition: dense Jacobians, one matrix per layer, float64."""

import torch
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional


def flat(tensors):
    """[n, p] of tensors of n samples."""
    return torch.cat([t.flatten(1) for t in tensors], 1)


def jacobians(model, x, names):
    """∂f/∂w of a block's tensors, [n, k, p]."""
    weights = {name: dict(model.named_parameters())[name].detach() for name in names}
    result = vmap(
        jacrev(lambda w, one: functional_call(model, w, (one[None],))[0]), in_dims=(None, 0)
    )(weights, x)
    return torch.cat([result[name].flatten(2) for name in names], 2)


def losses(f, y):
    """Cross-entropy of classes, half the squared error of values."""
    if y.is_floating_point():
        return (f - y).square().sum(-1) / 2
    return functional.cross_entropy(f, y, reduction="none")


def output_hessians(f, y):
    """[n, k, k]."""
    if y.is_floating_point():
        return torch.eye(f.shape[1]).to(f).expand(len(f), -1, -1)
    p = f.softmax(1)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None]


def gauss_newton(model, x, y, names, temperature=1.0):
    """(1/n) Σ Jᵀ S J of one block, of the loss T ℓ(f / T)."""
    j = jacobians(model, x, names)
    hessians = output_hessians(model(x).detach() / temperature, y) / temperature
    return torch.einsum("nkp,nkl,nlq->pq", j, hessians, j) / len(x)


def slopes(model, x, function, names):
    """∂/∂w of one number per sample, a function of its outputs, [n, p]."""
    f = model(x).detach().requires_grad_()
    (by_output,) = torch.autograd.grad(function(f).sum(), f)
    return torch.einsum("nkp,nk->np", jacobians(model, x, names), by_output)


def effects(
    model, blocks, train, queries, measure,
    damping=0.1, weight_decay=0.0, temperature=1.0, own_temperature=None,
):  # fmt: skip
    """−(1/n) Σ_b ∇ℓ_iᵀ (H_b + damping mean + weight_decay)⁻¹ ∇m_j, [n, m], and each one's own.

    H_b and ∇ℓ_i are of T ℓ(f / T); each one's own takes ∇ℓ_i at own_temperature, and that H_b.
    """
    x, y = train
    of_own = temperature if own_temperature is None else own_temperature
    total, own = 0.0, 0.0
    for names in blocks:
        hessian = gauss_newton(model, x, y, names, temperature)
        penalty = damping * hessian.diagonal().mean() + weight_decay
        inverse = torch.linalg.inv(hessian + penalty * torch.eye(len(hessian)).to(hessian))
        rows, alone = (
            slopes(model, x, lambda f, t=t: t * losses(f / t, y), names)
            for t in (temperature, of_own)
        )
        towards = slopes(model, queries[0], measure, names)
        total = total - rows @ inverse @ towards.T / len(x)
        own = own + (alone @ inverse * alone).sum(1) / len(x)
    return total, own
