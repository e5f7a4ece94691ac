"""The scikit-learn estimators: conformance, and what they do on mixed data."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import datassay as da
from datassay.data.synthetic.mixtures import routable_mixture, sd_mixture
from datassay.errors import DataError, ModelError, SettingError
from datassay.estimators import PartitionedRegressor
from datassay.methods.partition import block_count, mixture

partition = import_module("datassay.methods.partition.blocks")


@pytest.fixture
def few_iterations(monkeypatch):
    """Conformance is about how, not how well: no search to the end."""
    for module in (mixture, block_count):
        monkeypatch.setattr(module, "MAX_ITERATIONS", 4)
    monkeypatch.setattr(mixture, "SURVEY", 2)
    monkeypatch.setattr(mixture, "FITTING_STEPS", 2)
    monkeypatch.setattr(partition, "GATE_RESTARTS", 1)

    def every_other(model, samples, **_):
        return SimpleNamespace(keep=np.arange(0, len(samples), 2))

    monkeypatch.setattr(block_count, "purify", every_other)


@pytest.mark.usefixtures("few_iterations")
@parametrize_with_checks([
    da.PartitionedClassifier(restarts=1, max_blocks=2),
    PartitionedRegressor(restarts=1, max_blocks=2),
])
def test_scikit_learn_conformance(estimator, check):
    check(estimator)


class Reversed(LogisticRegression):
    """Columns as `classes_` names them, the last class first, times a factor."""

    def __init__(self, factor=1.0):
        super().__init__(max_iter=1000)
        self.factor = factor

    def fit(self, X, y):
        super().fit(X, y)
        self.classes_, self.sorted_ = self.classes_[::-1], self.classes_
        return self

    def predict_proba(self, X):
        classes, self.classes_ = self.classes_, self.sorted_
        p = super().predict_proba(X)[:, ::-1]
        self.classes_ = classes
        return self.factor * p

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(1)]


@pytest.mark.slow
def test_columns_of_own_models_and_routers_are_read_by_classes_():
    train = routable_mixture((250, 250), n_classes=3, n_features=6, seed=0)
    plain, reverse = (
        da.PartitionedClassifier(one, one, n_blocks=2, restarts=2, random_state=0)
        for one in (LogisticRegression(max_iter=1000), Reversed())
    )
    truth = plain.fit(train.x, train.y).predict_proba(train.x)
    assert plain.router_is_informative_
    result = reverse.fit(train.x, train.y).predict_proba(train.x)
    np.testing.assert_allclose(result, truth)
    for wrong in ([Reversed(1.1), None], [None, Reversed(1.1)]):
        model = da.PartitionedClassifier(*wrong, n_blocks=2, restarts=1, random_state=0)
        with pytest.raises(
            ModelError, match=r"predict_proba of Reversed must be .* got 500 rows that do"
        ):
            model.fit(train.x, train.y).predict_proba(train.x)


def test_routed_blocks_beat_one_model():
    train, test = (routable_mixture((120, 120), n_classes=3, n_features=6, seed=s) for s in (0, 1))
    ours = da.PartitionedClassifier(n_blocks=2, restarts=2, random_state=0)
    ours.fit(train.x, train.y)
    one = LogisticRegression(max_iter=1000).fit(train.x, train.y)
    assert ours.router_is_informative_
    for routing in ("soft", "hard"):
        ours.set_params(routing=routing)
        assert ours.score(test.x, test.y) > one.score(test.x, test.y) + 0.1
        np.testing.assert_allclose(ours.predict_proba(test.x).sum(1), 1)


def test_where_no_router_can_work_the_shares_take_its_place():
    train = sd_mixture((120, 120), seed=0)
    ours = da.PartitionedClassifier(n_blocks=2, restarts=1, random_state=0).fit(train.x, train.y)
    assert ours.n_blocks_ == 2
    assert not ours.router_is_informative_ and ours.router_ is None
    share = np.bincount(ours.block_) / len(train)
    each = [e.predict_proba(train.x) for e in ours.estimators_]
    np.testing.assert_allclose(
        ours.predict_proba(train.x), share[0] * each[0] + share[1] * each[1], atol=1e-12
    )


def test_regression_by_blocks():
    train, test = (
        routable_mixture((150, 150), task="regression", n_features=5, seed=s) for s in (0, 1)
    )
    ours = PartitionedRegressor(n_blocks=2, restarts=4, random_state=0).fit(train.x, train.y)
    assert ours.router_is_informative_
    assert ours.score(test.x, test.y) > 0.8


def test_a_block_may_miss_classes():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3))
    x[150:, 0] += 8
    y = np.where(x[:, 1] > 0, "b", "a")
    y[150:] = np.where(x[150:, 1] > 1.5, "b", "c")
    tree = DecisionTreeClassifier(random_state=0)
    ours = da.PartitionedClassifier(tree, n_blocks=2, restarts=2, random_state=0).fit(x, y)
    assert any(len(e.classes_) < 3 for e in ours.estimators_)
    assert ours.predict_proba(x).shape == (300, 3)
    assert ours.score(x, y) > 0.95


def test_a_forest_a_block():
    """An unfitted ensemble has a length that fails, so its truth must not be asked."""
    samples = routable_mixture((80, 80))
    forest = RandomForestClassifier(5, max_depth=8, random_state=0)
    model = da.PartitionedClassifier(forest, forest, n_blocks=2, restarts=1, random_state=0)
    assert model.fit(samples.x, samples.y).score(samples.x, samples.y) > 0.8


def test_refusals():
    x, y = np.arange(60.0).reshape(30, 2), np.arange(30) % 2
    for given, labels, error, message in (
        ({"n_blocks": 2}, y, SettingError, "Take at most 1"),
        ({"routing": "loud"}, y, SettingError, "routing must be"),
        ({}, np.zeros(30, int), DataError, "at least 2 classes"),
    ):
        with pytest.raises(error, match=message):
            da.PartitionedClassifier(**given).fit(x, labels)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_weights_of_samples(task):
    """Weight 0 leaves a sample out; any scale is the same; a heavy source draws the shares."""
    train = routable_mixture((120, 120), n_classes=3, n_features=6, task=task, seed=3)
    kind = da.PartitionedClassifier if task == "classification" else PartitionedRegressor
    ours = kind(n_blocks=2, restarts=2)
    weight = np.random.default_rng(0).integers(0, 3, len(train)).astype(float)
    fitted = ours.fit(train.x, train.y, sample_weight=weight)
    block, predicted = fitted.block_, fitted.predict(train.x)
    assert (block[weight == 0] == -1).all() and (block[weight > 0] >= 0).all()

    kept = weight > 0
    alone = kind(n_blocks=2, restarts=2).fit(train.x[kept], train.y[kept], weight[kept])
    np.testing.assert_array_equal(alone.block_, block[kept])
    np.testing.assert_allclose(alone.predict(train.x), predicted)
    scaled = kind(n_blocks=2, restarts=2).fit(train.x, train.y, 100 * weight)
    np.testing.assert_array_equal(scaled.block_, block)

    is_first = train.source == "block 1"
    uneven = kind(n_blocks=2, restarts=2).fit(train.x, train.y, np.where(is_first, 9.0, 1.0))
    weight = np.where(is_first, 9.0, 1.0)
    expected = np.bincount(uneven.block_, weight) / weight.sum()
    np.testing.assert_allclose(uneven._routed.share, expected)
    assert expected.max() > 0.8


def test_weights_are_refused_where_nothing_takes_them():
    train = routable_mixture((60, 60), n_classes=2, n_features=6, seed=0)
    neighbors = KNeighborsClassifier()
    with pytest.raises(SettingError, match=r"must take sample_weight .* KNeighborsClassifier does"):
        da.PartitionedClassifier(neighbors, n_blocks=1).fit(train.x, train.y, np.ones(120))
    with pytest.raises(DataError, match="sample_weight must not be negative"):
        da.PartitionedClassifier(n_blocks=1).fit(train.x, train.y, -np.ones(120))


def test_an_estimator_without_a_seed_repeats():
    train = routable_mixture((60, 60), n_classes=2, n_features=6, seed=0)
    fits = [da.PartitionedClassifier(n_blocks=2, restarts=1).fit(train.x, train.y) for _ in "ab"]
    first, second = (fit.predict_proba(train.x) for fit in fits)
    np.testing.assert_array_equal(first, second)
