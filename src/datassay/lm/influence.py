"""Which training texts, and which of their tokens, made a language model say this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch.utils.data import Subset

from datassay.collect.gradients.batches import Batches, batches
from datassay.collect.gradients.objective import IGNORED
from datassay.data.arguments import checks_arguments
from datassay.errors import SettingError
from datassay.lm.baselines import bm25, embedding_similarity
from datassay.lm.causal import (
    NEXT_TOKEN,
    check_causal,
    embedding_rows,
    log_probability,
    longest_context,
)
from datassay.lm.places import place_effects
from datassay.lm.results import TextInfluence, TextParts
from datassay.lm.samples import TokenSamples, texts_of, token_samples
from datassay.lm.settings import Asked, TextReading
from datassay.lm.tokens import Question, question, tokens_of
from datassay.progress import Progress, silent
from datassay.score.attribution import LARGEST_MATRIX, Attribution, Effects, gather
from datassay.score.influence.gradient_methods import TAKES_CHECKPOINTS, attributed, prepared
from datassay.score.influence.methods import ready
from datassay.score.influence.request import Request
from datassay.score.settings import TrainedWeights, Training

# Log-probability, in nats, that one text is believed to change as a linear model says.
BELIEVED = 2.0


@checks_arguments
def influence(
    model: Any,
    tokenizer: Any,
    texts: Any,
    answer: str,
    *,
    prompt: str = Asked.prompt,
    per_token: bool = Asked.per_token,
    top: int = Asked.top,
    baselines: bool = Asked.baselines,
    ids: Any = None,
    reduction: str = TextReading.reduction,
    pack: bool = TextReading.pack,
    too_long: str = TextReading.too_long,
    context: int | None = TextReading.context,
    overlap: int | None = TextReading.overlap,
    method: str = TrainedWeights.method,
    curvature: str = TrainedWeights.curvature,
    damping: float | str = TrainedWeights.damping,
    temperature: float = TrainedWeights.temperature,
    weight_decay: float = Training.weight_decay,
    parameters: str | Sequence[str] | None = None,
    checkpoints: Any = None,
    precision: str | None = None,
    device: str | None = None,
    seed: int = 0,
    progress: Progress = silent,
    **settings: object,
) -> TextInfluence:
    """Which training texts made a language model say this, and which of their tokens.

    effect of text i on token a = −(1/n) ∇m_aᵀ P ∇ℓ_i,  ∇ℓ_i = Σ_t ∇ℓ_it,  m_a = log p(a | before a)

    Args:
        model: a causal language model of transformers at its trained weights, with any adapters;
            several of other seeds are averaged.
        tokenizer: of transformers, the model's own.
        texts: n training texts, as the model saw them; see `token_samples`.
        answer: what the model said, or another text that it is asked about.
        prompt: what stood before it: context, not asked about. What the training put before every
            text (a token that begins it) belongs here, where the tokenizer does not add it.
        per_token: whether each token of the answer is asked about, or all of them together.
        top: texts, for each token and direction, whose own tokens are told apart; 0: none.
        baselines: whether `bm25` and `embedding_similarity` to prompt and answer stand beside.
        ids: one a text, unique; None: their positions.
        reduction: of the training loss, "sum" (every token counts the same, as in transformers'
            Trainer) or "mean" (every text does); as in `token_samples`, like the next four.
        pack: whether texts were trained one after the other in sequences of full length.
        too_long: "split", "truncate" or "refuse" texts longer than the context.
        context: tokens a sequence.
        overlap: of the windows of a long text.
        method: "auto", "gauss_newton", "tracin" or "segments", as in `datassay.influence`, like all
            that follow.
        curvature: "auto", "blocks" or "ekfac".
        damping: relative to each block's mean eigenvalue.
        temperature: T of the loss T ℓ(f / T).
        weight_decay: of the training, beside its loss reduced as it says above.
        parameters: "lora_", say.
        checkpoints: of one training run.
        precision: "float32" or "float64".
        device: to compute on.
        seed: of draws of outputs.
        progress: called with (step, samples done, samples in all).
        settings: the method's own.

    Returns:
        The effects [n, m] in nats: positive where a text's presence raised a token's probability.

    Raises:
        DataError: no texts, an empty one, an answer longer than the context.
        ModelError: the model is no causal language model, or fails.
        SettingError: a setting is out of range, or the tokenizer is not the model's.

    Cost: that of `datassay.influence` with a query a token, and an embedding a text; two or three
        forward passes a token of the answer and text that is told apart.
    Source: Grosse et al. (2023), whose EK-FAC this is, with blocks exact where they are small. They
        take one token of a text at a time by its activations; here it is by its loss.
    """
    models = list(model) if isinstance(model, list | tuple) else [model]
    for one in models:
        check_causal(one)
    if top < 0 or top != int(top):
        raise SettingError(f"top must be a whole number of at least 0; got {top}.")
    words = texts_of(texts)
    reading = TextReading(reduction, pack, too_long, context, overlap)
    samples = token_samples(models[0], tokenizer, words, ids=ids, **asdict(reading))
    longest = longest_context(models[0], tokenizer)
    asked = question(tokenizer, prompt, answer, longest, embedding_rows(models[0]))
    request = Request(
        models, method, curvature, TrainedWeights.response, NEXT_TOKEN, log_probability, damping,
        weight_decay * samples.unit, parameters, None, None, precision, device, seed, progress,
        settings, temperature,
    )  # fmt: skip
    fitted = _Fitted(_with_gradients(ready(request, checkpoints)), samples)
    found = fitted.effects(asked, per_token)
    chosen = leading(found.effect, top)
    split = fitted.by_token(asked, per_token, chosen)
    parts = [_parts(tokenizer, words[i], i, e) for i, e in zip(chosen, split, strict=True)]
    common = near = None
    if baselines:
        common = bm25(words, prompt + answer)
        near = embedding_similarity(models[0], samples, asked.tokens.ids, progress)
    shown = {i: words[i] for i in _shown(chosen, top, common, near)}
    return TextInfluence(found, asked, tuple(parts), common, near, shown, reduction, top)


def _with_gradients(request: Request) -> Request:
    if not request.takes_gradients:
        raise SettingError(
            "method must be 'auto', 'gauss_newton', 'tracin' or 'segments', with curvature 'auto', "
            f"'blocks' or 'ekfac'; got {request.method!r} with {request.curvature!r}."
        )
    return request


class _Fitted:
    """A model with its curvature, ready to be asked."""

    def __init__(self, request: Request, samples: TokenSamples):
        self._each, self._name = prepared(request, samples)
        self._samples, self._adds = samples, request.method in TAKES_CHECKPOINTS

    def _queries(self, asked: Question, per_token: bool) -> Batches:
        return batches(asked_samples(asked, per_token=per_token), self._size, "answer")

    @property
    def _size(self) -> int:
        return self._each[0].network.pass_size

    def effects(self, asked: Question, per_token: bool) -> Attribution:
        """Of each text on each token of the answer."""
        n, m = len(self._samples), len(asked.tokens.ids) - asked.first if per_token else 1
        if n * m > LARGEST_MATRIX:
            raise SettingError(
                f"texts times tokens of the answer must be at most {LARGEST_MATRIX:,}; these are "
                f"{n:,} times {m:,}. Take per_token=False, or ask about a part of the answer."
            )
        found = attributed(
            self._each,
            self._queries(asked, per_token),
            np.arange(n),
            method=self._name,
            top=None,
            own=None,
            adds=self._adds,
        )
        return by_text(found, self._samples)

    def by_token(
        self, asked: Question, per_token: bool, chosen: list[int]
    ) -> list[Float[np.ndarray, "tokens m"]]:
        """The same of each token of some texts."""
        if not chosen:
            return []
        places = self._samples.places_of(chosen)
        some = batches(Subset(self._samples, places.tolist()), self._size)
        queries = self._queries(asked, per_token)
        slopes = place_effects(self._each, queries, some, adds=self._adds)
        found = {}
        for place, slope in zip(places.tolist(), slopes, strict=True):
            text = int(self._samples.text[place])
            start, length = self._samples.place_of(text)
            whole = found.setdefault(text, np.zeros((length, slope.shape[1])))
            begin, first, end = self._samples.spans[place].tolist()
            first = max(first, begin + 1)  # the token at begin has nothing before it
            whole[first - start : end - start] = slope[first - begin - 1 : end - begin - 1]
        return [found[text] for text in chosen]


def asked_samples(asked: Question, *, per_token: bool) -> list[dict[str, np.ndarray]]:
    """The answer as queries: one a token, which ends with it, or one for all.

    Args:
        asked: prompt and answer.
        per_token: whether each token is a query.

    Returns:
        Samples whose labels are the tokens asked about. `datassay.influence` takes them, with
        measure="loss" for the loss instead of the log-probability.
    """
    ids = asked.tokens.ids
    stops = range(asked.first + 1, len(ids) + 1) if per_token else (len(ids),)
    found = []
    for stop in stops:
        labels = np.full(stop, IGNORED)
        first = stop - 1 if per_token else asked.first
        labels[first:] = ids[first:stop]
        found.append({"input_ids": ids[:stop], "labels": labels})
    return found


def by_text(found: Attribution, samples: TokenSamples) -> Attribution:
    """Effects of samples added up over each text.

    Args:
        found: of these samples, with all effects.
        samples: of n texts, in order.

    Returns:
        Of the texts, by their ids. A text's effect on its own loss is no sum over its samples:
        None where one has several.
    """
    assert found.effect is not None
    starts = np.flatnonzero(np.diff(samples.text, prepend=-1))
    effect = torch.from_numpy(np.add.reduceat(found.effect, starts, axis=0))
    alone = found.self_influence if len(starts) == len(samples) else None
    own = None if alone is None else torch.from_numpy(alone)
    parts = [Effects(0, effect, None, None, own)]
    outcome = torch.from_numpy(found.outcome)
    whole = gather(parts, outcome, "log_probability", samples.ids, found.method, None)
    return replace(whole, warnings=(*found.warnings, *_doubts(effect.numpy(), samples)))


def _doubts(effect: np.ndarray, samples: TokenSamples) -> list[str]:
    found = []
    largest = float(np.abs(effect).max())
    if largest > BELIEVED:
        found.append(
            f"single effects reach {largest:.1f} nats, further than a linear model of the network "
            "can be trusted: read them as an order, not as sizes. Several networks from other "
            "seeds, averaged, or more damping bring them nearer."
        )
    silent_ones = int((samples.counted == 0).sum())
    if silent_ones:
        found.append(
            f"{silent_ones} texts have one token alone, which nothing predicts: their effect is 0."
        )
    return found


def leading(effect: Float[np.ndarray, "n m"] | None, top: int) -> list[int]:
    """Texts with the largest effects on any token, or on all together, in both directions.

    Args:
        effect: of texts on tokens.
        top: texts a token and direction.

    Returns:
        Positions, in order.
    """
    assert effect is not None
    every = np.concatenate([effect, effect.sum(1, keepdims=True)], 1)
    order = np.argsort(every, axis=0, kind="stable")
    both = np.concatenate([order[:top], order[len(order) - min(top, len(order)) :]])
    return np.unique(both).tolist()


def _parts(tokenizer: Any, text: str, place: int, effect: np.ndarray) -> TextParts:
    tokens = tokens_of(tokenizer, text)
    assert len(tokens.ids) == len(effect)
    return TextParts(place, text, tokens, effect)


def _shown(chosen: list[int], top: int, *rivals: np.ndarray | None) -> list[int]:
    """The texts that the page shows: ours, and the first of each rival."""
    theirs = [np.argsort(-scores, kind="stable")[:top] for scores in rivals if scores is not None]
    return np.unique(np.concatenate([chosen, *theirs])).astype(int).tolist()
