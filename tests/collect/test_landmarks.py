"""The kernel seen from some of the samples: the Nyström method."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import datassay as da
from datassay.collect.jacobian.kernel import landmark_positions


def parts(n=60, m=20, k=3):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n + m, 4)).astype("float32"), rng.integers(0, k, n + m)
    train = da.SampleSet(x[:n], y[:n], np.arange(n) + 7, tuple("abc"[:k]))
    val = replace(train, x=x[n:], y=y[n:], ids=np.arange(m))
    return da.build_model("mlp:width=16", train), train, val


def test_features_are_the_kernel_through_the_landmarks(monkeypatch):
    model, train, val = parts()
    monkeypatch.setattr(torch.linalg, "eigh", pytest.fail)  # no eigenproblem is solved
    exact = da.collect(model, train, val, projection=None, outputs="averaged")
    seen = da.collect(model, train, val, projection=12, outputs="landmarks", seed=3)
    assert seen.features.shape == (60, 12) and seen.val_features.shape == (20, 12)
    assert seen.form.landmarks == 12 and seen.kernel is None
    index = landmark_positions(train.ids, 12, 3)
    theta, across = exact.kernel.numpy(), exact.val_kernel.numpy()
    within = np.linalg.inv(theta[np.ix_(index, index)])
    for features, columns in (
        (seen.features, theta[:, index]),
        (seen.val_features, across[:, index]),
    ):
        expected = columns @ within @ theta[index]
        np.testing.assert_allclose(features @ seen.features.T, expected, rtol=1e-6, atol=1e-9)


def test_all_samples_as_landmarks_are_the_exact_kernel():
    model, train, val = parts()
    exact = da.collect(model, train, val, projection=None, outputs="averaged")
    seen = da.collect(model, train, val, projection=60, outputs="landmarks")
    for score in (
        lambda lin: da.leave_one_out(lin).prediction_change,
        lambda lin: da.label_issues(lin).score,
    ):
        np.testing.assert_allclose(score(seen), score(exact), rtol=1e-6)


def test_landmarks_that_repeat_others_add_no_feature():
    model, train, _ = parts()
    twice = replace(train, x=np.concatenate([train.x[:30], train.x[:30]]))
    exact = da.collect(model, twice, projection=None, outputs="averaged")
    seen = da.collect(model, twice, projection=60, outputs="landmarks")
    assert (seen.features != 0).any(0).sum() == 30
    np.testing.assert_allclose(seen.features @ seen.features.T, exact.kernel, rtol=1e-9, atol=1e-9)


def test_the_order_of_the_rows_is_no_matter():
    model, train, _ = parts()
    order = np.random.default_rng(1).permutation(60)
    one, other = (
        da.leave_one_out(da.collect(model, s, projection=12, outputs="landmarks"))
        for s in (train, train.subset(order))
    )
    np.testing.assert_allclose(other.prediction_change, one.prediction_change[order], rtol=1e-6)
