"""A text that stood once among 5000: does asking a GPT's own continuation of it find it?

    python bench/inserted_texts.py --work truth

40 sentences of news (MRPC) are inserted once each among 5000 movie reviews (rt-polarity), and one
GPT learns them all. Each is asked for in two ways: by its own second half, the first being the
prompt, and by its paraphrase. A ranking is judged by the place of the inserted sentence. Ours is
shown raw and divided by the square root of each text's own influence (Barshan et al. 2020,
RelatIF); beside it BM25 and the cosine of mean states. Needs DATASSAY_DATA.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import attribution_gpt as gpt
import numpy as np
import torch
from attribution_cases import Recipe, fitted
from attribution_contenders import bm25
from attribution_tasks import Batch, data_folder
from gpt_contenders import mean_state
from record import record
from safetensors.torch import load_model, save_model
from torch import nn

import datassay as da

N, INSERTED, LENGTH = 5000, 40, 64
RECIPE = Recipe("adamw", 2e-3, 16, epochs=10, cosine=True, weight_decay=0.01)


def pairs() -> tuple[list[str], list[str]]:
    """News sentences of 10 to 24 words, and their paraphrases."""
    file = data_folder() / "text" / "mrpc" / "msr_paraphrase_train.txt"
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8-sig").splitlines()[1:]]
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


def second_half(words, batch: Batch) -> list[str]:
    """The tokens that count, as text."""
    return [words.decode([i for i in row.tolist() if i != -100]) for row in halves(batch)["labels"]]


def learnt(task: gpt.LanguageTask, file: Path) -> nn.Module:
    """The GPT, from its file or trained."""
    if not file.exists():
        save_model(fitted(task, RECIPE, np.arange(len(task.positions)), 0), str(file))
    model = task.build(0)
    load_model(model, file)
    return model.eval()


def places(effect: np.ndarray) -> np.ndarray:
    """Place of each query's own text, which is one of the last; 1: it lowers the loss most."""
    own = effect[N:].diagonal()
    return 1 + (effect < own).sum(0)


def found(place: np.ndarray) -> dict[str, float]:
    """Shares of the queries."""
    within = {f"top_{k}": float((place <= k).mean()) for k in (1, 5, 20)}
    return {**within, "median": float(np.median(place))}


def ours(model: nn.Module, train: list[Batch], asked: list[Batch]) -> dict[str, np.ndarray]:
    """Effects, and effects over the root of each text's own."""
    result = da.influence(model, train, asked, measure="loss")
    effect = np.asarray(result.effect)
    own = np.sqrt(np.abs(np.asarray(result.self_influence)))[:, None]
    return {"ours": effect, "ours, relative": effect / own}


def rows(batch: Batch) -> list[Batch]:
    """A dictionary a text."""
    return [{name: t[i] for name, t in batch.items()} for i in range(len(batch["labels"]))]


def main() -> None:
    """Train unless it is there, ask, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="keeps the network")
    parser.add_argument("--no-record", action="store_true", help="leave results.jsonl alone")
    args = parser.parse_args()
    inserted, paraphrases = pairs()
    texts = [*reviews(), *inserted]
    words = gpt.tokens(texts, LENGTH)
    batch = gpt.encoded(words, texts)
    task = gpt.LanguageTask(
        batch, batch, np.arange(len(texts)), partial(gpt.network, length=LENGTH), gpt.logits,
        gpt.trimmed,
    )  # fmt: skip
    model = learnt(task, args.work / "inserted_texts.safetensors")
    own = {name: t[N:] for name, t in batch.items()}
    asked = {"continuation": halves(own), "paraphrase": gpt.encoded(words, paraphrases)}
    said = {"continuation": second_half(words, own), "paraphrase": paraphrases}
    states = nn.functional.normalize(mean_state(model, batch) - mean_state(model, batch).mean(0))
    both = ours(model, rows(batch), [row for queries in asked.values() for row in rows(queries)])
    figures = {}
    for place, (way, queries) in enumerate(asked.items()):
        own_columns = slice(place * INSERTED, (place + 1) * INSERTED)
        effects = {name: effect[:, own_columns] for name, effect in both.items()}
        seen = mean_state(model, queries) - mean_state(model, batch).mean(0)
        effects["embedding similarity"] = -(states @ nn.functional.normalize(seen).T).numpy()
        effects["BM25"] = -bm25(texts, said[way])
        figures[way] = {name: found(places(effect)) for name, effect in effects.items()}
        for name, line in figures[way].items():
            print(way, name, line, flush=True)
    if not args.no_record:
        parameters = sum(w.numel() for w in model.parameters())
        record("inserted_texts", n=N, inserted=INSERTED, parameters=parameters, **figures)


if __name__ == "__main__":
    main()
