"""A text that stood once among 5000: does asking a GPT's own continuation of it find it?

40 sentences of news (MRPC) are inserted once each among 5000 movie reviews (rt-polarity), and one
GPT learns them all. Each is asked for in two ways: by its own second half, the first being the
prompt, and by its paraphrase. A ranking is judged by the position of the inserted sentence. Ours is
shown raw and divided by the square root of each text's own influence (Barshan et al. 2020,
RelatIF); compared with BM25 and the cosine of mean states.
"""

from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import torch
from bench.attribution import gpt
from bench.attribution.cases import SETTINGS, fitted, loaded
from bench.attribution.halves import ours_and_others
from bench.attribution.problems import Batch, Language, bm25, single
from bench.data import lines_of, work
from bench.frame import Case, Contender, Row, Task
from safetensors.torch import save_model
from torch import nn

import datassay as da

N, INSERTED, LENGTH = 5000, 40, 64


@dataclass(frozen=True)
class Asked:
    """The GPT, all texts with the inserted ones last, the queries, and their words."""

    problem: Language
    model: nn.Module
    texts: list[str]
    words: list[str]


def pairs() -> tuple[list[str], list[str]]:
    """News sentences of 10 to 24 words, and their paraphrases."""
    rows = [line.split("\t") for line in lines_of("mrpc", "msr_paraphrase_train.txt")[1:]]
    fit = [
        row[3:]
        for row in rows
        if row[0] == "1" and row[3] != row[4] and all(10 <= len(s.split()) <= 24 for s in row[3:])
    ]
    chosen = np.random.default_rng(0).permutation(len(fit))[:INSERTED]
    first, second = zip(*(fit[i] for i in chosen), strict=True)
    return list(first), list(second)


def reviews() -> list[str]:
    """The sentences around them."""
    kept = [s for s in dict.fromkeys(gpt.sentences("rt_polarity")) if len(s.split()) >= 6]
    return [kept[i] for i in np.sort(np.random.default_rng(1).permutation(len(kept))[:N])]


def halves(batch: Batch) -> Batch:
    """The same texts, of which only the second half of the tokens is asked for."""
    labels = batch["labels"].clone()
    lengths = (labels != -100).sum(1)
    labels[torch.arange(labels.shape[1]) < (lengths // 2)[:, None]] = -100
    return {**batch, "labels": labels}


@cache
def made(way: str, seed: int) -> Asked:
    """The GPT from its file or trained, asked in one of the two ways."""
    inserted, paraphrases = pairs()
    texts = [*reviews(), *inserted]
    words = gpt.tokens(texts, LENGTH)
    batch = gpt.encoded(words, texts)
    build = partial(gpt.network, length=LENGTH)
    problem = Language(batch, batch, build, gpt.logits, gpt.trimmed)
    file = work() / "inserted_texts.safetensors"
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        save_model(fitted(problem, SETTINGS["gpt"].recipe, np.arange(len(texts)), 0), str(file))
    queries, reported = gpt.encoded(words, paraphrases), paraphrases
    if way == "continuation":
        queries = halves({name: t[N:] for name, t in batch.items()})
        reported = [
            words.decode([i for i in row.tolist() if i != -100]) for row in queries["labels"]
        ]
    return Asked(replace(problem, queries=queries), loaded(problem, file), texts, reported)


def ours(relative: bool, wanted: Asked, seed: int) -> np.ndarray:
    """Effects, or effects over the root of each text's own."""
    train, queries = (single(part) for part in (wanted.problem.train, wanted.problem.queries))
    attribution = da.influence(wanted.model, train, queries, measure="loss")
    effect = np.asarray(attribution.effect)
    own = np.sqrt(np.abs(np.asarray(attribution.self_influence)))[:, None]
    return effect / own if relative else effect


def nearness(wanted: Asked, seed: int) -> np.ndarray:
    """Cosine of mean states, both less the mean of the texts'."""
    batches = (wanted.problem.train, wanted.problem.queries)
    texts, queries = (gpt.mean_state(wanted.model, batch) for batch in batches)
    a, b = (nn.functional.normalize(part - texts.mean(0)) for part in (texts, queries))
    return -(a @ b.T).numpy()


def shared_words(wanted: Asked, seed: int) -> np.ndarray:
    return -bm25(wanted.texts, wanted.words)


def places(effect: np.ndarray) -> np.ndarray:
    """Place of each query's own text, which is one of the last; 1: it lowers the loss most."""
    own = effect[N:].diagonal()
    return 1 + (effect < own).sum(0)


def judge(wanted: Asked, answer: np.ndarray, seed: int) -> dict[str, float]:
    position = places(answer)
    return {f"found in the first {k}": float((position <= k).mean()) for k in (1, 5, 20)}


def rows(lines: dict[str, dict]) -> list[Row]:
    line, results = lines["inserted_texts"], []
    for way, top, shown in (("continuation", 1, "first"), ("paraphrase", 20, "in the top 20")):
        reported = {name: f"{figures[f'top_{top}']:.0%}" for name, figures in line[way].items()}
        what = (f"A text once among {line['n']} that a GPT of {line['parameters']} weights learnt, "
                f"asked for by its {way}: share of {line['inserted']} found {shown}")  # fmt: skip
        results.append(Row(what, ours_and_others(reported)))
    return results


TASK = Task(
    measure="texts found that stood once among 5000",
    cases={way: Case(partial(made, way)) for way in ("continuation", "paraphrase")},
    contenders={
        "ours": Contender(partial(ours, False), "ours"),
        "ours, relative": Contender(partial(ours, True), "ours"),
        "embedding similarity": Contender(nearness, "trivial"),
        "BM25": Contender(shared_words, "trivial"),
    },
    judge=judge,
    repeats=1,
    rows=rows,
)
