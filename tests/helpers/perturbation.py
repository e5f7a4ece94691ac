"""Initial weights moved by about a rounding error, to find tests whose verdict hangs on rounding.

`DATASSAY_PERTURB=1e-6` multiplies each freshly drawn weight by 1 + 1e-6 z, z standard normal;
`DATASSAY_PERTURB_SEED` draws other z. Constant starts (biases of 0, norms of 1) stay as they are.
"""

import functools
import os
import zlib

import torch

DRAWN = (
    "uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
    "kaiming_normal_", "orthogonal_", "sparse_",
)  # fmt: skip


def install():
    """Before anything that keeps a reference to torch's initialisers is imported."""
    if not scale():
        return
    for name in DRAWN:
        setattr(torch.nn.init, name, _perturbed(getattr(torch.nn.init, name)))
    from datassay.train import head_training

    head_training._Heads.start = _perturbed_heads(head_training._Heads.start)


def scale():
    return float(os.environ.get("DATASSAY_PERTURB", "0"))


def factor(weights):
    """1 + scale z of the weights' shape. The values themselves seed z, so that a network made
    twice from one seed stays the same twice; torch's global stream is not drawn from.
    """
    content = weights.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    seed = zlib.crc32(f"{os.environ.get('DATASSAY_PERTURB_SEED', '0')} {weights.shape}".encode())
    draw = torch.Generator().manual_seed(zlib.crc32(content, seed))
    z = torch.randn(weights.shape, generator=draw, dtype=torch.float64, device="cpu")
    return (1 + scale() * z).to(weights)


def _perturbed(initialise):
    @functools.wraps(initialise)
    def perturbed(tensor, *args, **settings):
        result = initialise(tensor, *args, **settings)
        if not tensor.is_meta and tensor.numel():
            with torch.no_grad():
                tensor.mul_(factor(tensor))
        return result

    return perturbed


def _perturbed_heads(start):
    """Of a seed, the M copies that differ in the samples' weights alone stay equal."""

    @functools.wraps(start)
    def perturbed(self, kind, given, seeds, m):
        theta = start(self, kind, given, seeds, m)
        if kind == "trained":  # the caller's weights
            return theta
        copies = theta.unflatten(2, (m, -1))  # [S, inputs, M, k]
        return (copies * factor(copies[:, :, :1])).flatten(2)

    return perturbed
