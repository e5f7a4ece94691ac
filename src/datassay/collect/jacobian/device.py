"""Where Jacobians and the products over all rows are computed: the processor or an accelerator."""

from __future__ import annotations

import torch

from datassay.errors import SettingError


def check_device(device: str) -> str:
    """Check that the device exists before any work is done.

    Args:
        device: "cpu", "cuda" or "cuda:1" and so on.

    Returns:
        The same.

    Raises:
        SettingError: not such a name, or this machine has no such device that torch can use.
    """
    try:
        named = torch.device(device)
    except (RuntimeError, TypeError):
        named = torch.device("meta")
    if named.type not in {"cpu", "cuda"}:
        raise SettingError(
            f"device must be 'cpu', 'cuda' or one of several as 'cuda:0'; got {device!r}. Others "
            "lack float64."
        )
    there = torch.cuda.device_count()
    if named.type == "cuda" and (named.index or 0) >= there:
        raise SettingError(
            f"device must be one that torch finds here; got {device!r} and {there} CUDA devices. "
            "Set 'cpu', or install the driver and a torch that was built for it."
        )
    return device
