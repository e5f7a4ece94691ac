"""The plan of an index: bytes as they become, passes counted, nothing written."""

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.collect.gradients.blocks import Block
from datassay.errors import SettingError
from datassay.plan import EIGEN_WORK
from datassay.score import index_plan
from datassay.score.index import curvature as fitting
from datassay.score.index import plan as planning
from datassay.score.index.plan import _identity_basis
from datassay.score.influence.exact_blocks import LARGEST_SIDE
from datassay.store.features import features_manifest


def network_and_samples(n=700):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
    x = torch.randn(n, 6)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0.3).long()
    return model, da.SampleSet(x.numpy(), y.numpy(), np.arange(n), ("a", "b", "c"))


def bytes_of(shape, dtype):
    return np.prod(shape) * np.dtype(dtype).itemsize


@pytest.mark.parametrize("curvature", ["blocks", "ekfac"])
@pytest.mark.parametrize("n_bytes", [64, 100_000])
def test_bytes_are_those_of_the_index(tmp_path, curvature, n_bytes):
    model, train = network_and_samples()
    settings = {"curvature": curvature, "bytes_per_sample": n_bytes}
    plan = index_plan(model, train, **settings)
    made = da.index(model, train, tmp_path / "ix", **settings)
    assert plan.n_samples == 700
    assert (plan.bytes_per_sample, plan.bits) == (made.bytes_per_sample, made.sketch.bits)
    store = made.segments[0].store
    n = len(store.chunks) * store.layout.chunk  # of whole ones
    assert plan.row_bytes == n * sum(bytes_of(*a) for a in store.layout.arrays.values())
    arrays = features_manifest(str(tmp_path / "ix" / "curvature"))["free"]["arrays"]
    kept = [bytes_of(*a) for name, a in arrays.items() if not name.endswith(fitting.DAMPING)]
    assert plan.curvature_bytes == sum(kept)
    assert plan.to_table().num_rows == 2 and plan.bytes.sum() == plan.curvature_bytes


def test_passes_by_hand():
    model, train = network_and_samples(100)
    rounds = {"blocks": 1, "ekfac": 2}
    for curvature, many in rounds.items():
        plan = index_plan(model, train, curvature=curvature)
        # One forward and two back for three outputs of a softmax; a loss gradient of each sample,
        # and of 100 samples and 25 queries twice, to judge the rows; one more back for
        # self-influence, and one for what training left to learn.
        assert plan.passes == 100 * many * 3 + 2 * (100 + 2 * 125) + 2 * 100
        plain = index_plan(model, train, curvature=curvature, temperature=1.0)
        assert plan.passes == plain.passes + 100


@pytest.mark.parametrize("curvature", ["blocks", "ekfac"])
def test_seconds_by_hand(monkeypatch, curvature):
    """Each pass over the samples, half a second a sample, and a second a byte."""
    monkeypatch.setattr(planning, "time_call", lambda work, *_: (0.5, work()))
    monkeypatch.setattr(planning, "seconds_of", lambda counts: counts.get("bytes", 0.0))
    model, train = network_and_samples(100)
    plan = index_plan(model, train, curvature=curvature)
    passes = 100 * (1 + (curvature == "ekfac")) + 100 + 2 * 125
    on_disk = plan.scratch_bytes + plan.curvature_bytes + plan.row_bytes
    assert plan.seconds == pytest.approx(passes / 2 + on_disk) and plan.scratch_bytes > 0
    # Half a second a query's gradient, and each of its comparisons.
    read = plan.row_bytes + plan.curvature_bytes
    assert plan.query_seconds(10) == pytest.approx(read + 10 * (0.5 + 100 * 0.5))


def test_memory_by_hand(monkeypatch):
    monkeypatch.setattr(planning, "network_bytes", lambda _: (1e3, 4, 1e4))
    monkeypatch.setattr(planning, "held_bytes", lambda _: 1e5)
    model, train = network_and_samples(100)
    for fit in (0.0, 1e9):
        monkeypatch.setattr(planning, "curvature_bytes", lambda *_, fit=fit: fit)
        plan = index_plan(model, train)
        queries = 4 * 2 * planning.N_QUERIES * sum(p.numel() for p in model.parameters())
        assert plan.peak_bytes == 111e3 + max(fit, plan.curvature_bytes + queries)


