"""Baselines that look at texts alone: words in common, and embeddings that lie near."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.collect.gradients.batches import to_model
from datassay.collect.gradients.reading import batches
from datassay.data.arguments import checks_arguments
from datassay.errors import DataError
from datassay.lm.causal import evaluating
from datassay.lm.samples import TokenSamples
from datassay.models.user_code import user_code
from datassay.progress import Progress, silent

WORD = re.compile(r"\w+")
# k and b of BM25: how soon a repeated word ceases to count, and how much long texts are held back.
K, B = 1.2, 0.75
PASS_SAMPLES = 64  # of a forward pass


@checks_arguments
def bm25(texts: Any, query: str) -> Float[np.ndarray, " texts"]:
    """Return the BM25 score of each text, that of search engines: how much it shares with a query.

    s_i = Σ_w q_w idf_w f_iw (k + 1) / (f_iw + k (1 − b + b |i| / mean |i|)),
    idf_w = ln(1 + (n − n_w + ½) / (n_w + ½)):  word w stands f_iw times in text i of |i| words, q_w
    times in the query, and in n_w of the n texts

    Args:
        texts: n strings.
        query: whose words, each as often as it stands there; case does not count.

    Returns:
        [n], at least 0; 0 where no word is shared.

    Raises:
        DataError: texts is one string, or a text is none.

    Cost: one pass over the texts' words.
    Source: Robertson and Zaragoza (2009), k = 1.2, b = 0.75; idf never negative, as in Lucene.
    """
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise DataError("texts must be a list of strings.")
    query_counts = Counter(_words(query))
    lengths = np.zeros(len(texts))
    occurrences: dict[str, list[tuple[int, int]]] = defaultdict(list)  # word → (text, how often)
    for position, text in enumerate(texts):
        words = _words(text)
        lengths[position] = len(words)
        for word, count in Counter(w for w in words if w in query_counts).items():
            occurrences[word].append((position, count))
    scores = np.zeros(len(texts))
    norm = K * (1 - B + B * lengths / max(lengths.mean(), 1e-12))
    for word, pairs in occurrences.items():
        idx, counts = np.array(pairs).T  # the texts that have this word, and how often
        idf = np.log1p((len(texts) - len(idx) + 0.5) / (len(idx) + 0.5))
        scores[idx] += query_counts[word] * idf * counts * (K + 1) / (counts + norm[idx])
    return scores


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def embedding_similarity(
    model: nn.Module,
    samples: TokenSamples,
    query: Sequence[int] | np.ndarray,
    progress: Progress = silent,
) -> Float[np.ndarray, " texts"]:
    """Return the cosine of each text's and the query's mean last hidden states.

    Args:
        model: of transformers, or what takes output_hidden_states as they do.
        samples: of n texts; of a long one the mean is over its tokens in all of its samples.
        query: tokens.
        progress: called with (step, samples done, samples in all).

    Returns:
        [n], in [−1, 1].

    Raises:
        ModelError: the model hands out no hidden states.

    Cost: a forward pass a sample.
    """
    with evaluating(model):
        query_mean = _compute_states(model, {"input_ids": torch.as_tensor(query)[None]}).mean(1)[0]
        # The cosine of a sum is that of its mean.
        total = query_mean.new_zeros(len(samples.ids), len(query_mean))
        start = 0
        for _, batch in batches(samples, PASS_SAMPLES):
            states = _compute_states(model, batch)
            rows = slice(start, start + len(states))
            spans = torch.as_tensor(samples.spans[rows])
            # Positions in the sample, [b, 1], of its first token that counts and of its end.
            counted_from = spans[:, 1:2] - spans[:, :1]
            end = spans[:, 2:] - spans[:, :1]
            positions = torch.arange(states.shape[1])
            is_counted = (positions >= counted_from) & (positions < end)
            text = torch.as_tensor(samples.text[rows])
            total.index_add_(0, text, (states * is_counted[..., None]).sum(1))
            start += len(states)
            progress("embed the texts", start, len(samples))
    cosine = torch.nn.functional.cosine_similarity(total, query_mean[None], dim=1)
    return cosine.numpy()


def _compute_states(model: nn.Module, batch: Any) -> Float[Tensor, "b tokens width"]:
    """Return the last hidden states of a batch, [b, tokens, width] float64."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask") if name in batch}
    with user_code(_refusal), torch.no_grad():
        result = model(**to_model(inputs, model), output_hidden_states=True)
        return result.hidden_states[-1].double().cpu()


def _refusal(error: str) -> str:
    return (
        "the model must hand out hidden states, as those of transformers do; that raised "
        f"{error} Leave them out: baselines=False."
    )
