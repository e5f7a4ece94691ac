"""Any network of timm, PyTorch Image Models, from its hub or a folder: `features:timm:NAME`."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from datassay.errors import ModelError
from datassay.models.backbones.encoder import Embedded, Encoder, check_installed, image_embedded
from datassay.models.backbones.pixels import PixelPreparation
from datassay.models.user_code import user_code

PREFIX = "timm:"


def image_model(name: str) -> Encoder:
    """Load a network of timm without its last layer, and its own preparation of images."""
    check_installed(name, "timm", "timm")
    with user_code(
        lambda error: (
            f"encoder features:{name} must be a pretrained network of timm; it raised {error} "
            "Check the name (timm.list_pretrained()) or the network."
        )
    ):
        import timm

        _check_no_pickle(name, timm.models.load_state_dict)
        network: Any = timm.create_model(name.removeprefix(PREFIX), pretrained=True, num_classes=0)
        network.float().eval().requires_grad_(False)
        size, *scaling = (
            timm.data.resolve_model_data_config(network)[key]
            for key in ("input_size", "mean", "std", "crop_pct", "interpolation")
        )
    prepare = PixelPreparation(size[-1], *scaling)

    def embed(prepared: list[Any], device: torch.device) -> Embedded:
        return image_embedded(network(torch.stack(prepared).to(device)).flatten(1))

    recipe = f"{name.removeprefix(PREFIX)} of timm; {prepare.words}"
    return Encoder(name, "image", recipe, network, network.num_features, prepare, embed)


def _check_no_pickle(name: str, load_state_dict: Callable[..., Any]) -> None:
    """Refuse a timm whose function unpickles files of weights."""
    weights_only = inspect.signature(load_state_dict).parameters.get("weights_only")
    if weights_only is None or weights_only.default is not True:
        raise ModelError(
            f"encoder features:{name} needs a timm that reads weights only; this one would "
            "unpickle files, which can run code. Run: pip install --upgrade timm"
        )
