"""What a causal language model is, and what it says of itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from datassay.collect.gradients.batches import outputs_of
from datassay.collect.gradients.objective import Objective
from datassay.errors import ModelError
from datassay.lm.tokens import NO_LIMIT
from datassay.models.user_code import user_code
from datassay.optional import take_first

# Outputs at a position may differ by this many units of rounding where only later tokens do.
ROUNDINGS = 64
NEXT_TOKEN = Objective("next_token")


def log_probability(model: nn.Module, batch: Any) -> Tensor:
    """Return [b], the summed log-probability of each sequence's counted tokens, in nats."""
    return -NEXT_TOKEN.losses(model, batch)


def embedding_rows(model: Any) -> int | None:
    """Return the number of tokens in the model's embedding table; None if unknown."""
    table = getattr(model, "get_input_embeddings", lambda: None)()
    weight = getattr(table, "weight", None)
    if weight is None:
        return None
    return len(weight)


def longest_context(model: Any, tokenizer: Any) -> int | None:
    """Return the longest sequence the model takes, in tokens; None if neither part says."""
    of_model = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    of_tokenizer = getattr(tokenizer, "model_max_length", None)
    limits = [v for v in (of_model, of_tokenizer) if isinstance(v, int) and 1 < v < NO_LIMIT]
    return take_first(limits)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put the model in evaluation mode; at the end each module gets its own mode back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, is_training in modes:
            module.training = is_training


def check_causal(model: Any) -> None:
    """Raise unless the model predicts each token from the tokens before it alone."""
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"model must be a causal language model, a torch.nn.Module; got a "
            f"{type(model).__name__}. Of a Trainer give trainer.model."
        )
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        raise ModelError(
            "model must be a causal language model; this is an encoder with a decoder. Take "
            "da.influence with a measure of your own."
        )
    rows = embedding_rows(model)
    device = next(model.parameters()).device
    tokens = torch.tensor([[0, 1, 0], [0, 1, 1]], device=device)
    with evaluating(model), user_code(_refusal), torch.no_grad():
        output = outputs_of(model, {"input_ids": tokens})
    if output.shape[:2] != tokens.shape or output.ndim != 3 or output.shape[2] < (rows or 2):
        raise ModelError(
            "model must be a causal language model, with a value for each token of the vocabulary "
            f"at each position, [b, tokens, {rows or 'vocabulary'}]; it gives "
            f"{list(output.shape)}. Load it as AutoModelForCausalLM."
        )
    # The two sequences differ at their last token, which outputs before it must not see.
    output1, output2 = output[:, :2]
    difference = float((output1 - output2).abs().max())
    if difference > ROUNDINGS * torch.finfo(output.dtype).eps * float(output.abs().max()):
        raise ModelError(
            "model must be a causal language model; at a position its output depends on tokens "
            "after it. Of a model of masked words, take da.influence with a measure of your own."
        )


def _refusal(error: str) -> str:
    return (
        f"model must be a causal language model, called with input_ids; that raised {error} Load "
        "it as AutoModelForCausalLM."
    )
