"""What a run keeps for a review: small arrays, written and read, nothing pickled."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import datassay as da
from datassay.act.review.judged import COORDINATES, FIELDS, coordinates, judged, read_judged
from datassay.collect.collection import collect
from datassay.errors import DataError
from datassay.models.build import build_model
from helpers.findings import digit_samples, regression_samples


@pytest.fixture(scope="module")
def digits():
    samples = digit_samples(300)
    lin = collect(build_model("mlp", samples), samples, outputs="averaged")
    return lin, judged(lin, da.label_issues(lin))


def test_written_and_read_it_is_the_same(digits, tmp_path):
    _, kept = digits
    kept.write(tmp_path / "review.npz")
    again = read_judged(tmp_path / "review.npz")
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(again, name), getattr(kept, name))
    assert again.is_of_classes and len(again) == 300
    assert type(kept)(**{name: getattr(kept, name) for name in FIELDS}).share == (0.0, 1.0)
    for low, high in ((0.0, 0.0), (0.25, 0.25), (0.0, 1.0)):
        replace(kept, share=(low, high)).write(tmp_path / "review.npz")
        assert read_judged(tmp_path / "review.npz").share == (low, high)
    for share in ((-0.5, 0.5), (0.5, 1.5), (0.5, 0.25)):
        replace(kept, share=share).write(tmp_path / "review.npz")
        with pytest.raises(DataError, match="and share"):
            read_judged(tmp_path / "review.npz")


def test_places_are_the_kernels_best_inner_products_in_one_unit(digits):
    lin, _ = digits
    result = coordinates(lin)
    assert result.shape == (300, COORDINATES) == (300, 16)
    np.testing.assert_allclose(np.square(result).sum(1), 1)
    averaged = replace(lin.average_outputs())  # another object, decomposed anew
    kernel = (
        averaged.kernel if averaged.kernel is not None else averaged.features @ averaged.features.T
    )
    values, vectors = torch.linalg.eigh(torch.as_tensor(kernel))
    rows = vectors[:, -COORDINATES:] * values[-COORDINATES:] ** 0.25
    rows = rows / rows.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(
        coordinates(averaged) @ coordinates(averaged).T, rows @ rows.T, atol=1e-6
    )


def several_labels():
    samples = digit_samples(200)
    y = np.stack([samples.y % 2, samples.y > 4], 1).astype(float)
    return replace(samples, y=y, true_y=None, class_names=())


@pytest.mark.parametrize("samples", [regression_samples(), several_labels()], ids=["one", "two"])
def test_numbers_and_several_labels_have_no_classes(samples):
    lin = collect(build_model("mlp", samples), samples, outputs="averaged")
    issues = da.label_issues(lin)
    kept = judged(lin, issues)
    assert not kept.is_of_classes and (kept.labels == -1).all()
    if samples.y.ndim > 1:
        np.testing.assert_allclose(kept.log_odds, issues.score, atol=1e-4)
        return
    assert not issues.probability.any()  # and those that stray most come first all the same
    assert (kept.log_odds < -60).all()
    assert (np.diff(kept.log_odds[np.argsort(issues.score)]) >= 0).all()
    extreme = judged(lin, replace(issues, score=1e6 * issues.score)).log_odds
    assert np.ptp(extreme) < 2.1  # order alone, far below what has a probability
    sure = judged(lin, replace(issues, probability=np.ones(len(samples)))).log_odds
    assert np.isfinite(sure).all() and (sure > 30).all()
    some = replace(issues, probability=np.linspace(0.01, 0.99, len(samples)))
    odds = np.log(some.probability / (1 - some.probability))
    np.testing.assert_allclose(judged(lin, some).log_odds, odds, atol=1e-4)


def test_what_is_no_such_file_is_refused_by_name(tmp_path, digits):
    path = tmp_path / "review.npz"
    arrays = {name: getattr(digits[1], name) for name in FIELDS} | {"share": np.array([0.0, 0.5])}
    np.savez(path, **arrays)
    assert len(read_judged(path)) == 300
    changes = [{"labels": np.array([{"a": 1}], dtype=object)}, {"labels": np.array(3)}]
    for name in FIELDS:  # a row fewer, another axis
        changes += [{name: arrays[name][1:]}, {name: arrays[name][..., None]}]
    with pytest.raises(DataError, match="there is none"):
        read_judged(tmp_path / "other.npz")
    for write in (
        *(
            lambda n=n: np.savez(path, **{k: v for k, v in arrays.items() if k != n})
            for n in arrays
        ),
        *(lambda change=change: np.savez(path, **arrays | change) for change in changes),
        lambda: path.write_text("nothing"),
    ):
        write()
        with pytest.raises(DataError, match=r"review\.npz"):
            read_judged(path)
