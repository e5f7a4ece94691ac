"""Turn texts into tf-idf weights of words, learned from the training texts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from datassay.data.samples import SampleSet
from datassay.errors import DataError

MAX_WORDS = 2000


def with_tfidf(train: SampleSet, val: SampleSet) -> tuple[SampleSet, SampleSet]:
    """The same samples with word weights appended to x, kind "text".

    Args:
        train: its texts give the words (the MAX_WORDS most frequent) and their weights.
        val: transformed with the training words and weights; words not among them are dropped.

    Returns:
        Both sets; x [n, m + words] float32, each sample's word part of unit length or zero.

    Raises:
        DataError: the training texts hold no word.
    """
    vectorizer: Any = TfidfVectorizer(max_features=MAX_WORDS)
    assert train.texts is not None and val.texts is not None
    try:
        words = vectorizer.fit_transform(train.texts)
    except ValueError as error:
        raise DataError(
            "the training texts must hold words of 2 letters or more; none does. Check which "
            "column is the text."
        ) from error
    names = (*train.feature_names, *(str(w) for w in vectorizer.get_feature_names_out()))
    pairs = ((train, words), (val, vectorizer.transform(val.texts)))
    first, second = (
        replace(
            samples,
            x=np.hstack([samples.x.astype(np.float32), weights.astype(np.float32).toarray()]),
            kind="text",
            feature_names=names,
        )
        for samples, weights in pairs
    )
    return first, second
