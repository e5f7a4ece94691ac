"""Any encoder of Hugging Face's transformers, from its hub or a folder: `features:hf:NAME`."""

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
    """Load the named encoder of texts or images, with its own tokenizer or preprocessing."""
    # A text's embedding is the mean of its tokens' states, scaled to length 1; an image's is the
    # pooled output, else the mean of the states. Only safetensors and code of transformers load.
    check_installed(name, "transformers")
    from transformers import AutoConfig, AutoModel

    checkpoint = name.removeprefix(PREFIX)
    with user_code(lambda error: _loading_message(name, error)):
        config: Any = AutoConfig.from_pretrained(checkpoint)
        reads_text = hasattr(config, "vocab_size")
        reads_images = hasattr(config, "num_channels")
        if reads_text == reads_images:
            raise ModelError(
                f"encoder features:{name} must read images alone or texts alone; a "
                f"{config.model_type} does not. Name another."
            )
        network: Any = AutoModel.from_pretrained(checkpoint, use_safetensors=True)
        network.float().eval().requires_grad_(False)
        if reads_text:
            return _make_text_encoder(name, network)
        return _make_image_encoder(name, network)


def _loading_message(name: str, error: str) -> str:
    """Return the message of an encoder that cannot be loaded."""
    return (
        f"encoder features:{name} must be one that transformers loads from safetensors; it raised "
        f"{error} Check the name, the folder or the network."
    )


def _make_text_encoder(name: str, network: Any) -> Encoder:
    """Return the encoder of texts by a network and its tokenizer."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(name.removeprefix(PREFIX))
    limits = (tokenizer.model_max_length, getattr(network.config, "max_position_embeddings", None))
    limit = min(int(n) for n in limits if n and n < LONGEST)

    def embed(texts: list[str], device: torch.device) -> Embedded:
        untruncated_ids = tokenizer(texts, verbose=False)["input_ids"]
        tokens = tokenizer(
            texts, truncation=True, max_length=limit, padding=True, return_tensors="pt"
        ).to(device)
        states = network(**tokens).last_hidden_state
        is_cut = np.array([len(ids) > limit for ids in untruncated_ids])
        return Embedded(masked_mean(states, tokens["attention_mask"]), is_cut)

    recipe = f"{network.config.model_type}; the mean of its tokens' states, scaled to length 1"
    with torch.no_grad():  # a tokenizer that cannot pad, or a network that needs more, shows here
        width = embed(["a", "a b"], torch.device("cpu")).values.shape[1]
    return Encoder(name, "text", recipe, network, width, str, embed, limit=limit)


def _make_image_encoder(name: str, network: Any) -> Encoder:
    """Return the encoder of images by a network and its own preprocessing."""
    from transformers import AutoImageProcessor

    processor: Any = AutoImageProcessor.from_pretrained(name.removeprefix(PREFIX))

    def prepare(image: Any) -> torch.Tensor:
        pixels = np.asarray(image, np.float32)
        pixels = np.broadcast_to(pixels, (3, *pixels.shape[1:])).transpose(1, 2, 0)
        levels = (255 * pixels).round().astype(np.uint8)
        batch = processor(levels, return_tensors="pt", input_data_format="channels_last")
        return batch["pixel_values"][0]

    def embed(prepared: list[Any], device: torch.device) -> Embedded:
        result = network(pixel_values=torch.stack(prepared).to(device))
        pooled = getattr(result, "pooler_output", None)
        if pooled is None:
            states = result.last_hidden_state  # [b, tokens, width], or [b, width, h, w]
            pooled = states.mean((2, 3) if states.ndim == 4 else 1)
        return image_embedded(pooled.flatten(1))

    with torch.no_grad():
        width = embed([prepare(np.zeros((3, 32, 32)))], torch.device("cpu")).values.shape[1]
    recipe = f"{network.config.model_type}; images as its own {type(processor).__name__} has them"
    return Encoder(name, "image", recipe, network, width, prepare, embed)