@pytest.mark.parametrize("curvature", ["blocks", "ekfac"])
def test_eigenbases_are_counted_by_their_sides(curvature, monkeypatch):
    monkeypatch.setattr(planning, "time_call", lambda work, *_: (1e-12, work()))
    monkeypatch.setattr(planning, "seconds_of", lambda counts: counts.get("eigen", 0.0))
    monkeypatch.setattr(planning, "LONGEST_BASES", 1e9)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.randn(70, 6).numpy()
    train = da.SampleSet(x, (x[:, 0] > 0).astype(np.int64), np.arange(70), ("a", "b"))
    plan = index_plan(model, train, curvature=curvature)
    sides = (28, 5) if curvature == "blocks" else (4, 7, 5)  # of one row nothing is turned
    assert plan.seconds == pytest.approx(EIGEN_WORK * sum(side**3 for side in sides), rel=1e-6)


def test_the_curvature_is_fitted_to_so_many_at_most_in_parts_that_are_kept(monkeypatch):
    model, train = network_and_samples(100)
    whole = index_plan(model, train, curvature="ekfac")
    monkeypatch.setattr(planning, "MOST_FITTED", 60)
    monkeypatch.setattr(fitting, "SMALLEST_PART", 20)
    plan = index_plan(model, train, curvature="ekfac")
    assert whole.scratch_bytes > 0 and plan.scratch_bytes == 3 * whole.scratch_bytes
    assert whole.passes - plan.passes == 40 * 2 * 3
    asked = []
    monkeypatch.setattr(
        planning, "index_exact_rule", lambda by, n, *_: asked.append(n) or (lambda _: False)
    )
    index_plan(model, train)
    assert asked == [60]


def test_a_stand_in_is_as_large_as_the_basis_of_the_block():
    for sides in ((1, 7), (3, 1), (4, 5), (2, LARGEST_SIDE + 1)):
        block = Block("a", sides, ("a",))
        for exact in (False, True):
            basis = _identity_basis(block, exact, torch.float32, torch.device("cpu"))
            axes = (basis.dense_basis, basis.row_basis, basis.column_basis)
            whole, left, right = (None if axis is None else len(axis) for axis in axes)
            if exact:
                assert (whole, left, right) == (sides[0] * sides[1], None, None)
            else:
                each = [side if 1 < side <= LARGEST_SIDE else None for side in sides]
                assert (whole, left, right) == (None, *each)
            if sides[1] > LARGEST_SIDE:
                break
            assert (basis.eigenvalues == 1).all() and basis.eigenvalues.numel() == block.size


def test_what_rows_keep_is_said_before_they_are_made(tmp_path):
    model, train = network_and_samples()
    plan = index_plan(model, train, bytes_per_sample=64)
    assert [*plan.fidelity] == [64, 512] and plan.fidelity[512] > 1 - 1e-9
    for size, share in plan.fidelity.items():
        made = da.index(model, train, tmp_path / str(size), bytes_per_sample=size)
        assert abs(made.fidelity["mean"] - share) < 0.02


def test_where_bases_take_long_nothing_is_said_of_what_rows_keep(monkeypatch):
    model, train = network_and_samples()
    near = index_plan(model, train, curvature="ekfac", bytes_per_sample=20)
    monkeypatch.setattr(planning, "LONGEST_BASES", 0.0)
    far = index_plan(model, train, curvature="ekfac", bytes_per_sample=20)
    assert near.fidelity and not far.fidelity and far.bytes_per_sample == near.bytes_per_sample
    assert far.curvature_bytes == near.curvature_bytes and far.row_bytes == near.row_bytes
    assert far.seconds > 0 and far.query_seconds(10) < far.query_seconds(1000)


def test_settings_are_checked_as_when_it_is_made():
    model, train = network_and_samples(50)
    with pytest.raises(SettingError, match="bytes_per_sample must be at least 1"):
        index_plan(model, train, bytes_per_sample=0)
    with pytest.raises(SettingError, match="temperature must be positive"):
        index_plan(model, train, temperature=0.0)
