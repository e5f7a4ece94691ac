"""Which training texts, and which of their tokens, made a language model say this."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

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
from datassay.lm.effects import FittedModels, Indexed, answer_samples, leading_texts
from datassay.lm.results import TextInfluence, TextParts
from datassay.lm.samples import texts_of, token_samples
from datassay.lm.settings import Asked, TextReading
from datassay.lm.tokens import question, tokens_of
from datassay.optional import as_tuple
from datassay.progress import Progress, silent
from datassay.rules import integer
from datassay.score.influence.methods import prepare_request
from datassay.score.influence.request import Request
from datassay.score.settings import TrainedWeights, Training


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
    temperature: float | str = TrainedWeights.temperature,
    weight_decay: float = Training.weight_decay,
    parameters: str | Sequence[str] | None = None,
    checkpoints: Any = None,
    precision: str | None = None,
    device: str | None = None,
    seed: int = 0,
    index: Any = None,
    progress: Progress = silent,
    **settings: object,
) -> TextInfluence:
    """Estimate which training texts, and which of their tokens, made a model say this.

    effect of text i on token a = −(1/n) ∇m_aᵀ P ∇ℓ_i,  ∇ℓ_i = Σ_t ∇ℓ_it,  m_a = log p(a | before a)

    Args:
        model: a causal language model of transformers at its trained weights, with any adapters;
            several of other seeds are averaged, by "gauss_newton" alone.
        tokenizer: of transformers, the model's own.
        texts: n training texts, as the model saw them; see `token_samples`.
        answer: the model's output, or another text that it is asked about.
        prompt: what stood before it: context, not asked about. What the training put before every
            text (a token that begins it) belongs here, where the tokenizer does not add it.
        per_token: whether each token of the answer is asked about, or all of them together.
        top: texts, for each token and direction, whose own tokens are distinguished; 0: none.
        baselines: whether `bm25` and `embedding_similarity` to prompt and answer are added.
        ids: one per text, unique; None: their positions.
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
        temperature: T of the loss T ℓ(f / T); "auto" is 1, the loss itself.
        weight_decay: of the training, added to its loss reduced as it says above.
        parameters: "lora_", say.
        checkpoints: of one training run.
        precision: "float32" or "float64".
        device: to compute on.
        seed: of draws of outputs.
        index: of the same texts' samples, `da.index(model, token_samples(model, tokenizer, texts),
            ...)`, opened with the model: gradients of a few texts are compared with its own. What
            it was made with (method and all that follows here) is then not given.
        progress: called with (step, samples done, samples in all).
        settings: the method's own.

    Returns:
        The effects [n, m] in nats: positive where a text's presence raised a token's probability.

    Raises:
        DataError: no texts, an empty one, an answer longer than the context.
        ModelError: the model is no causal language model, or fails.
        SettingError: a setting is out of range, or the tokenizer is not the model's.

    Cost: that of `datassay.influence` with a query per token, and an embedding per text; two or
        three forward passes per token of the answer and text that is distinguished.
    Source: Grosse et al. (2023), whose EK-FAC this is, with blocks exact where they are small. They
        take one token of a text at a time by its activations; here it is by its loss.
    """
    integer("top", top, 0)
    models = [*as_tuple(model)]
    for m in models:
        check_causal(m)
    strings = texts_of(texts)
    reading = TextReading(reduction, pack, too_long, context, overlap)
    samples = token_samples(models[0], tokenizer, strings, ids=ids, **asdict(reading))
    longest = longest_context(models[0], tokenizer)
    asked_question = question(tokenizer, prompt, answer, longest, embedding_rows(models[0]))
    request = Request(
        models, method, curvature, TrainedWeights.response, NEXT_TOKEN, log_probability, damping,
        weight_decay * samples.unit, parameters, None, None, precision, device, seed, progress,
        settings, temperature, unit=samples.unit,
    )  # fmt: skip
    if index is None:
        source = FittedModels(prepare_request(request, checkpoints), samples)
    else:
        _check_no_settings(request, checkpoints)
        source = Indexed(index, models[0], samples, progress)
    queries = answer_samples(asked_question, per_token=per_token)
    attribution = source.effects(queries)
    assert attribution.effect is not None
    leading = leading_texts(attribution.effect, top)
    token_effects = source.by_token(queries, leading)
    parts = [
        TextParts(i, strings[i], tokens_of(tokenizer, strings[i]), effect)
        for i, effect in zip(leading, token_effects, strict=True)
    ]
    bm25_scores = None
    similarities = None
    if baselines:
        bm25_scores = bm25(strings, prompt + answer)
        similarities = embedding_similarity(models[0], samples, asked_question.tokens.ids, progress)
    positions = _choose_texts(leading, top, bm25_scores, similarities)
    warnings = (*asked_question.doubts, *attribution.warnings)
    return TextInfluence(
        replace(attribution, warnings=warnings), asked_question, tuple(parts), bm25=bm25_scores,
        embedding=similarities, shown={i: strings[i] for i in positions}, reduction=reduction,
        top=top,
    )  # fmt: skip


def _check_no_settings(request: Request, checkpoints: Any) -> None:
    """Raise SettingError if a setting is given that the index already fixes."""
    defaults = {
        "method": TrainedWeights.method,
        "curvature": TrainedWeights.curvature,
        "damping": TrainedWeights.damping,
        "temperature": TrainedWeights.temperature,
        "weight_decay": Training.weight_decay,
        "parameters": None,
        "precision": None,
        "device": None,
        "settings": {},
    }
    names = [name for name, value in defaults.items() if getattr(request, name) != value]
    if checkpoints is not None:
        names.append("checkpoints")
    if len(request.models) > 1:
        names.append("model")
    if names:
        raise SettingError(
            f"an index has its own {', '.join(names)}; give index alone, or leave it out."
        )


def _choose_texts(leading: list[int], top: int, *baselines: np.ndarray | None) -> list[int]:
    """Return positions of texts to show: the leading ones, and each baseline's first."""
    top_of_baselines = [
        np.argsort(-scores, kind="stable")[:top] for scores in baselines if scores is not None
    ]
    return np.unique(np.concatenate([leading, *top_of_baselines])).astype(int).tolist()
