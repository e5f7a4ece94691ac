"""Texts compared as texts: by the sequences of characters that they share."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array

GRAM = 4  # characters
WIDTH = 128  # coordinates of a text: its shingles, hashed with signs; rare ones weigh more
# Near copies are less than MOST_APART in distance (1 − shared part of the shingles of both), than
# TIMES the distance of the TENTH nearest text, and by BEYOND deviations nearer than texts without a
# copy.
MOST_APART = 0.45
TENTH = 10
TIMES = 0.5
BEYOND = 4.0
MOST_JUDGED = (200, 5_000)  # texts whose usual distances are taken, and texts that these are to
_AT_ONCE = 20_000  # pairs


def normalize_texts(texts: Iterable[str | None]) -> np.ndarray:
    """Return texts without case, punctuation and further spaces; a missing one is empty."""
    return np.array([" ".join(re.findall(r"\w+", (t or "").casefold())) for t in texts], object)


def text_coordinates(texts: np.ndarray) -> Float[np.ndarray, "n w"]:
    """Return coordinates of texts: equal ones are 0 apart, unrelated ones about 1.

    Source: Weinberger et al. (2009), feature hashing, of shingles (Broder 1997).
    """
    from sklearn.preprocessing import normalize  # slow to import

    grams = normalize(_hash_shingles(texts))
    folded = grams.data, grams.indices % WIDTH, grams.indptr
    return csr_array(folded, shape=(len(texts), WIDTH)).toarray() / np.sqrt(2, dtype=np.float32)


def _hash_shingles(texts: np.ndarray) -> Any:
    """Return a sparse row per text with a signed, rarity-weighted entry per shingle's hash."""
    from sklearn.feature_extraction.text import HashingVectorizer  # slow to import

    options: dict[str, Any] = {"norm": None, "lowercase": False, "dtype": np.float32}
    grams = HashingVectorizer(analyzer="char", ngram_range=(GRAM, GRAM), **options)
    shingles: Any = csr_array(grams.transform(texts))
    n_texts = np.bincount(shingles.indices, minlength=shingles.shape[1])  # with each shingle
    weight = np.sqrt(np.log((2 + len(texts)) / (1 + n_texts)))
    shingles.data = np.sign(shingles.data) * weight[shingles.indices]
    return shingles


def text_links(
    codes: Int[np.ndarray, "n d"], texts: dict[int, np.ndarray], neighbors: Int[np.ndarray, "n k"]
) -> Int[np.ndarray, "l 2"]:
    """Return pairs of rows with near-copies as texts that agree in all other columns.

    Args:
        codes: equal where values are.
        texts: by column, as `normalize_texts` gives them; those that are equal are near copies.
        neighbors: of each row those to compare it with, nearest first.

    Cost: the shingles of each text, 200 n WIDTH operations, and the pairs that seem alike.
    """
    n = len(codes)
    other_codes = np.delete(codes, list(texts), axis=1)
    has_text = np.any([words != "" for words in texts.values()], axis=0)
    text_codes = [np.unique(words, return_inverse=True)[1] for words in texts.values()]
    start, inverse = np.unique(
        np.column_stack([other_codes, *text_codes]), axis=0, return_index=True, return_inverse=True
    )[1:]
    equal_links = np.stack([start[inverse.ravel()], np.arange(n)], 1)
    equal_links = equal_links[equal_links[:, 0] != equal_links[:, 1]]
    pairs = np.stack([np.arange(n).repeat(neighbors.shape[1]), neighbors.ravel()], 1)
    pairs = np.unique(np.sort(pairs, 1), axis=0)
    pairs = pairs[(other_codes[pairs[:, 0]] == other_codes[pairs[:, 1]]).all(1)]
    for words in texts.values():
        pairs = pairs[_are_alike(words, pairs)]
    links = np.concatenate([equal_links, pairs])
    return links[has_text[links].all(1)]


def _are_alike(words: np.ndarray, pairs: Int[np.ndarray, "l 2"]) -> Bool[np.ndarray, " l"]:
    """Return which pairs of texts share most shingles, far more than others of the table."""
    shingles = _hash_shingles(words)
    size = (shingles * shingles).sum(1)
    n = len(words)
    queries, references = (np.arange(0, n, -(-n // count)) for count in MOST_JUDGED)
    shared = (shingles[queries] @ shingles[references].T).toarray()
    distance = 1 - shared / np.maximum(size[queries, None] + size[references] - shared, 1e-9)
    ranks = [1 % len(references), min(TENTH, len(references) - 1)]  # itself first
    nearest, tenth = np.sort(distance, 1)[:, ranks].T
    # The upper third of nearest distances are of texts without a copy, as of a normal law: its
    # quantiles of 0.7 and 0.9 lie 0.524 deviations above the mean, and 0.757 apart.
    low, high = np.quantile(nearest, [0.7, 0.9])
    deviation = (high - low) / 0.757
    most_unusual = low - (0.524 + BEYOND) * deviation
    min_share = 1 - min(MOST_APART, TIMES * np.median(tenth), most_unusual)
    is_alike = np.zeros(len(pairs), bool)
    for chunk in np.array_split(np.arange(len(pairs)), 1 + len(pairs) // _AT_ONCE):
        a, b = pairs[chunk].T
        shared = (shingles[a] * shingles[b]).sum(1)
        is_alike[chunk] = shared >= min_share * (size[a] + size[b] - shared)
    a, b = pairs.T
    length = np.array([len(text) for text in words])
    is_alike &= np.minimum(length[a], length[b]) >= 0.5 * np.maximum(length[a], length[b])
    return is_alike | (words[a] == words[b])
