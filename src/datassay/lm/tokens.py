"""Texts as tokens: what a tokenizer makes of them, and where in the text each token stands."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from datassay.errors import DataError, SettingError
from datassay.results import result

# Texts of one call of a tokenizer.
TEXTS_AT_ONCE = 1000
# Tokenizers name a longest context of at least this where they know none.
NO_LIMIT = 10**6


@result
class Tokens:
    """The tokens of one text."""

    ids: Int[np.ndarray, " tokens"]  # in the tokenizer's vocabulary
    # Where each begins and ends in the text, in characters; equal for those the tokenizer adds.
    spans: Int[np.ndarray, "tokens 2"]
    pieces: tuple[str, ...]  # what each token shows; joined, the text and what was added


def check_tokenizer(tokenizer: Any, rows: int | None) -> None:
    """Raise SettingError unless a tokenizer's vocabulary fits the model's embedding rows."""
    if not (callable(tokenizer) and hasattr(tokenizer, "decode")):
        raise SettingError(
            "tokenizer must be one of transformers, called with texts; got a "
            f"{type(tokenizer).__name__}. Take AutoTokenizer.from_pretrained(...), or "
            "PreTrainedTokenizerFast(tokenizer_object=...)."
        )
    n_tokens = 0
    if hasattr(tokenizer, "__len__"):
        n_tokens = tokenizer.__len__()
    if rows is not None and n_tokens > rows:
        raise SettingError(
            f"tokenizer must be the model's own: it knows {n_tokens:,} tokens, and the model "
            f"has embeddings for {rows:,}. Load both from the same folder or hub name."
        )


def token_ids(tokenizer: Any, texts: Sequence[str], rows: int | None) -> list[np.ndarray]:
    """Return each text's token ids, int32, with the tokenizer's begin and end tokens."""
    results: list[np.ndarray] = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        chunk = list(texts[start : start + TEXTS_AT_ONCE])
        results += [np.array(ids, np.int32) for ids in tokenizer(chunk, verbose=False)["input_ids"]]
    for index, ids in enumerate(results):
        if not len(ids):
            raise DataError(
                f"every text must have a token; text {index} has none: {texts[index]!r:.60}. Leave "
                "it out."
            )
        _check_known(ids, rows, f"text {index}")
    return results


def _check_known(ids: np.ndarray, rows: int | None, place: str) -> None:
    """Raise DataError if a token id exceeds the model's embedding table."""
    if rows is not None and ids.max() >= rows:
        raise DataError(
            f"tokens must be below {rows:,}, the rows of the model's embeddings; {place} has token "
            f"{ids.max():,}. Take the tokenizer that the model was trained with."
        )


def tokens_of(tokenizer: Any, text: str) -> Tokens:
    """Return a text's tokens, and their start and end in it, in characters."""
    is_fast = bool(getattr(tokenizer, "is_fast", False))
    encoded = tokenizer(text, verbose=False, return_offsets_mapping=is_fast)
    ids = np.array(encoded["input_ids"], np.int64)
    if is_fast:
        spans = np.array(encoded["offset_mapping"], np.int64).reshape(-1, 2)
    else:  # by the lengths of what more and more tokens decode to
        ends = [len(tokenizer.decode(ids[: i + 1].tolist())) for i in range(len(ids))]
        spans = np.array([[0, *ends[:-1]], ends]).T if ends else np.zeros((0, 2), np.int64)
        spans = np.minimum(spans, len(text))
    pieces = []
    n_shown = 0
    for token, (begin, end) in zip(ids.tolist(), spans.tolist(), strict=True):
        is_added = begin == end
        pieces.append(tokenizer.decode([token]) if is_added else text[n_shown:end])
        n_shown = max(n_shown, end)
    return Tokens(ids, spans, tuple(pieces))


@result
class Question:
    """An answer whose tokens are asked about."""

    prompt: str
    answer: str
    tokens: Tokens  # of both together
    first: int  # the first token that is asked about; those before are its context

    @property
    def doubts(self) -> tuple[str, ...]:
        """A warning if a token holds letters of prompt and answer: no model would generate it."""
        begin = int(self.tokens.spans[self.first, 0])
        if not self.prompt[begin:].strip():
            return ()
        piece = self.tokens.pieces[self.first]
        return (
            f"the token {piece!r} begins in the prompt and ends in the answer: end the prompt, or "
            "begin the answer, with the space between them.",
        )


def question(
    tokenizer: Any, prompt: str, answer: str, context: int | None, rows: int | None
) -> Question:
    """Return prompt and answer as one token sequence; raise if it is too long for the model."""
    # A token is the answer's if it ends in it. The very first token has no probability and is
    # context. What the tokenizer adds at the end is left out.
    for name, text in (("answer", answer), ("prompt", prompt)):
        if not isinstance(text, str):
            raise DataError(f"{name} must be a string; got a {type(text).__name__}.")
    if not answer:
        raise DataError("answer must have a token; got an empty string. Give the model's answer.")
    tokens = tokens_of(tokenizer, prompt + answer)
    answer_tokens = np.flatnonzero(
        (tokens.spans[:, 1] > len(prompt)) & (tokens.spans[:, 0] < tokens.spans[:, 1])
    )
    stop = 0
    start = 0
    if len(answer_tokens):
        stop = int(answer_tokens[-1]) + 1
        start = max(1, int(answer_tokens[0]))
    if stop <= start:
        raise DataError(
            "answer must have a token that follows another; got "
            f"{answer!r:.60}. Give what stood before it: prompt=."
        )
    if context is not None and stop > context:
        raise DataError(
            f"prompt and answer must fit the model's context of {context:,} tokens; they have "
            f"{stop:,}. Shorten the prompt, or ask about a part of the answer."
        )
    _check_known(tokens.ids, rows, "the answer")
    sequence = Tokens(tokens.ids[:stop], tokens.spans[:stop], tokens.pieces[:stop])
    return Question(prompt, answer, sequence, start)
