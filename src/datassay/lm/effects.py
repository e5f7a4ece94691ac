"""Effects of texts, and of their tokens, on an answer: of a fitted model, or from an index."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn
from torch.utils.data import Subset

from datassay.collect.gradients.batches import IGNORED
from datassay.collect.gradients.reading import batches
from datassay.data.arguments import check_kind
from datassay.errors import DataError, SettingError
from datassay.lm.causal import log_probability
from datassay.lm.positions import position_effects
from datassay.lm.samples import TokenSamples
from datassay.lm.tokens import Question
from datassay.progress import Progress, silent
from datassay.score.effects import LARGEST_MATRIX, Attribution, Effects, gather
from datassay.score.index.identity import check_model
from datassay.score.index.opened import Index
from datassay.score.influence.gradient_methods import (
    TAKES_CHECKPOINTS,
    Prepared,
    attribute,
    prepare,
)
from datassay.score.influence.request import Request

# Effects beyond this, in nats, are larger than a linear model of the network can be trusted with.
LARGEST_TRUSTED = 2.0
# Samples that are compared with those that an index was made of, and how far self-influence may
# differ: by a share of its own, and of the largest.
N_COMPARED = 64
SHARE_OF_OWN = 0.01
SHARE_OF_LARGEST = 1e-4
OTHER_TEXTS = (
    "index must be of these very texts; their effects now are not those that it keeps. Give the "
    "texts, and the settings of token_samples, that it was made of."
)

Queries = list[dict[str, np.ndarray]]


class FittedModels:
    """Models with their curvature, which give effects of texts on queries."""

    def __init__(self, request: Request, samples: TokenSamples):
        """Fit the curvature; raise if the method needs arrays."""
        if not request.takes_gradients:
            raise SettingError(
                "method must be 'auto', 'gauss_newton', 'tracin' or 'segments', with curvature "
                f"'auto', 'blocks' or 'ekfac'; got {request.method!r} with {request.curvature!r}."
            )
        self.samples = samples
        self.progress = request.progress
        self._prepared, self._name = prepare(request, samples)
        self._adds = request.method in TAKES_CHECKPOINTS  # effects over models, else averages

    def effects(self, queries: Queries) -> Attribution:
        """Return each text's effect on each query, [texts, m]: with it minus without, in nats."""
        n = len(self.samples)
        m = len(queries)
        if n * m > LARGEST_MATRIX:
            raise SettingError(
                f"texts times tokens of the answer must be at most {LARGEST_MATRIX:,}; these are "
                f"{n:,} times {m:,}. Take per_token=False, or ask about a part of the answer."
            )
        return sum_by_text(self._compute_effects(queries), self.samples)

    def by_token(
        self, queries: Queries, texts: Sequence[int]
    ) -> list[Float[np.ndarray, "tokens m"]]:
        """Return each token's effect on each query, [tokens, m] for each of `texts`."""
        if not texts:
            return []
        networks = self._networks(queries)
        size = networks[0].network.pass_size
        positions = self.samples.positions_of(texts)
        text_batches = batches(Subset(self.samples, positions.tolist()), size)
        effects = position_effects(networks, batches(queries, size), text_batches, adds=self._adds)
        effects_of_text: dict[int, np.ndarray] = {}
        for position, effect in zip(positions.tolist(), effects, strict=True):
            text = int(self.samples.text[position])
            start, length = self.samples.span_of(text)
            text_effects = effects_of_text.setdefault(text, np.zeros((length, effect.shape[1])))
            begin, counted_from, end = self.samples.spans[position].tolist()
            counted_from = max(counted_from, begin + 1)  # the token at begin has nothing before it
            # The effect of token t stands at t − 1.
            counted = effect[counted_from - begin - 1 : end - begin - 1]
            text_effects[counted_from - start : end - start] = counted
        return [effects_of_text[text] for text in texts]

    def _compute_effects(self, queries: Queries) -> Attribution:
        """Return each token sequence's effect on each query, [n, m]."""
        networks = self._prepared
        ids = np.arange(len(self.samples))
        batched = batches(queries, networks[0].network.pass_size)
        return attribute(
            networks, batched, ids, method=self._name, top=None, own_idx=None, adds=self._adds
        )

    def _networks(self, queries: Queries) -> list[Prepared]:
        """Return the networks, with the curvature that the queries need."""
        return self._prepared


