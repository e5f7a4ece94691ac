"""Which encoder: by name, or by what the samples are."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Literal

from datassay.data.pictures import are_photographs
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.models.backbones import hugging_face, image_models, lite0, minilm
from datassay.models.backbones.encoder import Encoder, WeightsFile

NAMED: dict[str, Callable[[], Encoder]] = {lite0.NAME: lite0.lite0, minilm.NAME: minilm.minilm}
LOADED: dict[str, Callable[[str], Encoder]] = {
    image_models.PREFIX: image_models.image_model,
    hugging_face.PREFIX: hugging_face.hugging_face,
}
# What each kind of sample takes unless one is named.
OWN: dict[Literal["image", "text"], tuple[str, str, WeightsFile]] = {
    "image": (lite0.NAME, lite0.CODE, lite0.WEIGHTS),
    "text": (minilm.NAME, minilm.CODE, minilm.WEIGHTS),
}


def encoder_named(name: str) -> Encoder:
    """The encoder of that name, on the CPU, its weights read and checked."""
    if name in NAMED:
        return NAMED[name]()
    for prefix, load in LOADED.items():
        if name.startswith(prefix) and name != prefix:
            return load(name)
    raise ModelError(
        f"features: must name an encoder, {', '.join(NAMED)}, timm:NAME or hf:NAME; got {name!r}. "
        "For a module of yours called features write features.py:NAME."
    )


def reads(samples: SampleSet) -> Literal["image", "text", "neither"]:
    """What an encoder would read of these samples: texts, or pixels or files, or neither."""
    if samples.texts is not None:
        return "text"
    return "image" if samples.kind == "image" else "neither"


def own_encoder(*sets: SampleSet) -> tuple[str, bool]:
    """The encoder that these samples take unless told, empty where none, and if it is installed."""
    kind = reads(sets[0])
    if kind == "neither" or (kind == "image" and not all(map(are_photographs, sets))):
        return "", False
    return OWN[kind][0], is_installed(kind)


def is_installed(kind: Literal["image", "text"]) -> bool:
    """Return whether the encoder that such samples take is there."""
    _, code, weights = OWN[kind]
    return weights.is_there and importlib.util.find_spec(code) is not None
