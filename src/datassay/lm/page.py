"""The page of an answer: its tokens to pick, the texts behind each, and what baselines name."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from datassay.optional import text_if
from datassay.report.html import markup, script_json
from datassay.report.page import Block, Page, Partial, Row, Section, Table, Text
from datassay.report.wording import count, number, shortened
from datassay.stats import BETTER, mean_interval, sentence

FILES = {
    "effects.parquet": "every text: effects, BM25, embedding",
    "tokens.parquet": "tokens of the texts with the largest effects",
}
BASELINES = {
    "bm25": ("BM25", "BM25: words in common with prompt and answer"),
    "embedding": ("embedding", "Embedding: the model's last states lie near"),
}
UNJUDGED = (
    "Nothing here was retrained, so nothing here says which of these methods is right. Only "
    "training again without the texts that each names, and asking again, can tell."
)


def page(result: Any) -> Page:
    """Build the page of a TextInfluence."""
    baselines = {
        name: words for name, words in BASELINES.items() if getattr(result, name) is not None
    }
    context = {
        "raised": "Texts that raised its probability",
        "lowered": "Texts that lowered it",
        "baselines": [title for _, title in baselines.values()],
        "told": markup(script_json(_make_script_data(result, list(baselines)))),
    }
    text = (
        "Each effect is a log-probability with the text minus without it, in nats, to first order "
        "at the trained weights: +0.7 doubled the probability, −0.7 halved it."
    )
    answer_section = Section(
        "why",
        "The answer",
        "Which training texts made the model say this?",
        (Text(text), Partial("tokens.html", context, ("elements.js", "tokens.js"))),
    )
    trust_section = Section("trust", "Who is right", "Who is right", _describe_trust(result))
    return Page(
        brand="datassay.lm · which training texts made a language model say this",
        title=shortened(" ".join(result.question.answer.split()), 80) or "An answer",
        lead=_compose_lead(result, list(baselines)),
        facts=_list_facts(result),
        warnings=result.attribution.warnings,
        opening=(answer_section,),
        sections=(trust_section,) if baselines or result.judged else (),
        method=_explain_terms(result),
        files=FILES,
    )


def _describe_trust(result: Any) -> tuple[Block, ...]:
    """Return blocks on which method is right: measured by retraining, or unknown."""
    judged = result.judged
    if judged is None:
        return (Text(UNJUDGED),)
    winner, conclusion = verdict(judged)
    repeats = judged.fall.shape[1]
    rows = [
        Row(name, (_in_nats(fall.mean()), ", ".join(map(_in_nats, fall))), best=name == winner)
        for name, fall in zip(judged.methods, judged.fall, strict=True)
    ]
    scope = f"without the {count(judged.removed, 'text')} that each names"
    note = (
        "In nats: log-probability of the answer with all texts minus without those, from the same "
        f"seed. With all texts it is {_in_nats(judged.whole.mean())} on average."
    )
    columns = ("method", "mean fall", "by seed")
    table = Table("Fall of the answer", columns, tuple(rows), note=note)
    message = f"Trained again {scope}, {count(repeats, 'seed')} each. {conclusion}"
    return (Text(message), table)


def verdict(judged: Any) -> tuple[str | None, str]:
    """Return the method whose texts the answer depends on most (or None), and a sentence."""
    means = judged.fall.mean(1)
    i, j = np.argsort(-means, kind="stable")[:2]
    leader = judged.methods[i]
    runner_up = judged.methods[j]
    repeats = judged.fall.shape[1]
    lead = judged.fall[i] - judged.fall[j]  # [repeats]
    if repeats == 1:
        return None, (
            f"One training each: the answer fell most without the texts of {leader}, and one seed "
            "cannot say how sure that is."
        )
    gap = mean_interval(lead)
    message = sentence(gap.verdict, leader, runner_up)
    message += f": {gap.gain:.2f} ± {gap.half:.2f} nats ahead, over {repeats} seeds."
    return leader if gap.verdict == BETTER else None, message


def _compose_lead(result: Any, baselines: list[str]) -> str:
    """Return the page's first sentences: which text raised the answer's probability most."""
    total = result.effect.sum(1)
    top = int(total.argmax())
    if total[top] <= 0:
        return "No text raised the answer's probability."
    ranks = [
        f"{_format(int(_ranks(getattr(result, n))[top]))} by {BASELINES[n][0]}" for n in baselines
    ]
    ranking = text_if(ranks, f" It comes {' and '.join(ranks)}.")
    return f"Text {result.ids[top]} raised it most, by {_in_nats(total[top])} nats.{ranking}"


def _list_facts(result: Any) -> dict[str, str]:
    """Return fact → text for the head of the page: model, texts, tokens, method."""
    n_tokens = len(result.question.tokens.ids) - result.question.first
    reductions = {"sum": "every token counts the same", "mean": "every text counts the same"}
    return {
        "Training texts": f"{len(result.ids):,}",
        "Asked about": count(n_tokens, "token"),
        "Log-probability of the answer": f"{_in_nats(result.log_probability.sum())} nats",
        "Training loss": f"next token; {reductions[result.reduction]}",
        "Method": result.attribution.method,
    }


def _make_script_data(result: Any, baselines: list[str]) -> dict[str, Any]:
    """Return JSON values for the page's script: tokens, and the effects behind each."""
    # Texts are numbered by their position among those shown.
    positions = {text: number for number, text in enumerate(sorted(result.shown))}
    parts = {of_text.text: of_text for of_text in result.parts}
    effects = _prepend_whole(result.effect)
    ranks = {name: _ranks(getattr(result, name)) for name in baselines}
    texts = [
        {
            "id": str(result.ids[text]),
            "pieces": list(parts[text].tokens.pieces) if text in parts else [result.shown[text]],
            "effects": _round(effects[text]),
            "ranks": [f"{BASELINES[n][0]} {_format(int(ranks[n][text]))}" for n in baselines],
        }
        for text in positions
    ]
    start = result.question.first
    picks = [_pick(result, k, effects[:, k], parts, positions) for k in range(effects.shape[1])]
    if result.effect.shape[1] == 1:  # one token is the whole answer
        picks = picks[:1]
    return {
        "context": "".join(result.question.tokens.pieces[:start]),
        "tokens": list(result.question.tokens.pieces[start:]),
        "texts": texts,
        "picks": picks,
        "baselines": [_top_scores(getattr(result, x), result.top, positions) for x in baselines],
    }


