"""Fingerprints: what results depend on, as plain JSON values that a manifest keeps."""

from __future__ import annotations

import re

import numpy as np
import torch
from torch import Tensor, nn

from datassay.collect.jacobian.suitable import unwrapped
from datassay.collect.model_code import code_fingerprint
from datassay.data.samples import SampleSet
from datassay.store.manifest import CODE, digest


def model_fingerprint(model: nn.Module) -> dict[str, object]:
    """A network's architecture as it prints, weights and buffers, and code: one entry a cause."""
    model = unwrapped(model)
    # A function kept in a module prints with its place in memory.
    printed = re.sub(r" at 0x[0-9a-f]+", "", str(model))
    return {"model": printed, "weights": weights_digest(model), CODE: code_fingerprint(model)}


def weights_digest(model: nn.Module) -> str:
    """SHA-256 of a network's weights and buffers, 64 hexadecimal digits."""
    state = unwrapped(model).state_dict()
    return digest({name: _values(t.detach().cpu()) for name, t in state.items()})


def _values(tensor: Tensor) -> np.ndarray:
    """As NumPy holds them: bfloat16 it does not know, every value of it is one of float32."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def frozen_fingerprint(model: nn.Module) -> dict[str, object]:
    """Which parameters training leaves as they are: one entry, or none where all of them train."""
    named = unwrapped(model).named_parameters()
    frozen = [name for name, p in named if not p.requires_grad]
    return {"frozen tensors": frozen} if frozen else {}


def machine_fingerprint(model: nn.Module) -> dict[str, object]:
    """Library and machine facts that may change the last bits of a network's derivatives."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    return {
        "torch": torch.__version__,
        "device": device.type,
        "processor": torch.backends.cpu.get_cpu_capability(),
    }


def samples_fingerprint(samples: SampleSet | None) -> str:
    """Inputs, targets and ids of a set: 64 hexadecimal digits, or "none"."""
    if samples is None:
        return "none"
    ids = samples.ids if samples.ids.dtype.kind in "iuSU" else samples.ids.astype(str)
    return digest({"x": samples.x, "y": samples.y, "ids": ids})
