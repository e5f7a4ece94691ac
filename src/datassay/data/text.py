"""Turn texts into tf-idf weights of words, learned from the training texts alone."""

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
    """Return (train, val) with tf-idf weights appended to x: [n, m + words] float32."""
    # weight = count · (1 + ln((1 + n) / (1 + samples with the word))), scaled to unit length, as
    # scikit-learn's TfidfVectorizer has it. Of words equally frequent at the limit of MAX_WORDS the
    # first by alphabet count, whatever the order of samples. `val` has the training's words.
    assert train.texts is not None
    words, idf = _fit_idf(train.texts)
    if not words:
        raise DataError(
            "the training texts must hold words of 2 letters or more; none does. Check which "
            "column is the text."
        )
    names = (*train.feature_names, *words)
    n = len(train) + len(val or ())
    check_fits(4.0 * n * len(names), f"weights of {len(words):,} words")
    encoding = Encoding("", len(words), word_weights=idf)
    fields: dict[str, Any] = {"kind": "text", "feature_names": names, "encoding": encoding}
    if val is not None:
        val = replace(val, x=weighed_words(val, words, idf), **fields)
    return replace(train, x=weighed_words(train, words, idf), **fields), val


def _fit_idf(texts: Iterable[str]) -> tuple[list[str], Float[np.ndarray, " words"]]:
    """Return the most frequent words, sorted, and their inverse document frequencies."""
    n_times = Counter()
    n_samples_with = Counter()
    n = 0
    for text in texts:
        counts = Counter(words_of(str(text)))
        n_times.update(counts)
        n_samples_with.update(counts.keys())
        n += 1
    frequent = sorted(sorted(n_times), key=lambda word: -n_times[word])[:MAX_WORDS]
    words = sorted(frequent)
    n_texts_with = np.array([n_samples_with[word] for word in words], dtype=np.float64)
    return words, np.log((1 + n) / (1 + n_texts_with)) + 1


def words_of(text: str) -> Iterator[str]:
    """Yield a text's words of two letters or more, in lower case."""
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
    """Return x and each sample's tf-idf weights, [n, m + words]."""
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
