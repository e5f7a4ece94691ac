"""The choice of an encoder, by name or by the kind of the samples."""

import importlib.util
from collections.abc import Callable
from typing import Literal

from datassay.data.pictures import are_photographs
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.models.backbones import hugging_face, image_models, lite0, minilm
from datassay.models.backbones.encoder import Encoder, WeightsFile

ENCODERS: dict[str, Callable[[], Encoder]] = {lite0.NAME: lite0.lite0, minilm.NAME: minilm.minilm}
LOADERS: dict[str, Callable[[str], Encoder]] = {
    image_models.PREFIX: image_models.image_model,
    hugging_face.PREFIX: hugging_face.hugging_face,
}
# The default encoder of each kind of sample: its name, the package of its code, its weights.
OWN: dict[Literal["image", "text"], tuple[str, str, WeightsFile]] = {
    "image": (lite0.NAME, lite0.CODE, lite0.WEIGHTS),
    "text": (minilm.NAME, minilm.CODE, minilm.WEIGHTS),
}


def encoder_named(name: str) -> Encoder:
    """Load the encoder of that name on the CPU, with its weights checked."""
    if name in ENCODERS:
        return ENCODERS[name]()
    for prefix, load in LOADERS.items():
        if name.startswith(prefix) and name != prefix:
            return load(name)
    raise ModelError(
        f"features: must name an encoder, {', '.join(ENCODERS)}, timm:NAME or hf:NAME; got "
        f"{name!r}. For a module of yours called features write features.py:NAME."
    )


def encoder_kind(samples: SampleSet) -> Literal["image", "text", "neither"]:
    """Return which kind of encoder these samples suit: of texts, of images, or neither."""
    if samples.texts is not None:
        return "text"
    if samples.kind == "image":
        return "image"
    return "neither"


def default_encoder(*sets: SampleSet) -> tuple[str, bool]:
    """Return the default encoder's name for these samples ("": none), and if it is installed."""
    kind = encoder_kind(sets[0])
    if kind == "neither" or (kind == "image" and not all(map(are_photographs, sets))):
        return "", False
    return OWN[kind][0], is_installed(kind)


def is_installed(kind: Literal["image", "text"]) -> bool:
    """Return whether the default encoder for images or for texts is installed."""
    _, code, weights = OWN[kind]
    return weights.is_there and importlib.util.find_spec(code) is not None