def _prepend_whole(effect: np.ndarray) -> np.ndarray:
    """Return effects [texts, 1 + m]: on the whole answer first, then on each of its tokens."""
    return np.concatenate([effect.sum(1, keepdims=True), effect], 1)


def _pick(
    result: Any, k: int, effects: np.ndarray, parts: dict[int, Any], positions: dict[int, int]
) -> dict[str, Any]:
    """Return what is shown for answer token k (0: the whole answer): texts by effect."""
    # `effects`: [texts], on it. `positions`: number on the page of each text shown.
    order = np.argsort(effects, kind="stable")
    raised = [int(i) for i in order[::-1][: result.top] if effects[i] > 0]
    lowered = [int(i) for i in order[: result.top] if effects[i] < 0]
    log_probability = float(_prepend_whole(result.log_probability[None])[0, k])
    subject = "The whole answer"
    chance = ""
    if k:
        subject = f"Token {k}, “{result.tokens[k - 1].strip()}”"
        chance = f", probability {number(float(np.exp(log_probability)))}"

    def position_and_effects(text: int) -> list[Any]:
        token_effects = _prepend_whole(parts[text].effect)[:, k]
        return [positions[text], _round(token_effects)]

    return {
        "says": f"{subject}: log-probability {_in_nats(log_probability)}{chance}",
        "raised": [position_and_effects(i) for i in raised if i in parts],
        "lowered": [position_and_effects(i) for i in lowered if i in parts],
    }


def _top_scores(scores: np.ndarray, top: int, positions: dict[int, int]) -> list[list[Any]]:
    """Return [number on the page, score in words] of a baseline's highest texts."""
    order = np.argsort(-scores, kind="stable")[:top]
    return [[positions[int(i)], f"score {number(float(scores[i]))}"] for i in order]


def _ranks(scores: np.ndarray) -> np.ndarray:
    """Return [n] ranks, 1 for the largest; equal scores share the better rank."""
    return np.searchsorted(np.sort(-scores), -scores) + 1


def _format(rank: int) -> str:
    """Return a rank as "1st", "2nd", "11th"."""
    ending = "th"
    if rank // 10 % 10 != 1:
        ending = {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank:,}{ending}"


def _round(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.3g}") for value in values]


def _in_nats(value: float) -> str:
    return number(float(value)).replace("-", "−")


def _explain_terms(result: Any) -> tuple[tuple[str, str], ...]:
    """Return (term, explanation) pairs for the page's section on method."""
    terms = [
        (
            "effect of a text",
            "−(1/n) ∇m P ∇ℓ: m is the log-probability of the token, given all that stands before "
            "it; ℓ is the text's loss; P inverts the curvature of the training loss, block by "
            "block. Positive: the model would have found the token less likely without the text.",
        ),
        (
            "effect of a token of a text",
            "The same with that token's own loss. Over the text they add up to its effect.",
        ),
    ]
    if result.bm25 is not None:
        terms.append((
            "BM25",
            "The score of search engines: words in common, rare ones first. It knows neither the "
            "model nor its training.",
        ))
    if result.embedding is not None:
        terms.append((
            "embedding",
            "The cosine between the mean last hidden states of the text and of prompt and answer.",
        ))
    return tuple(terms)
