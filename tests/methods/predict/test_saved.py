"""Models in files predict what Python's own objects do; what does not fit is refused."""

import functools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import datassay as da
from datassay.act import block_model
from datassay.data.new_rows import RowFormat, row_format
from datassay.data.synthetic.mixtures import routable_mixture
from datassay.errors import DataError, ModelError, SettingError
from datassay.estimators import PartitionedClassifier, PartitionedRegressor, load_model
from datassay.methods.partition.block_model import FORMAT
from datassay.methods.partition.routing import compact, fit_experts
from datassay.methods.polynomial.surrogate import empty_surrogate, save_surrogate
from datassay.methods.weigh.network_file import FittedNetwork
from datassay.models.build import linear_or_named
from datassay.models.estimators import class_probabilities

HOW = {"n_blocks": 2, "restarts": 2, "gate": "on"}


@functools.cache
def divided(task="classification", seed=0, n_classes=3):
    samples = routable_mixture((90, 70), n_classes=n_classes, n_features=5, task=task, seed=seed)
    return samples, da.partition(linear_or_named("logistic", samples, 0), samples, **HOW)


@pytest.mark.parametrize(("task", "k"), [("classification", 3), ("classification", 2),
                                         ("regression", 0)])  # fmt: skip
def test_blocks_of_a_file_predict_what_scikit_learn_fits(tmp_path, task, k):
    """Oracle: the pipelines behind the blocks, mixed by the router's own probabilities."""
    samples, parts = divided(task, n_classes=k or 3)
    block_model(samples, parts, may_route=True).save(tmp_path / "b.safetensors")
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    one = logistic if k else make_pipeline(StandardScaler(), Ridge())
    x = samples.x.astype(np.float64)
    routed = fit_experts(x, samples.y, *compact(parts, len(x)), one, logistic, 0)
    assert routed.router is not None
    new = np.random.default_rng(1).normal(size=(50, 5)) * 2
    new = new.astype(samples.x.dtype).astype(np.float64)
    each = [class_probabilities(e, new, k) if k else e.predict(new)[:, None]
            for e in routed.experts]  # fmt: skip
    model = load_model(tmp_path / "b.safetensors")
    for routing in ("soft", "hard"):
        expected = np.einsum("mk,kmw->mw", routed.weights(new, routing), np.stack(each))
        outputs = model.outputs(new, routing=routing)
        np.testing.assert_allclose(outputs, expected, rtol=1e-10, atol=1e-12)
        predicted = model.predict(new, routing=routing)
        if k:
            names = np.array(samples.class_names)[expected.argmax(1)]
            assert predicted.astype(str).tolist() == names.tolist()
        else:
            np.testing.assert_allclose(predicted, expected[:, 0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "labels", ["string", pytest.param("integer", marks=pytest.mark.slow), "target"]
)
def test_a_saved_estimator_predicts_what_it_predicted(tmp_path, labels):
    samples, _ = divided("regression" if labels == "target" else "classification")
    y = samples.y if labels != "string" else np.array(["ox", "cow", "elk"])[samples.y]
    frame = pd.DataFrame(samples.x.astype(float), columns=list("abcde"))
    kind = PartitionedRegressor if labels == "target" else PartitionedClassifier
    fitted = kind(n_blocks=2, restarts=2, random_state=0).fit(frame, y)
    fitted.save(tmp_path / "b.safetensors")
    model, new = load_model(tmp_path / "b.safetensors"), frame.iloc[:9, ::-1]  # found by name
    predicted, expected = model.predict(new), fitted.predict(frame[:9])
    if labels == "target":
        np.testing.assert_allclose(predicted, expected, rtol=1e-9)
    else:
        assert predicted.tolist() == expected.tolist()
        own = fitted.predict_proba(frame[:9])
        np.testing.assert_allclose(model.predict_proba(new), own, rtol=1e-9, atol=1e-12)
    mine = kind(Ridge() if labels == "target" else LogisticRegression(), n_blocks=1)
    with pytest.raises(SettingError, match="estimator must be left out for a model that is saved"):
        mine.fit(frame, y).save(tmp_path / "mine.safetensors")


def test_a_block_of_one_class_and_a_block_without_samples():
    samples, parts = divided(n_classes=2)
    block = np.where(samples.y == 0, 0, 2)
    responsibility = np.eye(3)[block]
    parts = replace(parts, block=block, responsibility=responsibility, variance=np.zeros(3))
    model = block_model(samples, parts, may_route=False)
    assert model.block.tolist() == [0, 2]
    share = [(block == 0).mean(), (block == 2).mean()]
    np.testing.assert_allclose(model.outputs(samples.x[:3]), [share] * 3)
    assert set(model.blocks(samples.x)) == {0 if share[0] >= 0.5 else 2}


def test_units_scaled_inputs_and_targets_scale_the_predictions():
    samples, parts = divided("regression")
    before = block_model(samples, parts).outputs(samples.x)
    moved = type(samples)(7 * samples.x, 3 * samples.y, samples.ids)
    np.testing.assert_allclose(block_model(moved, parts).outputs(moved.x), 3 * before, rtol=1e-5)


def messy(n=240, seed=0):
    """Numbers, some missing, booleans, dates, rare categories, texts of numbers, a vector."""
    rng = np.random.default_rng(seed)
    when = np.datetime64("2020-01-31") + rng.integers(0, 900, n)
    frame = pd.DataFrame({
        "key": [f"row {i}" for i in range(n)],
        "age": rng.normal(40, 9, n),
        "hours": np.where(rng.random(n) < 0.2, np.nan, rng.integers(1, 60, n)),
        "member": rng.random(n) < 0.4,
        "price": [f"{v:,.2f}".translate({44: 46, 46: 44}) for v in rng.uniform(900, 9000, n)],
        "town": rng.choice(["Graz", "Linz", "Wien", None], n),
        "code": [f"c{i}" for i in rng.zipf(1.3, n) % 120],
        "joined": pd.Series(when).where(rng.random(n) > 0.1),
    })
    frame["y"] = np.where(frame.age + 3 * frame.member > 42, "high", "low")
    return frame


def test_a_table_s_treatment_comes_back_whole():
    """Oracle: the fitted treatment itself, on the rows it saw and on others."""
    frame, new = messy(), messy(60, 1)
    train = da.load(frame, target="y", ids="key")[0]
    assert any("others" in c.treatment for c in train.columns), "some categories are rare"
    stored = json.loads(json.dumps(row_format(train).to_json()))
    again = RowFormat.from_json(stored)
    new.loc[:4, "town"] = "Rom"
    for rows in (frame, new.drop(columns="y"), frame.iloc[:1]):
        assert train.preparation is not None
        expected = train.preparation.transform(rows).astype(train.x.dtype)
        samples = again.samples(rows)
        np.testing.assert_array_equal(samples.x, expected)
        assert samples.ids.tolist() == rows.key.tolist()
    assert again.samples(new).warnings[0] == (
        "column 'town' holds 1 category that training did not have, in 5 rows, the first 'Rom'"
    )
    assert again.to_json() == row_format(train).to_json()
    assert again.target == "y"


@pytest.mark.parametrize(("change", "message"), [
    (lambda f: f.drop(columns="age"), "must have the columns of the training data; it has no age"),
    (lambda f: f.assign(age="old"), "'age' must hold what it held, number; got category"),
    (lambda f: f.assign(age=np.nan), "'age' must have no missing values"),
    (lambda f: f.iloc[:0], "at least one row"),
    (lambda f: np.zeros((3, 5)), "must be a table with the columns used in training"),
])  # fmt: skip
def test_other_rows_are_refused(change, message):
    known = row_format(da.load(messy(), target="y", ids="key")[0])
    with pytest.raises(DataError, match=message):
        known.samples(change(messy(20, 3)))


def test_texts_have_the_words_of_the_training():
    draw = np.random.default_rng(0)
    words = np.array("alpha beta gamma delta epsilon zeta eta theta".split())
    texts = [" ".join(draw.choice(words, 6)) for _ in range(40)]
    frame = pd.DataFrame({"note": texts, "size": draw.normal(size=40), "y": ["a", "b"] * 20})
    train, val = da.load(frame, target="y", text="note", val_fraction=0.25)
    again = RowFormat.from_json(json.loads(json.dumps(row_format(train).to_json())))
    rows = frame.iloc[[int(i) for i in val.ids]]
    np.testing.assert_array_equal(again.samples(rows[["note", "size"]]).x, val.x)
    with pytest.raises(DataError, match="they have no note"):
        again.samples(rows[["size"]])


def test_rows_of_arrays_by_the_names_of_their_columns():
    samples, _ = divided()
    known, x = row_format(samples), samples.x[:5]
    table = pa.table(
        {f"x{j + 1}": x[:, j] for j in (3, 0, 4, 1, 2)} | {"other": pa.array(range(5))}
    )
    np.testing.assert_array_equal(known.samples(table).x, x)
    with pytest.raises(DataError, match=r"a table with the columns x1, x2, x3, x4, x5"):
        known.samples(table.drop_columns(["x2"]))
    with pytest.raises(DataError, match=r"fitted to, \(5,\); got \(3,\)"):
        known.samples(x[:, :3])


@pytest.mark.parametrize("name", ["iris", "digits"])  # digits have one scale in all, no axis
def test_a_network_s_file_gives_the_same_network(tmp_path, name):
    train, val = da.load(name)
    fitted = FittedNetwork("mlp:width=8", da.build_model("mlp:width=8", train), row_format(train))
    before = fitted.outputs(val.x)
    fitted.save(tmp_path / "model.safetensors")
    model = load_model(tmp_path)
    np.testing.assert_allclose(model.predict_proba(val.x), before, rtol=0, atol=1e-12)
    again = da.build_model("mlp:width=8", train, weights=tmp_path / "model.safetensors", seed=9)
    other = FittedNetwork("mlp:width=8", again, row_format(train))
    np.testing.assert_allclose(other.outputs(val.x), before, rtol=0, atol=1e-12)
    with pytest.raises(SettingError, match="routing must be"):
        model.predict(val.x, routing="hard")


def test_no_code_runs_because_a_file_names_it(tmp_path):
    train, val = da.load("iris")
    network = da.build_model("linear", train)
    FittedNetwork("own.py:net", network, row_format(train)).save(tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"own code, own.py:net; nothing runs"):
        load_model(tmp_path)
    model = load_model(tmp_path, model=da.build_model("linear", train, seed=3))
    np.testing.assert_allclose(
        model.outputs(val.x), FittedNetwork("", network, row_format(train)).outputs(val.x)
    )


def test_damaged_files_and_files_of_others(tmp_path):
    samples, parts = divided()
    path = tmp_path / "model.safetensors"
    block_model(samples, parts).save(path)
    arrays = load_file(path)
    head = json.loads(json.dumps(block_model(samples, parts).rows.to_json()))
    facts = {"is_routed": True, "gain": 0.1, "gain_error": 0.0, "rows": head}
    wrong = [({"coef": arrays["coef"][:, :2]}, {}), ({"share": np.ones(2)}, {}),
             ({"coef": arrays["coef"] * np.nan}, {}), ({}, {"rows": head | {"shape": [3]}}),
             ({}, {"rows": head | {"kind": None, "class_names": ["a", "a"]}})]  # fmt: skip
    for changed, more in wrong:
        save_file(arrays | changed, path, {FORMAT: json.dumps(facts | more)})
        with pytest.raises(ModelError, match="must be a file that datassay partition, weigh or"):
            load_model(path)
    save_file(arrays, path)
    with pytest.raises(ModelError, match="it holds something else"):
        load_model(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"must hold model.safetensors or polynomial.safetensors"):
        load_model(tmp_path / "empty")
    with pytest.raises(DataError, match="ids differ"):
        block_model(samples.subset(np.arange(100)), parts)


def test_a_polynomial_predicts_from_its_file(tmp_path):
    train, val = da.load("wine")
    surrogate = empty_surrogate(train, 1, None)
    surrogate.polynomial.coef[:] = np.random.default_rng(0).normal(size=(14, 3))
    save_surrogate(surrogate, tmp_path / "polynomial.safetensors")
    model = load_model(tmp_path)
    np.testing.assert_array_equal(model.outputs(val.x), surrogate.outputs(val.x))
    table = model.table(model.samples(val.x))
    assert table.column_names[:2] == ["id", "predicted"]
    assert table.column_names[2].startswith("output_")
    with pytest.raises(ModelError, match="only blocks and networks of classes"):
        model.predict_proba(val.x)
