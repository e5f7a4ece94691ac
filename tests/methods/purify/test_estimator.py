"""The Purifier: scikit-learn conformance and imbalanced-learn's convention."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import datassay as da
from datassay.data.synthetic.mixtures import sd_mixture
from datassay.errors import SettingError
from datassay.methods.purify.loop import purify
from datassay.models.build import build_model


@parametrize_with_checks([da.Purifier(max_fraction=0.1)])  # about how, not how well
def test_scikit_learn_conformance(estimator, check):
    check(estimator)


def test_what_stays_is_what_purify_keeps_and_trains_a_better_model():
    train, test = sd_mixture((320, 80), seed=0), sd_mixture((1000,), seed=9)
    names = np.array(train.class_names)
    purifier = da.Purifier(order="fixed", step=8)
    x, y = purifier.fit_resample(train.x, names[train.y])
    purification = purify(build_model("linear", train), train, order="fixed", step=8)
    assert 0 < len(purification.removed) and list(purifier.sample_indices_) == list(
        purification.keep
    )
    np.testing.assert_array_equal(x, train.x[purification.keep])
    np.testing.assert_array_equal(y, names[train.y[purification.keep]])
    before, after = (
        LogisticRegression(C=10, max_iter=2000).fit(*part).score(test.x, names[test.y])
        for part in ((train.x, names[train.y]), (x, y))
    )
    assert after > before + 0.05


def test_regression_and_bad_settings():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2))
    y = x @ [1.0, 2.0] + 0.1 * rng.normal(size=100)
    y[:8] += 4
    kept, _ = da.Purifier(ridge=1e-3).fit_resample(x, y)
    assert 85 <= len(kept) <= 92
    with pytest.raises(SettingError, match="order must be one of"):
        da.Purifier(order="best").fit(x, y)


def test_the_global_stream_stays_where_it_was():
    mixed = sd_mixture((160, 40), seed=0)
    before = torch.get_rng_state()
    da.Purifier(order="fixed", step=20, random_state=0).fit(mixed.x, mixed.y)
    assert torch.equal(torch.get_rng_state(), before)
