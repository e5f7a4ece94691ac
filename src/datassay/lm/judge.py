"""Judge methods: train again without the texts that each names, and ask the model again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from datassay.data.arguments import checks_arguments
from datassay.errors import DataError, ModelError, SettingError
from datassay.lm.causal import check_causal, evaluating, log_probability
from datassay.lm.effects import answer_samples
from datassay.lm.results import JudgedTexts, TextInfluence
from datassay.lm.settings import TextJudging
from datassay.lm.tokens import Question
from datassay.models.user_code import user_code
from datassay.progress import Progress, silent
from datassay.rules import integer

# Name on the page → field of the result; texts drawn at random are what all must beat.
METHODS = {"influence": None, "BM25": "bm25", "embedding": "embedding"}
RANDOM = "random"


@checks_arguments
def judge(
    result: TextInfluence,
    texts: Any,
    train: Any,
    *,
    removed: int = TextJudging.removed,
    repeats: int = TextJudging.repeats,
    seed: int = 0,
    progress: Progress = silent,
) -> TextInfluence:
    """Train again without the texts that each method names; return what became of the answer.

    Args:
        result: effects of the texts on an answer.
        texts: the same texts.
        train: (texts, seed) → a model trained on them from its first weights, as the one that was
            asked; the seed decides weights and order, so that one seed trains alike.
        removed: texts that each method names: those with the largest effects on the whole answer,
            or the largest scores. As many drawn at random are compared.
        repeats: seeds.
        seed: the first one, and of the texts drawn at random.
        progress: called with (step, networks trained, networks in all).

    Returns:
        The result with `judged`, which its page shows.

    Raises:
        DataError: the texts are not those of the result.
        SettingError: a number is out of range.
        ModelError: train fails, or gives no causal language model.

    Cost: (2 + methods) repeats trainings.
    """
    texts = list(texts)
    if len(texts) != len(result.ids):
        raise DataError(
            f"texts must be those of the result, {len(result.ids):,}; got {len(texts):,}."
        )
    integer("removed", removed)
    integer("repeats", repeats)
    if removed >= len(texts):
        raise SettingError(f"removed must be below the {len(texts):,} texts; got {removed}.")
    ranked_first = _rank_texts(result, removed)
    names = (*ranked_first, RANDOM)
    # Log-probabilities of the answer: with all texts, then without those of each method.
    values = np.zeros((1 + len(names), repeats))
    rng = np.random.default_rng(seed)
    for repeat in range(repeats):
        drawn = rng.choice(len(texts), removed, replace=False)
        removals = [np.array([], int), *ranked_first.values(), drawn]
        for row, removed_idx in enumerate(removals):
            dropped = set(removed_idx.tolist())
            remaining = [text for i, text in enumerate(texts) if i not in dropped]
            values[row, repeat] = _retrain(train, remaining, seed + repeat, result.question)
            progress("train again", repeat * len(removals) + row + 1, repeats * len(removals))
    return replace(result, judged=JudgedTexts(names, values[0] - values[1:], values[0], removed))


def _rank_texts(result: TextInfluence, removed: int) -> dict[str, np.ndarray]:
    """Return method → positions of the `removed` texts that it ranks first."""
    scores = {
        name: result.effect.sum(1) if field is None else getattr(result, field)
        for name, field in METHODS.items()
    }
    return {
        name: np.argsort(-score, kind="stable")[:removed]
        for name, score in scores.items()
        if score is not None
    }


def _retrain(train: Callable, texts: Sequence[str], seed: int, question: Question) -> float:
    """Train a model on the texts, and return its log-probability of the answer."""
    with user_code(lambda error: f"train must give a model for (texts, seed); that raised {error}"):
        model = train(list(texts), seed)
    check_causal(model)
    device = next(model.parameters()).device
    (query,) = answer_samples(question, per_token=False)
    batch = {name: torch.as_tensor(values)[None].to(device) for name, values in query.items()}
    with evaluating(model), torch.no_grad():
        value = float(log_probability(model, batch))
    if not np.isfinite(value):
        raise ModelError("train must give a model whose probabilities are finite; got NaN.")
    return value