class Indexed(FittedModels):
    """An index of the texts' samples: nothing is fitted, and no text's gradient computed."""

    def __init__(
        self, index: Any, model: nn.Module, samples: TokenSamples, progress: Progress = silent
    ):
        """Check that the index is of these samples and of this model."""
        check_kind("index", index, Index)
        check_model(index.manifest, model, index.location)
        self.samples = samples
        self.progress = progress
        self._index = index
        self._adds = False
        ids = [str(x) for x in samples.sample_ids()]
        if not index.loss.kind.is_of_tokens or ids != [str(x) for x in index.ids.tolist()]:
            raise DataError(
                "index must be of these texts' samples, in their order; it has "
                f"{len(index):,} samples of {index.loss.name!r}, and the texts have {len(ids):,}. "
                "Make it of them: da.index(model, da.lm.token_samples(model, tokenizer, texts), "
                "...), with the same ids and settings."
            )
        self._check_same(np.sort(np.random.default_rng(0).permutation(len(ids))[:N_COMPARED]))

    def by_token(
        self, queries: Queries, texts: Sequence[int]
    ) -> list[Float[np.ndarray, "tokens m"]]:
        """Return what `FittedModels.by_token` does: exact, though texts' effects use the index."""
        if texts:
            self._check_same(self.samples.positions_of(texts))
        return super().by_token(queries, texts)

    def _check_same(self, idx: Int[np.ndarray, " s"]) -> None:
        """Raise if gradients of some samples differ from those stored in the index."""
        stored = self._index.self_influence()
        recomputed = self._index.self_influence(Subset(self.samples, idx.tolist()))
        tolerance = SHARE_OF_OWN * stored[idx] + SHARE_OF_LARGEST * stored.max()
        if (np.abs(recomputed - stored[idx]) > tolerance).any():
            raise DataError(OTHER_TEXTS)

    def _compute_effects(self, queries: Queries) -> Attribution:
        return self._index.query(queries, top=None, measure=log_probability, progress=self.progress)

    def _networks(self, queries: Queries) -> list[Prepared]:
        return [self._index.prepare_queries(queries, measure=log_probability)]


def answer_samples(question: Question, *, per_token: bool) -> Queries:
    """Return prompt and answer as queries: one per token of the answer, or one for all."""
    ids = question.tokens.ids
    spans = [(question.first, len(ids))]  # of the labels that count
    if per_token:
        spans = [(token, token + 1) for token in range(question.first, len(ids))]
    queries = []
    for start, stop in spans:
        labels = np.full(stop, IGNORED)
        labels[start:] = ids[start:stop]
        queries.append({"input_ids": ids[:stop], "labels": labels})
    return queries


def sum_by_text(attribution: Attribution, samples: TokenSamples) -> Attribution:
    """Return effects [texts, m]: those of each text's sequences summed."""
    assert attribution.effect is not None
    starts = np.flatnonzero(np.diff(samples.text, prepend=-1))
    effect = torch.from_numpy(np.add.reduceat(attribution.effect, starts, axis=0))
    # A text's effect on its own loss is no sum over its samples: None where one has several.
    self_influence = None
    if len(starts) == len(samples) and attribution.self_influence is not None:
        self_influence = torch.from_numpy(attribution.self_influence)
    parts = [Effects(0, effect, None, None, self_influence)]
    outcome = torch.from_numpy(attribution.outcome)
    gathered = gather(parts, outcome, "log_probability", samples.ids, attribution.method, None)
    return replace(gathered, warnings=(*attribution.warnings, *_warn(effect.numpy(), samples)))


def _warn(effect: np.ndarray, samples: TokenSamples) -> list[str]:
    """Return warnings: effects too large to be right, and texts without any effect."""
    doubts = []
    largest = float(np.abs(effect).max())
    if largest > LARGEST_TRUSTED:
        doubts.append(
            f"single effects reach {largest:.1f} nats, further than a linear model of the network "
            "can be trusted: read them as an order, not as sizes. Several networks from other "
            "seeds, averaged, or more damping bring them nearer."
        )
    n_silent = int((samples.counted == 0).sum())
    if n_silent:
        doubts.append(
            f"{n_silent} texts have one token alone, which nothing predicts: their effect is 0."
        )
    return doubts


def leading_texts(effect: Float[np.ndarray, "n m"], top: int) -> list[int]:
    """Return positions of the `top` highest and lowest texts for any token, ascending."""
    columns = np.concatenate([effect, effect.sum(1, keepdims=True)], 1)
    order = np.argsort(columns, axis=0, kind="stable")
    lowest = order[:top]
    highest = order[max(0, len(order) - top) :]
    return np.unique(np.concatenate([lowest, highest])).tolist()
