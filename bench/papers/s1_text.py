"""Text (S1 App. A.8): averaged word vectors, MLP(2000), t = 10 000 steps at 0.003.

The paper takes 2000 IMDB reviews and 300-dimensional GloVe vectors; the data folder holds the
sentences of rt-polarity and 50-dimensional GloVe vectors of the 5050 most frequent words.

    python papers/s1_text.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tasks
from record import record
from scipy.stats import pearsonr, spearmanr

import datassay as da
from datassay.data import SampleSet

SEEDS = 3
SHOWN = 6


def sentences() -> tuple[list[str], np.ndarray]:
    texts, labels = [], []
    for label, kind in enumerate(("neg", "pos")):
        file = tasks.folder() / "text" / "rt_polarity" / f"rt-polarity.{kind}"
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
        texts += lines
        labels += [label] * len(lines)
    return texts, np.array(labels)


def averaged(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Mean vector of the known words, and how many there are."""
    found = np.load(tasks.folder() / "word_vectors" / "glove_6b_50d_5k.npz")
    vectors = dict(zip(found["words"].tolist(), found["vectors"], strict=True))
    known = [[vectors[w] for w in text.split() if w in vectors] for text in texts]
    rows = [np.mean(k, 0) if k else np.zeros(50) for k in known]
    return np.array(rows, dtype=np.float32), np.array([len(k) for k in known])


def draw(size: int, seed: int) -> tuple[SampleSet, SampleSet, np.ndarray]:
    """Training and validation sentences of `size` each, and the lengths of the former."""
    texts, y = sentences()
    x, known = averaged(texts)
    eligible = np.flatnonzero(known > 0)
    order = np.random.default_rng(seed).choice(eligible, 2 * size, replace=False)
    sets = [
        SampleSet(
            x[some],
            y[some],
            some,
            class_names=("negative", "positive"),
            kind="text",
            texts=np.array([texts[i] for i in some]),
            name="rt-polarity",
        )
        for some in (order[:size], order[size:])
    ]
    return sets[0], sets[1], np.array([len(texts[i].split()) for i in order[:size]])


def main() -> None:
    rows, start = [], time.perf_counter()
    for seed in range(SEEDS):
        train, val, length = draw(2000, seed)
        lin = da.collect(da.build_model("mlp:width=2000", train, seed=seed), train, val)
        run = {"lr": 0.003, "steps": 10_000, "reduction": "mean"}
        loo = da.leave_one_out(lin, **run)
        information = da.sample_information(lin, loo=loo).information
        rows.append((
            pearsonr(information, length).statistic,
            spearmanr(information, length).statistic,
            float(((loo.held_out[:, 0] > 0.5) == train.y).mean()),
        ))
        if seed == 0:
            order = np.argsort(information)
            kept = {"least": order[:SHOWN], "most": order[::-1][:SHOWN]}
            names = train.class_names
            shown = {
                k: [f"[{names[train.y[i]]}] {train.texts[i]}" for i in some]
                for k, some in kept.items()
            }
    pearson, spearman, accuracy = np.mean(rows, 0)
    record(
        "s1_text/rt-polarity",
        n=2000,
        seeds=SEEDS,
        length_pearson=pearson,
        length_pearson_each=[r[0] for r in rows],
        length_spearman=spearman,
        held_out_accuracy=accuracy,
        least_informative=shown["least"],
        most_informative=shown["most"],
        seconds=time.perf_counter() - start,
    )


if __name__ == "__main__":
    main()
