"""Accuracy and its relative drop under corruption, against the definitions."""

import numpy as np
import pytest

from datassay.data.corrupt.images import add_noise, add_patches
from datassay.errors import DataError, ModelError, SettingError
from datassay.score.compare.robustness import Robustness, robustness


def bars(n=300, seed=0):
    """Images with a bright left or right half; class 1 is right."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.uniform(0.2, 0.5, (n, 8, 8))
    for image, label in zip(x, y, strict=True):
        image[:, 4 * label : 4 * label + 4] += 0.4
    return x, y


def halves(x):
    return (x[:, :, 4:].sum((1, 2)) > x[:, :, :4].sum((1, 2))).astype(int)


MODELS = {
    "halves": halves,
    "one pixel": lambda x: (x[:, 3, 5] > x[:, 3, 2]).astype(int),
    "constant": lambda x: np.ones(len(x), dtype=int),
}


@pytest.mark.parametrize(
    ("corruption", "corrupt", "levels"),
    [("noise", add_noise, (0.4, 0.2)), ("patches", add_patches, (20, 9))],
)
def test_accuracy_is_the_mean_over_draws_of_what_is_right(corruption, corrupt, levels):
    x, y = bars()
    result = robustness(MODELS, x, y, corruption=corruption, levels=levels, draws=2, seed=4)
    assert result.levels.tolist() == [0, *sorted(levels)]
    seeds = np.random.SeedSequence(4).generate_state(2)
    for row, predict in enumerate(MODELS.values()):
        clean = (predict(x) == y).mean()
        assert result.accuracy[row, 0] == pytest.approx(clean)
        for column, level in enumerate(sorted(levels), start=1):
            copies = [corrupt(x, level, seed=int(s)) for s in seeds]
            accuracy = np.mean([(predict(copy) == y).mean() for copy in copies])
            assert result.accuracy[row, column] == pytest.approx(accuracy)
            assert result.drop[row, column] == pytest.approx((clean - accuracy) / clean)
    assert result.drop[2].tolist() == [0, 0, 0]  # a constant model is the most robust one


def test_the_robust_model_is_the_one_that_uses_every_pixel():
    x, y = bars()
    result = robustness(MODELS, x, y, levels=[0.4], draws=2)
    apart = result.drop_half_width[:2, 1]
    assert result.drop[0, 1] + apart[0] < result.drop[1, 1] - apart[1]
    assert result.to_table().num_rows == 6
    row = result.to_table().to_pylist()[3]
    assert row["model"] == "one pixel" and row["level"] == 0.4
    assert row["drop"] == pytest.approx(result.drop[1, 1])


def test_intervals_hold_the_truth_in_95_of_100_samples():
    rng = np.random.default_rng(0)
    p = np.array([[0.9, 0.6], [0.8, 0.7]])  # models, levels
    truth = 1 - p[:, 1] / p[:, 0]
    inside = []
    for _ in range(200):
        hits = (rng.random((2, 2, 500)) < p[..., None]).astype(float)
        result = Robustness("noise", ("a", "b"), np.array([0.0, 1.0]), hits)
        errors = [
            *(abs(result.drop - truth[:, None]) <= result.drop_half_width)[:, 1],
            *(abs(result.accuracy - p) <= result.accuracy_half_width)[:, 1],
        ]
        inside.append(errors)
    assert np.abs(np.mean(inside, axis=0) - 0.95).max() < 0.05


def test_units_and_rows_of_pixels():
    x, y = bars(60)
    rows = {"halves": lambda r: halves(r.reshape(-1, 8, 8))}
    given = {"corruption": "patches", "levels": [9]}
    flat = robustness(rows, x.reshape(60, 64), y, image_shape=(8, 8), **given)
    images = robustness({"halves": halves}, x, y, **given)
    np.testing.assert_array_equal(flat.hits, images.hits)
    bright = robustness({"halves": halves}, 10 * x, y, levels=[3], limits=(0, 10))
    plain = robustness({"halves": halves}, x, y, levels=[0.3])
    np.testing.assert_array_equal(bright.hits, plain.hits)


@pytest.mark.parametrize(
    ("models", "settings", "error", "match"),
    [
        ({}, {}, SettingError, r"at least 1 predictor and 1 draw; got 0 and 3"),
        (MODELS, {"draws": 0}, SettingError, r"got 3 and 0"),
        (MODELS, {"corruption": "rain"}, SettingError, r"'noise' or 'patches'; got 'rain'"),
        (MODELS, {"levels": [-1]}, SettingError, r"levels must be at least 0; got \[-1\]"),
        (MODELS, {"corruption": "patches", "levels": [99]}, DataError, r"at most .* 64 pixels"),
        ({"odd": lambda x: x}, {}, ModelError, r"odd must give one label per sample"),
        ({"never": lambda x: np.full(len(x), 7)}, {}, ModelError, r"never must get .* 0 of 20"),
    ],
)
def test_what_is_refused(models, settings, error, match):
    x, y = bars(20)
    with pytest.raises(error, match=match):
        robustness(models, x, y, **settings)
