"""Which pairs are asked about: the likest gradients, from kernels and from features."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import datassay as da
from datassay.score.information import pairs
from datassay.score.information.groups import informations
from datassay.score.information.pairs import nearest_pairs, pair_information


def collected(x, outputs="joint", projection=None, hidden=16):
    y = np.arange(len(x)) % 3
    train = da.SampleSet(x=x, y=y, ids=np.arange(len(x)), class_names=("a", "b", "c"))
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 3)
    )
    return da.collect(model.double(), train, outputs=outputs, projection=projection)


def by_hand(lin):
    """Every gradient of every sample, one long row; the largest cosine of each."""
    n = len(lin)
    if lin.kernel is not None:
        blocks = lin.kernel.numpy().reshape(n, lin.rows_per_sample, n, lin.rows_per_sample)
        traces = np.einsum("iaja->ij", blocks)
    else:
        rows = np.asarray(lin.features, float).reshape(n, -1)
        traces = rows @ rows.T
    length = np.sqrt(np.diag(traces))
    cosine = traces / np.outer(length, length) - 2 * np.eye(n)
    return {tuple(sorted((i, int(cosine[i].argmax())))) for i in range(n)}


@pytest.mark.parametrize(
    ("outputs", "n", "hidden"),
    [("joint", 12, 16), ("averaged", 12, 16), ("joint", 40, 3), ("averaged", 60, 3)],
)
def test_pairs_are_those_of_the_largest_cosine(outputs, n, hidden):
    x = np.random.default_rng(0).normal(size=(n, 4))
    x[7] = x[2]
    lin = collected(x, outputs, hidden=hidden)
    assert (lin.kernel is None) == (n == 40)
    nearest = nearest_pairs(lin)
    assert {tuple(pair) for pair in nearest.tolist()} == by_hand(lin)
    assert (nearest[:, 0] < nearest[:, 1]).all() and [2, 7] in nearest.tolist()
    assert n / 2 <= len(nearest) <= n


def test_samples_without_gradient_have_no_nearest():
    lin = collected(np.random.default_rng(2).normal(size=(8, 4)), "averaged")
    kernel = lin.kernel.clone()
    kernel[3], kernel[:, 3] = 0, 0
    assert 3 not in nearest_pairs(replace(lin, kernel=kernel))
    assert len(nearest_pairs(replace(lin, kernel=torch.zeros_like(kernel)))) == 0


def test_informations_that_are_known_are_not_computed_again(monkeypatch):
    lin, sizes = collected(np.random.default_rng(0).normal(size=(12, 4))), []
    expected, known = (
        pair_information(lin, [[0, 1], [2, 5]]),
        da.sample_information(lin).information,
    )

    def counted(training, groups, *rest):
        sizes.extend(map(len, groups))
        return informations(training, groups, *rest)

    monkeypatch.setattr(pairs, "informations", counted)
    result = pair_information(lin, [[0, 1], [2, 5]], alone=known)
    assert sizes == [2, 2]
    np.testing.assert_allclose(result.interaction, expected.interaction, rtol=1e-6, atol=1e-9)
