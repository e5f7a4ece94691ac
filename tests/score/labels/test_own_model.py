"""The user's own model as the judge of labels, or the probabilities it gave."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import datassay as da
from datassay.data.samples import wrong_labels
from datassay.errors import DataError, ModelError, SettingError


def forest():
    return RandomForestClassifier(30, random_state=0)


@pytest.fixture(scope="module")
def wine():
    return da.add_label_noise(da.load("wine")[0], 0.15, seed=1)


@pytest.fixture(scope="module")
def by_forest(wine):
    return da.label_issues(wine, model=forest())


def test_wrong_labels_are_found_and_counted(wine, by_forest):
    wrong = wrong_labels(wine)
    assert roc_auc_score(wrong, by_forest.score) > 0.97
    assert abs(by_forest.probability.mean() - wrong.mean()) < 0.04
    caught = by_forest.is_issue & wrong
    assert (by_forest.suggested_label[caught] == wine.true_y[caught]).mean() > 0.9
    assert by_forest.judge == "RandomForestClassifier, 5-fold cross-validation"
    assert np.isnan(by_forest.ridge) and "are below 0.0001" in by_forest.warnings[0]


def test_probabilities_given_say_the_same_as_the_model_that_gave_them(wine, by_forest):
    given = da.label_issues(wine, pred_probs=by_forest.held_out)
    np.testing.assert_array_equal(given.score, by_forest.score)
    assert given.judge == "probabilities given"


def test_a_column_of_a_frame_and_its_index_come_back(wine):
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame(wine.x).add_prefix("f").set_axis(np.arange(len(wine)) * 3 + 1, axis=0)
    for labels in (wine.y * 10, np.array(["a", "b", "c"])[wine.y], wine.y + 0.5, wine.y > 0):
        target = pd.Series(labels, rows.index)
        samples, _ = da.load((rows, target), task="classification")
        issues = da.label_issues(samples, model=KNeighborsClassifier())
        result, table = issues.to_pandas(), issues.to_table()
        assert (result["given_label"] == target[result.index]).all()
        assert set(result["suggested_label"].tolist()) <= set(target.tolist())
        assert type(result["given_label"].tolist()[0]) is type(target.tolist()[0])
        for name in ("given_label", "suggested_label"):
            assert (table[name].type == pa.bool_()) == (labels.dtype == bool)


@pytest.mark.parametrize("model", [RidgeClassifier(), make_pipeline(StandardScaler(), forest())])
def test_any_classifier_judges(wine, model):
    issues = da.label_issues(wine, model=model)
    assert roc_auc_score(wrong_labels(wine), issues.score) > 0.9


def test_a_class_that_a_fit_never_saw_has_no_probability(wine):
    """Its only sample is held out; both decision functions and probabilities."""
    rare = da.load((wine.x, np.where(np.arange(len(wine)) == 5, 9, wine.y)), val_fraction=0.1)[0]
    for model in (KNeighborsClassifier(), RidgeClassifier()):
        assert np.isfinite(da.label_issues(rare, model=model).score).all()


def test_a_regressor_finds_wrong_numbers():
    train, _ = da.load("diabetes")
    y = train.y.copy()
    y[:5] += 1500
    issues = da.label_issues((train.x, y), model=RandomForestRegressor(20, random_state=0))
    assert set(issues.suspects[:5]) == set(range(5)) and issues.posterior is None
    assert issues.given_label[0] == y[0] and abs(issues.suggested_label[0] - train.y[0]) < 600
    two = da.label_issues((train.x, np.stack([y, y], 1)), model=Ridge())
    assert two.to_table()["given_label"].to_pylist()[0] == [y[0], y[0]]


class Confused(BaseEstimator):
    """Fits, and then says what is no number."""

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, x):
        return x[:, 0]

    def predict_proba(self, x):
        return np.full((len(x), len(self.classes_)), np.nan)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Ridge(), "model must be a classifier, .* since the target holds classes; got Ridge"),
        (dict, "model must be a scikit-learn estimator, .* got dict"),
        ("sklearn.svm:SVC", "model must be a scikit-learn estimator, .* got str"),
        (StandardScaler(), "model must be a scikit-learn estimator, .* got StandardScaler"),
        (LogisticRegression(C=-1), "must be able to learn from .* raised InvalidParameterError"),
        (Confused(), "predict_proba of Confused must be at least 0 and sum to 1"),
    ],
)
def test_what_cannot_judge_is_one_line(wine, model, message):
    with pytest.raises(ModelError, match=message):
        da.label_issues(wine, model=model)


@pytest.mark.parametrize(
    ("data", "judge", "error", "message"),
    [
        ("diabetes", {"model": LogisticRegression()}, ModelError,
         r"must be a regressor, .* got LogisticRegression"),
        ("diabetes", {"pred_probs": np.ones((3, 2)) / 2}, DataError, "pred_probs are of classes"),
        ("diabetes", {"model": Ridge(), "noise": "class"}, SettingError, "noise is of labels"),
        ("wine", {}, SettingError, "needs a judge"),
        ("wine", {"model": forest(), "pred_probs": np.ones(3)}, SettingError, "got both"),
    ],
)  # fmt: skip
def test_what_is_no_judge(data, judge, error, message):
    with pytest.raises(error, match=message):
        da.label_issues(da.load(data)[0], **judge)


def test_a_linearisation_is_a_judge_already(wine):
    lin = da.collect(da.build_model("linear", wine), wine)
    with pytest.raises(SettingError, match="Pass the SampleSet"):
        da.label_issues(lin, model=forest())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda p: p[:-1],
            r"must be \[142, 3\]; got shape \(141, 3\)\. .* the order class_0, class_1",
        ),
        (lambda p: p.argmax(1), r"got shape \(142,\)"),
        (lambda p: np.where(np.arange(142) == 7, 2, 1)[:, None] * p, "the first at position 7"),
        (lambda p: np.log(p + 0.01), "must be at least 0 and sum to 1"),
        (lambda p: [["a"] * 3] * 142, r"must be \[142, 3\] numbers; got a list"),
    ],
)
def test_what_is_no_probability_is_one_line(wine, by_forest, change, message):
    with pytest.raises(DataError, match=message):
        da.label_issues(wine, pred_probs=change(by_forest.held_out))


def test_probabilities_of_the_training_samples_are_suspected(wine):
    fitted = RandomForestClassifier(100, random_state=0).fit(wine.x, wine.y)
    reported = da.label_issues(wine, pred_probs=fitted.predict_proba(wine.x)).warnings[-1]
    assert "these very samples" in reported
    held_out = cross_val_predict(forest(), wine.x, wine.y, method="predict_proba")
    assert "agree with" not in "".join(da.label_issues(wine, pred_probs=held_out).warnings)


def test_labels_and_probabilities_alone_are_judged_as_with_samples(wine, by_forest):
    names = np.array(wine.class_names)[wine.y]
    alone = da.label_issues(labels=names, pred_probs=by_forest.held_out)
    given = da.label_issues(wine, pred_probs=by_forest.held_out)
    np.testing.assert_array_equal(alone.score, given.score)
    assert alone.class_names == wine.class_names and alone.share_wrong == given.share_wrong
    for wrong in ({"labels": names}, {}, {"data": wine, "labels": names, "pred_probs": 1}):
        with pytest.raises(SettingError, match="or labels= with pred_probs="):
            da.label_issues(**wrong)
