"""A polynomial of the user's inputs: its scale, its file, its scores."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from datassay.data.samples import Kind, SampleSet
from datassay.errors import DataError, ModelError, SettingError
from datassay.methods.polynomial.model import Polynomial
from datassay.methods.polynomial.monomials import all_monomials, local_monomials
from datassay.methods.polynomial.surrogate import (
    FORMAT,
    Surrogate,
    SurrogateScores,
    empty_surrogate,
    load_surrogate,
    save_surrogate,
    score_each,
)
from datassay.stats import mean_interval


def some(monomials=None, names=("no", "yes")):
    monomials = monomials or all_monomials(3, 2)
    draw = np.random.default_rng(0)
    d, p = monomials.n_inputs, monomials.n_features
    polynomial = Polynomial(monomials, draw.normal(size=(p, len(names))))
    return Surrogate(polynomial, draw.normal(size=d), draw.uniform(1, 2, d), names)


def test_inputs_are_scaled_and_images_are_views():
    result, x = some(), np.random.default_rng(1).normal(size=(4, 3))
    scaled = (x - result.center) / result.spread
    np.testing.assert_allclose(result.outputs(x), result.polynomial.outputs(scaled))
    plain = Surrogate(result.polynomial, np.zeros(3), np.ones(3), ("no", "yes"))
    assert np.shares_memory(plain.inputs(x.reshape(4, 1, 3)), x)
    with pytest.raises(DataError, match=r"takes 3 values per sample; got 2"):
        result.outputs(x[:, :2])


@pytest.mark.parametrize("monomials", [all_monomials(3, 2), local_monomials((4, 3), 2, 3)])
def test_the_file_gives_the_same_surrogate(tmp_path, monomials):
    before = some(monomials, ("<b>", "é"))
    save_surrogate(before, tmp_path / "p.safetensors")
    after = load_surrogate(tmp_path / "p.safetensors")
    x = np.random.default_rng(2).normal(size=(4, monomials.n_inputs))
    assert np.array_equal(after.outputs(x), before.outputs(x))
    assert after.output_names == before.output_names
    assert after.polynomial.monomials.image_shape == monomials.image_shape
    assert after.polynomial.monomials.window == monomials.window


def damaged(path, **changes):
    """The file with some arrays or facts replaced."""
    save_surrogate(some(), path)
    arrays = load_file(path)
    facts = {"image_shape": None, "window": None, "output_names": ["no", "yes"]}
    facts |= {"feature_names": [], "is_classification": True}
    for name, value in changes.items():
        (arrays if name in arrays else facts)[name] = value
    save_file(arrays, path, {FORMAT: json.dumps(facts)})


WRONG = {
    "a term of no input": {"terms": np.full((10, 2), 7)},
    "no constant": {"terms": np.zeros((10, 2), np.int64)},
    "too few coefficients": {"coef": np.zeros((9, 2))},
    "NaN": {"coef": np.full((10, 2), np.nan)},
    "names": {"output_names": ["one"]},
    "shape": {"image_shape": [2, 2]},
    "columns": {"feature_names": ["a"]},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG.keys())
def test_a_file_that_contradicts_itself(tmp_path, changes):
    damaged(tmp_path / "p.safetensors")
    load_surrogate(tmp_path / "p.safetensors")
    damaged(tmp_path / "p.safetensors", **changes)
    with pytest.raises(ModelError, match=r"its parts contradict each other"):
        load_surrogate(tmp_path / "p.safetensors")
    save_file({"weight": np.zeros(3)}, tmp_path / "net.safetensors")
    (tmp_path / "text").write_text("no")
    for name in ("net.safetensors", "text", "none"):
        with pytest.raises(ModelError, match=r"must be a file that datassay polynomial wrote"):
            load_surrogate(tmp_path / name)


def images(shape, kind: Kind = "image"):
    return SampleSet(np.zeros((2, *shape)), np.array([0, 1]), np.arange(2), ("a", "b"), kind)


def monomials_of(*args):
    return empty_surrogate(*args).polynomial.monomials


def test_products_fit_the_samples():
    assert monomials_of(images((1, 4, 5)), 2, 3).image_shape == (4, 5)
    assert monomials_of(images((4, 5)), 1, None).image_shape == (4, 5)
    colours = monomials_of(images((3, 2, 2)), 2, None)
    assert (colours.n_inputs, colours.image_shape) == (12, None)
    with pytest.raises(SettingError, match=r"Make colour images grey"):
        monomials_of(images((3, 4, 4)), 2, 3)


def test_scores_are_accuracy_and_r2():
    samples = images((2,), "row")
    assert score_each(np.array([[1.0, 0], [1, 0]]), samples).tolist() == [1, 0]
    y = np.random.default_rng(0).normal(size=(9, 2))
    numbers = SampleSet(np.zeros((9, 1)), y, np.arange(9))
    predicted = y + np.random.default_rng(1).normal(size=(9, 2)) / 3
    r2 = 1 - ((y - predicted) ** 2).mean(0) / y.var(0)
    assert score_each(predicted, numbers).mean() == pytest.approx(r2.mean())


def test_differences_are_paired():
    each = np.array([[1, 0, 0, 1], [1, 1, 0, 1.0]])
    scores = SurrogateScores(("a", "b"), each, np.zeros(2), 4, (1, 2), "accuracy")
    ahead, result = scores.ahead_of(0), mean_interval(each[1] - each[0], 1.0)
    assert ahead.gain == 0.25
    assert ahead.half == result.half and ahead.verdict == result.verdict
    # Models that agree everywhere: two imagined samples differ.
    assert scores.ahead_of(1).gain == 0
    assert scores.ahead_of(1).half == pytest.approx(3.182 / 24**0.5, abs=1e-3)
