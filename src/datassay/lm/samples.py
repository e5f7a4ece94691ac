"""Texts as samples of a language model, each of its tokens predicted in exactly one of them.

A sample is a sequence of tokens, of which some are context: their labels do not count. A long text
is several samples that overlap in context; a text in a packed sequence is a sample whose context is
what stood before it there. So the samples' losses add up to those of their texts, and their
gradients and effects do.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from torch.utils.data import Dataset

from datassay.collect.gradients.batches import IGNORED, LOSS_WEIGHT
from datassay.data.arguments import checks_arguments
from datassay.errors import DataError, SettingError
from datassay.lm.causal import embedding_rows, longest_context
from datassay.lm.settings import TextReading
from datassay.lm.tokens import check_tokenizer, token_ids
from datassay.optional import coalesce
from datassay.rules import integer, one_of

TOO_LONG = ("split", "truncate", "refuse")


class TokenSamples(Dataset):
    """Samples of a causal language model: {"input_ids", "labels", "id"}.

    `da.influence` takes it as training samples, with loss="next_token". With reduction "mean" each
    has "loss_weight" as well, one over the tokens of its text.

    Attributes:
        tokens: of all texts, one after the other.
        starts: [texts + 1], where each text begins in `tokens`, and where the last one ends.
        spans: [n, 3], of each sample in `tokens`: where it begins, the first token that counts, and
            where it ends. The first of a sequence never counts: nothing stands before it.
        text: [n], position of its text.
        ids: one per text, in their order.
        reduction: "sum" or "mean".
        counted: [texts], how many tokens of each text count.
    """

    def __init__(
        self,
        tokens: Sequence[Int[np.ndarray, " _"]],
        spans: Int[np.ndarray, "n 3"],
        text: Int[np.ndarray, " n"],
        ids: np.ndarray,
        reduction: str,
    ):
        """Concatenate the texts' tokens; `spans`, `text` and `ids` are the attributes."""
        self.tokens = np.concatenate(tokens)
        self.starts = np.concatenate([[0], np.cumsum([len(t) for t in tokens])])
        self.spans = spans
        self.text = text
        self.ids = ids
        self.reduction = reduction
        begin, counted_from, end = spans.T
        n_predicted = np.bincount(text, end - np.maximum(counted_from, begin + 1), len(ids))
        self.counted: Int[np.ndarray, " texts"] = n_predicted.astype(np.int64)

    def __len__(self) -> int:
        return len(self.spans)

    def __getitem__(self, index: int) -> dict[str, Any]:
        begin, counted_from, end = self.spans[index].tolist()
        text = int(self.text[index])
        tokens = self.tokens[begin:end].astype(np.int64)
        labels = tokens.copy()
        labels[: max(counted_from - begin, 1)] = IGNORED
        results = {"input_ids": tokens, "labels": labels, "id": self._make_id(index)}
        if self.reduction == "mean":
            results[LOSS_WEIGHT] = np.float64(1 / max(1, int(self.counted[text])))
        return results

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    def sample_ids(self) -> list[Any]:
        """Return an id per sample: its text's, with its token span if the text has several."""
        return [self._make_id(index) for index in range(len(self))]

    def _make_id(self, index: int) -> Any:
        """Return a sample's id: its text's, or "ID[begin:end]" for a window of it."""
        text = int(self.text[index])
        start_sample, end_sample = np.searchsorted(self.text, [text, text + 1])
        text_id = self.ids[text]
        if end_sample - start_sample == 1:
            return text_id
        text_start = self.spans[start_sample, 1]
        _, begin, end = self.spans[index] - text_start
        return f"{text_id}[{begin}:{end}]"

    @property
    def unit(self) -> float:
        """The mean of the samples' losses over the training's mean, over tokens or over texts."""
        n_averaged = self.counted.sum() if self.reduction == "sum" else len(self.ids)
        return float(n_averaged) / len(self)

    def span_of(self, text: int) -> tuple[int, int]:
        """Return where a text begins in `tokens`, and its length, cut-off tokens included."""
        return int(self.starts[text]), int(self.starts[text + 1] - self.starts[text])

    def positions_of(self, texts: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the positions of the samples of some texts, in order."""
        return np.flatnonzero(np.isin(self.text, texts))


@checks_arguments
def token_samples(
    model: Any,
    tokenizer: Any,
    texts: Any,
    *,
    ids: Any = None,
    reduction: str = TextReading.reduction,
    pack: bool = TextReading.pack,
    too_long: str = TextReading.too_long,
    context: int | None = TextReading.context,
    overlap: int | None = TextReading.overlap,
) -> TokenSamples:
    """Return the samples that texts are to a causal language model.

    Args:
        model: which says how long a sequence may be, and which tokens it knows.
        tokenizer: of transformers, the model's own; begin and end are added where it does. What
            else the training put at a text's end belongs to the text: text + tokenizer.eos_token.
        texts: strings.
        ids: one per text, unique; None: their positions.
        reduction: of the training loss: "sum": every token counts the same, as in transformers'
            Trainer, which means over the tokens of a batch; "mean": every text, the mean of its
            tokens.
        pack: whether the texts were trained one after the other in sequences of `context` tokens,
            so that a text saw what stood before it. Give them in the order of the training.
        too_long: a text longer than the context was "split" in the training (windows that overlap),
            "truncate"d (its end was not trained on), or is to be "refuse"d.
        context: tokens a sequence; None: as many as the model takes.
        overlap: tokens that each further window of a long text sees again, as context; None: a
            quarter of the context. At least 1, so that every token is predicted.

    Returns:
        The samples, in the order of the texts.

    Raises:
        DataError: no texts, one that is no string, is empty, or is too long to be refused.
        SettingError: a setting is out of range, or the tokenizer is not the model's.

    Cost: the tokens are held, 4 bytes each; samples are made when they are read. A packed sequence
        of k texts is k samples, which share its tokens: k / 2 times its operations, about.
    """
    words = texts_of(texts)
    names = _check_ids(ids, len(words))
    one_of("reduction", reduction, ("sum", "mean"))
    rows = embedding_rows(model)
    check_tokenizer(tokenizer, rows)
    length = _check_context(context, longest_context(model, tokenizer))
    tokens = token_ids(tokenizer, words, rows)
    if pack:
        if length is None:
            raise SettingError(
                "pack needs context, the tokens of a sequence; the model names none."
            )
        spans, text = _pack_texts([len(t) for t in tokens], length)
    else:
        spans, text = _split_each([len(t) for t in tokens], length, too_long, overlap)
    return TokenSamples(tokens, spans, text, names, reduction)


def texts_of(texts: Any) -> list[str]:
    """Return texts as a list of strings; raise if one is empty, or there is none."""
    if isinstance(texts, str):
        raise DataError("texts must be a list of strings; got one string. Put it into a list.")
    try:
        results = list(texts)
    except TypeError as error:
        raise DataError(
            f"texts must be a list of strings; got a {type(texts).__name__}."
        ) from error
    if not results:
        raise DataError("texts must hold at least 1 text; got none.")
    for index, text in enumerate(results):
        if not isinstance(text, str):
            raise DataError(
                f"texts must be strings; text {index} is a {type(text).__name__}. Of a dataset "
                "give the column: dataset['text']."
            )
        if not text.strip():
            raise DataError(
                f"every text must hold something; text {index} is empty. Leave it out: [t for t in "
                "texts if t.strip()]."
            )
    return results


def _check_ids(ids: Any, n: int) -> np.ndarray:
    """Return one id per text, [n]; positions if none are given; raise if they repeat."""
    if ids is None:
        return np.arange(n)
    result = np.asarray(ids)
    if result.shape != (n,):
        raise DataError(f"ids must be one per text, {n:,}; got {result.size:,}.")
    if len(np.unique(result)) < n:
        raise DataError("ids must be unique; some texts share one.")
    return result


def _check_context(context: int | None, longest: int | None) -> int | None:
    """Return the most tokens per sequence; None if unlimited; raise if out of range."""
    if context is None:
        return longest
    integer("context", context, 2)
    if longest is not None and context > longest:
        raise SettingError(
            f"context must be at most {longest:,} tokens, what the model takes; got {context:,}."
        )
    return context


def _split_each(
    lengths: list[int], context: int | None, too_long: str, overlap: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return spans [n, 3] and text index [n]: each text alone, cut into windows if long."""
    one_of("too_long", too_long, TOO_LONG)
    longest = max(lengths)
    if context is None:
        context = longest
    integer("overlap", coalesce(overlap, 1))
    n_overlap = coalesce(overlap, context // 4)
    if n_overlap >= context:
        raise SettingError(
            f"overlap must be below the context of {context:,} tokens; got {overlap}."
        )
    if too_long == "refuse" and longest > context:
        raise DataError(
            f"texts must fit the model's context of {context:,} tokens; text "
            f"{lengths.index(longest)} has {longest:,}. Leave it out, or take too_long='split' or "
            "'truncate', as in the training."
        )
    spans = []
    text = []
    start = 0
    for index, length in enumerate(lengths):
        counted_from = start
        end = start + min(length, context)
        spans.append((start, counted_from, end))
        text.append(index)
        while too_long == "split" and end < start + length:
            counted_from = end
            begin = counted_from - max(1, n_overlap)
            end = min(begin + context, start + length)
            spans.append((begin, counted_from, end))
            text.append(index)
        start += length
    return np.array(spans), np.array(text)


def _pack_texts(lengths: list[int], context: int) -> tuple[np.ndarray, np.ndarray]:
    """Return spans [n, 3] and text index [n]: all texts joined, cut at `context` tokens."""
    spans = []
    text = []
    start = 0
    for index, length in enumerate(lengths):
        end = start + length
        for sequence in range(start // context, (end - 1) // context + 1):
            begin = sequence * context
            spans.append((begin, max(start, begin), min(end, begin + context)))
            text.append(index)
        start = end
    return np.array(spans), np.array(text)
