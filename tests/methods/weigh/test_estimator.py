"""LocalVarianceClassifier and Regressor: conformance, weights handed over, searches, skorch."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_moons
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, HalvingRandomSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from datassay.errors import DataError, SettingError
from datassay.estimators.skorch import SampleWeightMixin
from datassay.methods.weigh.estimator import LocalVarianceClassifier, LocalVarianceRegressor
from datassay.methods.weigh.weights import local_variance_weights


@parametrize_with_checks([
    LocalVarianceClassifier(n_neighbors=2),
    LocalVarianceRegressor(n_neighbors=2),
])
def test_scikit_learn_conformance(estimator, check):
    name = getattr(check, "func", check).__name__
    if name.startswith(("check_sample_weight_equivalence", "check_sample_weights_invariance")):
        # A sample of weight 2 is one neighbour, the same sample twice is two.
        pytest.xfail("a user's weights scale the loss; they do not move the neighbourhoods")
    check(estimator)


class Noting(ClassifierMixin, BaseEstimator):
    """Keeps the weights it is given."""

    def fit(self, X, y, sample_weight=None):
        self.classes_, self.weight_ = np.unique(y), sample_weight
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def test_weights_of_mean_one_times_the_users_own():
    x, y = make_moons(80, noise=0.3, random_state=0)
    names = np.array(["no", "yes"])[y]
    expected = local_variance_weights(x, y, 8, 30)
    ours = LocalVarianceClassifier(Noting(), n_neighbors=8, max_ratio=30).fit(x, names)
    np.testing.assert_allclose(ours.estimator_.weight_, expected * 80)
    assert list(ours.classes_) == ["no", "yes"] and not hasattr(ours, "predict_proba")
    own = np.random.default_rng(0).random(80)
    ours.fit(x, names, sample_weight=own)
    np.testing.assert_allclose(ours.sample_weight_, own * expected * own.sum() / (own @ expected))
    assert ours.sample_weight_.sum() == pytest.approx(own.sum())


def test_it_is_the_estimator_fitted_with_these_weights():
    x, y = make_moons(150, noise=0.25, random_state=0)
    weight = local_variance_weights(x, y, 10, 100) * 150
    for inner in (LogisticRegression(), SVC(), DecisionTreeClassifier(random_state=0)):
        ours = LocalVarianceClassifier(inner, n_neighbors=10, max_ratio=100).fit(x, y)
        alone = inner.fit(x, y, sample_weight=weight)
        np.testing.assert_array_equal(ours.predict(x), alone.predict(x))
    target = np.sin(3 * x[:, 0])
    result = LocalVarianceRegressor(Ridge(alpha=0.1), n_neighbors=10).fit(x, target)
    weight = local_variance_weights(x, target, 10, 40) * 150
    alone = Ridge(alpha=0.1).fit(x, target, sample_weight=weight)
    np.testing.assert_allclose(result.predict(x), alone.predict(x))


def test_in_pipelines_and_searches():
    x, y = make_moons(120, noise=0.25, random_state=0)
    model = make_pipeline(StandardScaler(), LocalVarianceClassifier(n_neighbors=5))
    own = {"n_neighbors": [5, 15], "max_ratio": [2, 50]}
    grid = {f"localvarianceclassifier__{name}": values for name, values in own.items()}
    result = GridSearchCV(model, grid, cv=3).fit(x, y)
    assert result.best_score_ > 0.8
    how = {"n_candidates": 4, "min_resources": 40, "cv": 2, "random_state": 0}
    halving = HalvingRandomSearchCV(model, grid, **how)
    assert halving.fit(x, y).best_score_ > 0.7


def test_an_unfitted_forest_has_probabilities():
    assert hasattr(LocalVarianceClassifier(RandomForestClassifier()), "predict_proba")
    assert not hasattr(LocalVarianceClassifier(SVC()), "predict_proba")


def test_refusals():
    (x, y), ours = make_moons(40, random_state=0), LocalVarianceClassifier
    negative = {"sample_weight": -np.ones(40)}
    for model, labels, given, error, message in (
        (ours(KNeighborsClassifier()), y, {}, SettingError, "KNeighborsClassifier does not"),
        (ours(make_pipeline(LogisticRegression())), y, {}, SettingError, "inside the pipeline"),
        (ours(n_neighbors=40), y, {}, SettingError, "n_neighbors"),
        (LocalVarianceRegressor(max_ratio=0), 1.0 * y, {}, SettingError, "max_ratio"),
        (ours(DummyClassifier()), y, negative, DataError, "sample_weight must not be negative"),
        (ours(), np.zeros(40, int), {}, DataError, "at least 2 classes"),
    ):
        with pytest.raises(error, match=message):
            model.fit(x, labels, **given)


@pytest.fixture
def skorch_net():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skorch = pytest.importorskip("skorch")
    import torch
    from torch import nn

    class Net(SampleWeightMixin, skorch.NeuralNetClassifier):
        pass

    def make(epochs=3, reduction="none", **options):
        torch.manual_seed(0)
        loss = {"criterion": nn.CrossEntropyLoss, "criterion__reduction": reduction}
        return Net(nn.Linear(2, 2), **loss, max_epochs=epochs, lr=0.1, verbose=0, **options)

    return make


def test_a_skorch_net_descends_the_weighted_loss(skorch_net):
    """One full batch of plain descent: θ − lr ∇ (1/n) Σ w ℓ."""
    import torch
    from torch import nn

    x, y = make_moons(60, noise=0.25, random_state=0)
    x = x.astype(np.float32)
    net = skorch_net(epochs=1, batch_size=-1, train_split=None)
    ours = LocalVarianceClassifier(net, n_neighbors=10, max_ratio=50).fit(x, y)
    torch.manual_seed(0)
    layer = nn.Linear(2, 2)
    each = nn.functional.cross_entropy(layer(torch.tensor(x)), torch.tensor(y), reduction="none")
    (each * torch.tensor(ours.sample_weight_).float()).mean().backward()
    expected = layer.weight - 0.1 * layer.weight.grad
    torch.testing.assert_close(ours.estimator_.module_.weight, expected)


def test_a_skorch_net_in_a_search_with_its_own_validation_split(skorch_net):
    x, y = make_moons(90, noise=0.25, random_state=0)
    ours = LocalVarianceClassifier(skorch_net(), n_neighbors=10)
    result = GridSearchCV(ours, {"max_ratio": [2, 50]}, cv=2).fit(x.astype(np.float32), y)
    assert result.predict_proba(x.astype(np.float32)).shape == (90, 2)
    net = skorch_net().fit(x.astype(np.float32), y)
    assert net.history[-1]["valid_loss"] > 0
    with pytest.raises(SettingError, match='reduction must be "none"'):
        skorch_net(reduction="mean").fit(x.astype(np.float32), y)
