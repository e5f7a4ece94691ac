"""Token ids as inputs: one array per sample, and a module from that array to logits.

What the models of Hugging Face transformers take and give, without importing the library.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.errors import DataError

FIELDS = ("input_ids", "attention_mask", "token_type_ids")


def token_array(encoding: Mapping[str, Any]) -> Int[np.ndarray, "n fields length"]:
    """Turn a tokenizer's output into the x of a `SampleSet`.

    Args:
        encoding: input_ids, attention_mask and, where the tokenizer gives them, token_type_ids,
            each [n, length]: lists or arrays, padded to one length.

    Returns:
        int64, the fields in that order.

    Raises:
        DataError: a field is missing, or the samples are not padded to one length.
    """
    missing = [name for name in FIELDS[:2] if name not in encoding]
    if missing:
        raise DataError(
            f"encoding must hold {' and '.join(FIELDS[:2])}; {missing[0]} is missing. Give what "
            "the tokenizer returns."
        )
    columns = [encoding[name] for name in FIELDS if name in encoding]
    lengths = {len(row) for column in columns for row in column}
    if len(lengths) != 1:
        raise DataError(
            "encoding must be padded to one length; got lengths from "
            f"{min(lengths, default=0)} to {max(lengths, default=0)}. Call the tokenizer with "
            "padding=True."
        )
    return np.stack([np.asarray(column, np.int64) for column in columns], axis=1)


class TokenLogits(nn.Module):
    """A model that takes token ids by name, as a module from `token_array`'s x to its logits.

    For all that takes a network: `collect`, `influence`, `retrain`, `reweight`. `collect` holds k
    values a word of the vocabulary and sample for an embedding that trains; of a large encoder set
    requires_grad off for it, or give `collect` the last layer on `Head.features`.

    Attributes:
        model: called with the fields by name; what it returns has `.logits`, [n, k].
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x: Int[Tensor, "n fields length"]) -> Float[Tensor, "n k"]:
        """Return the logits of token ids; padding is masked."""
        return self.model(**dict(zip(FIELDS, x.unbind(1), strict=False))).logits
