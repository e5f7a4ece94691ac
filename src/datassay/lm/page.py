"""The page of an answer: its tokens to pick, the texts behind each, and what baselines name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

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


def page(found: Any) -> Page:
    """Everything that a TextInfluence says."""
    baselines = {
        name: words for name, words in BASELINES.items() if getattr(found, name) is not None
    }
    shown = {
        "raised": "Texts that raised its probability",
        "lowered": "Texts that lowered it",
        "baselines": [title for _, title in baselines.values()],
        "told": markup(script_json(_told(found, list(baselines)))),
    }
    text = (
        "Each effect is a log-probability with the text minus without it, in nats, to first order "
        "at the trained weights: +0.7 doubled the probability, −0.7 halved it."
    )
    why = Section(
        "why",
        "The answer",
        "Which training texts made the model say this?",
        (Text(text), Partial("tokens.html", shown, ("elements.js", "tokens.js"))),
    )
    trust = Section("trust", "Who is right", "Who is right", _trust(found))
    return Page(
        brand="datassay.lm · which training texts made a language model say this",
        title=shortened(" ".join(found.question.answer.split()), 80) or "An answer",
        lead=_lead(found, list(baselines)),
        facts=_facts(found),
        warnings=found.attribution.warnings,
        opening=(why,),
        sections=(trust,) if baselines or found.judged else (),
        method=_method(found),
        files=FILES,
    )


def _trust(found: Any) -> tuple[Block, ...]:
    judged = found.judged
    if judged is None:
        return (Text(UNJUDGED),)
    winner, says = verdict(judged)
    repeats = judged.fall.shape[1]
    rows = [
        Row(name, (_nats(fall.mean()), ", ".join(map(_nats, fall))), best=name == winner)
        for name, fall in zip(judged.methods, judged.fall, strict=True)
    ]
    what = f"without the {count(judged.removed, 'text')} that each names"
    note = (
        "In nats: log-probability of the answer with all texts minus without those, from the same "
        f"seed. With all texts it is {_nats(judged.whole.mean())} on average."
    )
    columns = ("method", "mean fall", "by seed")
    table = Table("Fall of the answer", columns, tuple(rows), note=note)
    told = f"Trained again {what}, {count(repeats, 'seed')} each. {says}"
    return (Text(told), table)


def verdict(judged: Any) -> tuple[str | None, str]:
    """Whose texts the answer depended on most, None where seeds do not tell; and a sentence."""
    means = judged.fall.mean(1)
    order = np.argsort(-means, kind="stable")
    first, second = (judged.methods[i] for i in order[:2])
    repeats = judged.fall.shape[1]
    ahead = judged.fall[order[0]] - judged.fall[order[1]]
    if repeats == 1:
        return None, (
            f"One training each: the answer fell most without the texts of {first}, and one seed "
            "cannot say how sure that is."
        )
    found = mean_interval(ahead)
    told = sentence(found.verdict, first, second)
    told += f": {found.gain:.2f} ± {found.half:.2f} nats ahead, over {repeats} seeds."
    return first if found.verdict == BETTER else None, told


def _lead(found: Any, baselines: list[str]) -> str:
    total = found.effect.sum(1)
    first = int(total.argmax())
    if total[first] <= 0:
        return "No text raised the answer's probability."
    ranks = [
        f"{_ordinal(int(_ranks(getattr(found, n))[first]))} by {BASELINES[n][0]}" for n in baselines
    ]
    beside = f" It comes {' and '.join(ranks)}." if ranks else ""
    return f"Text {found.ids[first]} raised it most, by {_nats(total[first])} nats.{beside}"


def _facts(found: Any) -> dict[str, str]:
    asked = len(found.question.tokens.ids) - found.question.first
    reductions = {"sum": "every token counts the same", "mean": "every text counts the same"}
    return {
        "Training texts": f"{len(found.ids):,}",
        "Asked about": count(asked, "token"),
        "Log-probability of the answer": f"{_nats(found.log_probability.sum())} nats",
        "Training loss": f"next token; {reductions[found.reduction]}",
        "Method": found.attribution.method,
    }


def _told(found: Any, baselines: list[str]) -> dict[str, Any]:
    """What the page's script shows, as JSON values."""
    places = {text: k for k, text in enumerate(sorted(found.shown))}
    parts = {part.text: part for part in found.parts}
    columns = _columns(found.effect)
    ranks = {name: _ranks(getattr(found, name)) for name in baselines}
    texts = [
        {
            "id": str(found.ids[text]),
            "pieces": list(parts[text].tokens.pieces) if text in parts else [found.shown[text]],
            "effects": _rounded(columns[text]),
            "ranks": [f"{BASELINES[n][0]} {_ordinal(int(ranks[n][text]))}" for n in baselines],
        }
        for text in places
    ]
    first = found.question.first
    picks = [_pick(found, k, columns[:, k], parts, places) for k in range(columns.shape[1])]
    return {
        "context": "".join(found.question.tokens.pieces[:first]),
        "tokens": list(found.question.tokens.pieces[first:]),
        "texts": texts,
        "picks": picks if found.effect.shape[1] > 1 else picks[:1],
        "baselines": [_named(getattr(found, name), found.top, places) for name in baselines],
    }


def _columns(effect: np.ndarray) -> np.ndarray:
    """On the whole answer first, then on each of its tokens."""
    return np.concatenate([effect.sum(1, keepdims=True), effect], 1)


def _pick(
    found: Any, k: int, effects: np.ndarray, parts: dict[int, Any], places: dict[int, int]
) -> dict[str, Any]:
    order = np.argsort(effects, kind="stable")
    raised = [int(i) for i in order[::-1][: found.top] if effects[i] > 0]
    lowered = [int(i) for i in order[: found.top] if effects[i] < 0]
    log_probability = float(_columns(found.log_probability[None])[0, k])
    what = "The whole answer" if k == 0 else f"Token {k}, “{found.tokens[k - 1].strip()}”"
    chance = f", probability {number(float(np.exp(log_probability)))}" if k else ""

    def told(text: int) -> list[Any]:
        own = _columns(parts[text].effect)[:, k]
        return [places[text], _rounded(own)]

    return {
        "says": f"{what}: log-probability {_nats(log_probability)}{chance}",
        "raised": [told(i) for i in raised if i in parts],
        "lowered": [told(i) for i in lowered if i in parts],
    }


def _named(scores: np.ndarray, top: int, places: dict[int, int]) -> list[list[Any]]:
    order = np.argsort(-scores, kind="stable")[:top]
    return [[places[int(i)], f"score {number(float(scores[i]))}"] for i in order]


def _ranks(scores: np.ndarray) -> np.ndarray:
    """1 is the largest; equal ones share the better rank."""
    return np.searchsorted(np.sort(-scores), -scores) + 1


def _ordinal(rank: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th") if rank // 10 % 10 != 1 else "th"
    return f"{rank:,}{ending}"


def _rounded(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.3g}") for value in values]


def _nats(value: float) -> str:
    return number(float(value)).replace("-", "−")


def _method(found: Any) -> tuple[tuple[str, str], ...]:
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
    if found.bm25 is not None:
        terms.append((
            "BM25",
            "The score of search engines: words in common, rare ones first. It knows neither the "
            "model nor its training.",
        ))
    if found.embedding is not None:
        terms.append((
            "embedding",
            "The cosine between the mean last hidden states of the text and of prompt and answer.",
        ))
    return tuple(terms)
