"""Turn texts into tf-idf weights of words, learned from the training texts alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from datassay.data.samples import Encoding, SampleSet
from datassay.data.source import check_fits
from datassay.errors import DataError

MAX_WORDS = 2000
# Texts are taken apart in pieces of about so many characters, and weighed so many at a time.
PIECE = 2**16
CHUNK = 256
_WORD = re.compile(r"\b\w\w+\b")
_SPACE = re.compile(r"\s")


def with_tfidf(train: SampleSet, val: SampleSet | None) -> tuple[SampleSet, SampleSet | None]:
    """The same samples with word weights appended to x, [n, m + words] float32, kind "text"."""
    # weight = count · (1 + ln((1 + n) / (1 + samples with the word))), scaled to unit length: that
    # of scikit-learn's TfidfVectorizer but that of words equally frequent at the limit the first by
    # alphabet count, whatever the order of the samples. `val` has the training's words and weights.
    assert train.texts is not None
    words, idf = _words_and_idf(train.texts)
    if not words:
        raise DataError(
            "the training texts must hold words of 2 letters or more; none does. Check which "
            "column is the text."
        )
    names = (*train.feature_names, *words)
    n = len(train) + (0 if val is None else len(val))
    check_fits(4.0 * n * len(names), f"weights of {len(words):,} words")
    encoding = Encoding("", len(words), word_weights=idf)
    made: dict[str, Any] = {"kind": "text", "feature_names": names, "encoding": encoding}
    first = replace(train, x=weighed_words(train, words, idf), **made)
    return first, val and replace(val, x=weighed_words(val, words, idf), **made)


def _words_and_idf(texts: Iterable[str]) -> tuple[list[str], Float[np.ndarray, " words"]]:
    times, samples, n = Counter(), Counter(), 0
    for text in texts:
        counts = Counter(words_of(str(text)))
        times.update(counts)
        samples.update(counts.keys())
        n += 1
    chosen = sorted(sorted(times), key=lambda word: -times[word])[:MAX_WORDS]
    words = sorted(chosen)
    within = np.array([samples[word] for word in words], dtype=np.float64)
    return words, np.log((1 + n) / (1 + within)) + 1


def words_of(text: str) -> Iterator[str]:
    """Its words of two letters or more, in small letters, one at a time."""
    start = 0
    while start < len(text):
        space = _SPACE.search(text, start + PIECE)
        end = space.start() if space else len(text)
        for match in _WORD.finditer(text[start:end].lower()):
            yield match.group()
        start = end


def weighed_words(
    samples: SampleSet, words: Sequence[str], idf: Float[np.ndarray, " words"]
) -> Float[np.ndarray, "n features"]:
    """The numbers and the word weights of each sample."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import

    vectorizer: Any = TfidfVectorizer  # its own hints know no analyzer but by name
    weigher = vectorizer(vocabulary=words, analyzer=words_of)
    weigher.idf_ = idf
    n, width = samples.x.shape
    x = np.empty((n, width + len(words)), dtype=np.float32)
    x[:, :width] = samples.x
    assert samples.texts is not None
    for rows in np.split(np.arange(n), range(CHUNK, n, CHUNK)):
        x[rows, width:] = weigher.transform(map(str, samples.texts[rows])).toarray()
    return x
