"""Samples as a network takes them: in its precision, or as whole numbers where it looks them up."""

from __future__ import annotations

import copy

import numpy as np
import torch
from jaxtyping import Num, Shaped
from torch import Tensor, nn

from datassay.collect.settings import check_device_name
from datassay.errors import ModelError, SettingError
from datassay.models.user_code import user_code

# What torch says where it was given floating-point numbers and looks up rows.
LOOKED_UP = ("indices", "index", "long", "int64")


def network_inputs(
    x: Shaped[np.ndarray | Tensor, "n ..."],
    model: nn.Module,
    dtype: torch.dtype,
    *,
    integers: bool | None = None,
) -> Num[Tensor, "n ..."]:
    """Samples as a network takes them: a copy, in that precision or int64."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    if integers is None:
        integers = takes_integers(model, x[:1])
    # Straight from the values given: a detour by float32 would round large numbers.
    return torch.as_tensor(x).to(device, torch.int64 if integers else dtype, copy=True)


def takes_integers(model: nn.Module, x: Shaped[np.ndarray | Tensor, "few ..."]) -> bool:
    """Whether a network runs on int64 and fails on floating-point numbers: ids of tokens."""
    # The first layers decide, not the type in which the samples are kept. False also where it fails
    # on both, unless it then asks for integers.
    if model.training:  # which would move the statistics of batch norm
        model = copy.deepcopy(model).eval()
    given = torch.as_tensor(x)
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
    error = _failure(model, given.to(like.device, like.dtype, copy=True))
    is_whole = not given.is_floating_point() or bool((given == given.floor()).all())
    if not error or not is_whole:
        return False
    asks = any(word in error.lower() for word in LOOKED_UP)
    return asks or not _failure(model, given.to(like.device, torch.int64, copy=True))


def _failure(model: nn.Module, x: Tensor) -> str:
    """What the network says to these inputs; empty where it takes them."""
    try:
        with user_code(str), torch.no_grad():
            model(x)
    except ModelError as error:
        return str(error)
    return ""


def check_device(device: str) -> str:
    """Refuse a device that is no "cpu", "cuda" or "cuda:1", or that torch does not find here."""
    check_device_name(device)
    named = torch.device(device)
    there = torch.cuda.device_count()
    if named.type == "cuda" and (named.index or 0) >= there:
        raise SettingError(
            f"device must be one that torch finds here; got {device!r} and {there} CUDA devices. "
            "Set 'cpu', or install the driver and a torch that was built for it."
        )
    return device
