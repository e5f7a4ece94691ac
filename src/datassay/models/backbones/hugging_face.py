"""Any encoder of Hugging Face's transformers, from its hub or a folder: `features:hf:NAME`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from datassay.errors import ModelError
from datassay.models.backbones.encoder import (
    Embedded,
    Encoder,
    check_installed,
    image_embedded,
    masked_mean,
)
from datassay.models.user_code import user_code

PREFIX = "hf:"
LONGEST = 100_000  # what a tokenizer gives beyond that means no limit


def hugging_face(name: str) -> Encoder:
    """An encoder of texts or of images, with its own tokenizer or preprocessing, of that name."""
    # Of texts the mean of the tokens' states at length 1, of images what it pools, else the mean of
    # its states. Only safetensors and code of transformers itself are loaded.
    check_installed(name, "transformers")
    from transformers import AutoConfig, AutoModel

    position = name.removeprefix(PREFIX)
    with user_code(lambda error: _not_loaded(name, error)):
        config: Any = AutoConfig.from_pretrained(position)
        reads_text, reads_images = hasattr(config, "vocab_size"), hasattr(config, "num_channels")
        if reads_text == reads_images:
            raise ModelError(
                f"encoder features:{name} must read images alone or texts alone; a "
                f"{config.model_type} does not. Name another."
            )
        network: Any = AutoModel.from_pretrained(position, use_safetensors=True)
        network.float().eval().requires_grad_(False)
        return _of_texts(name, network) if reads_text else _of_images(name, network)


def _not_loaded(name: str, error: str) -> str:
    return (
        f"encoder features:{name} must be one that transformers loads from safetensors; it raised "
        f"{error} Check the name, the folder or the network."
    )


def _of_texts(name: str, network: Any) -> Encoder:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(name.removeprefix(PREFIX))
    limits = (tokenizer.model_max_length, getattr(network.config, "max_position_embeddings", None))
    limit = min(int(n) for n in limits if n and n < LONGEST)

    def embed(texts: list[str], device: torch.device) -> Embedded:
        whole = tokenizer(texts, verbose=False)["input_ids"]
        read = tokenizer(
            texts, truncation=True, max_length=limit, padding=True, return_tensors="pt"
        ).to(device)
        states = network(**read).last_hidden_state
        cut = np.array([len(ids) > limit for ids in whole])
        return Embedded(masked_mean(states, read["attention_mask"]), cut)

    recipe = f"{network.config.model_type}; the mean of its tokens' states, scaled to length 1"
    with torch.no_grad():  # a tokenizer that cannot pad, or a network that needs more, shows here
        width = embed(["a", "a b"], torch.device("cpu")).values.shape[1]
    return Encoder(name, "text", recipe, network, width, str, embed, limit=limit)


def _of_images(name: str, network: Any) -> Encoder:
    from transformers import AutoImageProcessor

    processor: Any = AutoImageProcessor.from_pretrained(name.removeprefix(PREFIX))

    def prepare(image: Any) -> torch.Tensor:
        pixels = np.asarray(image, np.float32)
        pixels = np.broadcast_to(pixels, (3, *pixels.shape[1:])).transpose(1, 2, 0)
        bytes_ = (255 * pixels).round().astype(np.uint8)
        return processor(bytes_, return_tensors="pt", input_data_format="channels_last")[
            "pixel_values"
        ][0]

    def embed(prepared: list[Any], device: torch.device) -> Embedded:
        given = network(pixel_values=torch.stack(prepared).to(device))
        pooled = getattr(given, "pooler_output", None)
        if pooled is None:
            states = given.last_hidden_state  # [b, tokens, width], or [b, width, h, w]
            pooled = states.mean((2, 3)) if states.ndim == 4 else states.mean(1)
        return image_embedded(pooled.flatten(1))

    with torch.no_grad():
        width = embed([prepare(np.zeros((3, 32, 32)))], torch.device("cpu")).values.shape[1]
    recipe = f"{network.config.model_type}; images as its own {type(processor).__name__} has them"
    return Encoder(name, "image", recipe, network, width, prepare, embed)
