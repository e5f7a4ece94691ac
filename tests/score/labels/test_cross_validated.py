"""Held-out class probabilities: held out, whatever the order of rows, for any classifier."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier

from datassay.data import SampleSet
from datassay.errors import DataError, ModelError
from datassay.score import held_out_probabilities, label_issues
from datassay.score.compare.fits import fitted_outputs


def samples():
    x = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)
    y = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(np.int64)
    return SampleSet(x, y, np.arange(120), ("no", "yes"))


def test_no_sample_judges_itself():
    """The nearest neighbour of a sample that is held out is another one."""
    p = held_out_probabilities(samples(), KNeighborsClassifier(1))
    assert (p.argmax(1) != samples().y).any() and np.allclose(p.sum(1), 1)


def test_row_order_does_not_matter_and_what_cannot_be_folded_is_told():
    given, order = samples(), np.random.default_rng(1).permutation(120)
    result = held_out_probabilities(given)[order]
    np.testing.assert_array_equal(result, held_out_probabilities(given.subset(order)))
    with pytest.raises(DataError, match=r"one of them with 5 samples"):
        held_out_probabilities(given.subset(np.arange(6)))
    with pytest.raises(DataError, match="held-out class probabilities need classes"):
        held_out_probabilities(SampleSet(given.x, given.x[:, 0], np.arange(120), ()))


class Own(ClassifierMixin, BaseEstimator):
    """A user's own: class means, with columns and probabilities as they should not be."""

    def __init__(self, columns=None, named=None, change=None):
        self.columns, self.named, self.change = columns, named, change

    def fit(self, x, y):
        self.means_ = np.stack([x[y == k].mean(0) for k in range(3)])
        order = self.columns or [0, 1, 2]
        self.classes_ = np.array(self.named or order)
        return self

    def predict_proba(self, x):
        near = np.exp(-((x[:, None] - self.means_) ** 2).sum(2))
        p = (near / near.sum(1, keepdims=True))[:, self.columns or [0, 1, 2]]
        return p if self.change is None else self.change(p)

    def predict(self, x):
        return self.classes_[self.predict_proba(x).argmax(1)]


def three(n=120):
    draw = np.random.default_rng(0)
    y = np.arange(n) % 3
    x = draw.normal(size=(n, 3)).astype(np.float32)
    x[np.arange(n), y] += 1
    return SampleSet(x, y, np.arange(n), ("a", "b", "c"))


@pytest.mark.parametrize("columns", [[2, 1, 0], [1, 2, 0]])
def test_columns_are_read_by_classes_(columns):
    truth = held_out_probabilities(three(), Own())
    np.testing.assert_allclose(held_out_probabilities(three(), Own(columns)), truth)
    result, issues = label_issues(three(), model=Own(columns)), label_issues(three(), model=Own())
    np.testing.assert_allclose(result.score, issues.score)


NO_PROBABILITIES = {
    "negative": (
        Own(change=lambda p: 1.5 * p - 1 / 6),
        "got [0-9]+ rows that do not, the first at",
    ),
    "other sums": (Own(change=lambda p: p * 1.01), "sum to 1 in each row"),
    "logarithms": (Own(change=np.log), "at least 0 and sum to 1"),
    "nan": (Own(change=lambda p: p * np.nan), "sum to 1"),
    "too many names": (Own(named=[0, 1]), r"each of its 2 classes_; Own gave shape \[\d+, 3\]"),
    "too few": (Own(columns=[0, 1], named=[0, 1, 2]), r"each of its 3 classes_; Own gave"),
    "repeated": (Own(named=[0, 1, 1]), r"each once; Own has \[0, 1, 1\]. Set it in fit"),
    "unknown": (Own(named=[0, 1, 3]), r"classes of 0 to 2, each once; Own has \[0, 1, 3\]"),
    "negative name": (Own(named=[0, 1, -1]), r"each once; Own has \[0, 1, -1\]"),
    "text": (Own(named=["0", "1", "2"]), r"each once; Own has \['0', '1', '2'\]"),
    "one column": (Own(change=lambda p: p[:, 1]), r"Own gave shape \[\d+\]"),
}


@pytest.mark.parametrize("name", NO_PROBABILITIES)
@pytest.mark.parametrize("judge", [held_out_probabilities, label_issues, "trust"])
def test_what_is_no_probability_of_a_class_is_refused_in_one_line(name, judge):
    model, reported = NO_PROBABILITIES[name]
    with pytest.raises(ModelError, match=reported) as error:
        if judge == "trust":
            fitted_outputs(model.fit(three().x, three().y), three())
        else:
            judge(three(), model=model)
    assert "\n" not in str(error.value)


def test_rounding_is_none_of_that():
    p = held_out_probabilities(three(), Own(change=lambda p: p.astype(np.float16)))
    np.testing.assert_allclose(p, held_out_probabilities(three(), Own()), atol=1e-3)


def test_values_of_the_decision_function_are_placed_by_classes_too():
    class Decides(Own):
        predict_proba = property()

        def decision_function(self, x):
            return Own.predict_proba(self, x)

    with pytest.raises(ModelError, match=r"Decides has \[0, 1, 1\]"):
        label_issues(three(), model=Decides(named=[0, 1, 1]))
    result, issues = (label_issues(three(), model=Decides(c)) for c in ([2, 0, 1], None))
    np.testing.assert_allclose(result.score, issues.score)
