"""Samples as a network takes them: in its precision, or as integers where it looks them up."""

import numpy as np
import torch
from jaxtyping import Num, Shaped
from torch import Tensor, nn

from datassay.collect.jacobian.suitable import copy_network
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
    as_integers: bool | None = None,
) -> Num[Tensor, "n ..."]:
    """Return a copy of samples on the network's device, as `dtype` or int64 as it takes."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    if as_integers is None:
        as_integers = takes_integers(model, x[:1])
    # Straight from the values given: a detour by float32 would round large numbers.
    return torch.as_tensor(x).to(device, torch.int64 if as_integers else dtype, copy=True)


def takes_integers(model: nn.Module, x: Shaped[np.ndarray | Tensor, "few ..."]) -> bool:
    """Return whether a network takes int64 inputs and fails on floats, such as token ids."""
    # The first layers decide, not the type in which the samples are kept. False also where it fails
    # on both, unless its error on floats asks for integers.
    if model.training:  # which would move the statistics of batch norm
        model = copy_network(model).eval()
    values = torch.as_tensor(x)
    weight = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
    error = _try_inputs(model, values.to(weight.device, weight.dtype, copy=True))
    is_whole = not values.is_floating_point() or bool((values == values.floor()).all())
    if not error or not is_whole:
        return False
    asks_for_integers = any(word in error.lower() for word in LOOKED_UP)
    return asks_for_integers or not _try_inputs(
        model, values.to(weight.device, torch.int64, copy=True)
    )


def _try_inputs(model: nn.Module, x: Tensor) -> str:
    """Return the network's error message for inputs x; "" where it takes them."""
    try:
        with user_code(str), torch.no_grad():
            model(x)
    except ModelError as error:
        return str(error)
    return ""


def check_device(device: str) -> str:
    """Return the device's name; raise SettingError unless this machine has it."""
    check_device_name(device)
    requested = torch.device(device)
    count = torch.cuda.device_count()
    if requested.type == "cuda" and (requested.index or 0) >= count:
        raise SettingError(
            f"device must be one that torch finds here; got {device!r} and {count} CUDA devices. "
            "Set 'cpu', or install the driver and a torch that was built for it."
        )
    return device
