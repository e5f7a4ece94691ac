"""RTE, MRPC and STS-B from the data folder, and pairs of sentences as numbers without any network.

A sentence is the mean of its words' vectors (GloVe; a word counts by its inverse document
frequency) or the leading directions of its hashed n-grams, brought to unit length; a pair of
sentences a, b is |a − b| and a · b by element. The n-grams also give, before any directions are
taken, the cosine of a and b and how much of each the other covers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import tasks
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.pipeline import make_pipeline

GLOVE = ("glove_6b_50d_5k", "glove_twitter_25d_12k")
N_HASHED = 2**16
SVD = 50
KINDS = ({"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (3, 5)})  # words, letters


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """n pairs of sentences; y is [n] classes 0 and 1, or [n] scores from 0 to 1."""

    first: list[str]
    second: list[str]
    y: np.ndarray

    def take(self, rows: np.ndarray) -> Pairs:
        """Some of the pairs."""
        return Pairs([self.first[i] for i in rows], [self.second[i] for i in rows], self.y[rows])


def read(task: str) -> tuple[Pairs, Pairs]:
    """Training and test pairs: the official dev set for RTE and STS-B, MRPC's own test set."""
    return {"rte": _rte, "mrpc": _mrpc, "stsb": _stsb}[task]()


def _lines(*parts: str) -> list[list[str]]:
    text = tasks.folder().joinpath("text", *parts).read_text(encoding="utf-8-sig")
    return [line.split("\t") for line in text.split("\n") if line]


def _rte() -> tuple[Pairs, Pairs]:
    def pairs(part: str) -> Pairs:
        rows = _lines("rte", f"{part}.tsv")[1:]
        y = np.array([row[3] == "entailment" for row in rows], np.int64)
        return Pairs([row[1] for row in rows], [row[2] for row in rows], y)

    return pairs("train"), pairs("dev")


def _mrpc() -> tuple[Pairs, Pairs]:
    def pairs(part: str) -> Pairs:
        rows = _lines("mrpc", f"msr_paraphrase_{part}.txt")[1:]
        y = np.array([row[0] == "1" for row in rows], np.int64)
        return Pairs([row[3] for row in rows], [row[4] for row in rows], y)

    return pairs("train"), pairs("test")


def _stsb() -> tuple[Pairs, Pairs]:
    def pairs(part: str) -> Pairs:
        rows = _lines("stsb", f"sts-{part}.csv")
        y = np.array([float(row[4]) / 5 for row in rows])
        return Pairs([row[5] for row in rows], [row[6] for row in rows], y)

    return pairs("train"), pairs("dev")


def representations(train: Pairs, test: Pairs) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """[n, d] and [m, d] float32 by name: word vectors, n-grams, both.

    Everything learned (word weights, SVD, mean and scale of the columns) is learned on `train`.
    """
    sentences = train.first + train.second
    maps = {"glove": [_averages(sentences)], "n-grams": [_ngrams(sentences, k) for k in KINDS]}
    found = {}
    for name, embeddings in maps.items():
        sets = [np.hstack([embed(p) for embed in embeddings]) for p in (train, test)]
        mean, deviation = sets[0].mean(0), sets[0].std(0)
        scale = np.where(deviation > 0, deviation, 1)
        first, second = (((x - mean) / scale).astype(np.float32) for x in sets)
        found[name] = (first, second)
    both = (np.hstack([found[name][part] for name in maps]) for part in (0, 1))
    return found | {"both": tuple(both)}


def _compared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = _unit(a), _unit(b)
    return np.hstack([np.abs(a - b), a * b])


def _unit(x: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(length > 0, length, 1)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|[0-9]+|[^\sa-z0-9]", text.lower())


@cache
def _vectors() -> dict[str, np.ndarray]:
    """[75] for each word that one of the two vocabularies knows; zeros for the other's part."""
    sets = []
    for name in GLOVE:
        found = np.load(Path(tasks.folder()) / "word_vectors" / f"{name}.npz")
        sets.append(dict(zip(found["words"].tolist(), found["vectors"], strict=True)))
    empty = [np.zeros_like(next(iter(s.values()))) for s in sets]
    words = set().union(*sets)
    return {
        w: np.concatenate([s.get(w, e) for s, e in zip(sets, empty, strict=True)]) for w in words
    }


def _averages(sentences: list[str]):
    """Mean word vectors, each word by log(N / documents with it) on the training sentences."""
    vectors = _vectors()
    count: dict[str, int] = {}
    for sentence in sentences:
        for word in set(_words(sentence)):
            count[word] = count.get(word, 0) + 1
    size = next(iter(vectors.values())).size

    def mean(texts: list[str]) -> np.ndarray:
        rows = np.zeros((len(texts), size))
        for row, text in zip(rows, texts, strict=True):
            for word in _words(text):
                if word in vectors:
                    row += np.log((1 + len(sentences)) / (1 + count.get(word, 0))) * vectors[word]
        return rows

    return lambda pairs: _compared(mean(pairs.first), mean(pairs.second))


def _ngrams(sentences: list[str], kind: dict):
    """Hashed n-grams, tf-idf, the leading SVD directions, cosine and coverage."""
    weigh = make_pipeline(
        HashingVectorizer(n_features=N_HASHED, alternate_sign=False, norm=None, **kind),
        TfidfTransformer(sublinear_tf=True),
    )
    hashed = weigh.fit_transform(sentences)
    directions = TruncatedSVD(SVD, random_state=0).fit(hashed)

    def embed(pairs: Pairs) -> np.ndarray:
        a, b = weigh.transform(pairs.first), weigh.transform(pairs.second)
        both = a.minimum(b).sum(1)
        scalars = (a.multiply(b).sum(1), both / a.sum(1), both / b.sum(1))
        return np.hstack([
            _compared(directions.transform(a), directions.transform(b)),
            *(np.asarray(s).reshape(-1, 1) for s in scalars),
        ])

    return embed
