"""collect with a store: the same bits as without, whatever the interruption or the damage."""

import logging
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import zarr

from datassay.collect import choose_form as forms
from datassay.collect.collection import collect, plan_collection
from datassay.collect.jacobian_pass import JacobianPass
from datassay.collect.resume import N_RECHECKED
from datassay.errors import SettingError
from datassay.models.networks import mlp
from datassay.score.leave_one_out import leave_one_out
from datassay.store.chunks import StoredFeatures
from datassay.store.features import DamagedChunk, FeatureStore
from helpers.collecting import classes, network, regression

FORMS = {
    "projected features": {"projection": 9},
    "projected kernel": {"projection": 30},
    "exact averaged kernel": {"outputs": "averaged"},
}
CHUNK_BYTES = 2**14
TENSORS = ("outputs", "val_outputs", "kernel", "val_kernel", "features", "val_features")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(forms, "WORKING_BYTES", CHUNK_BYTES)


def problem():
    return network(), classes(17), classes(6, seed=1, first=50)


def same_bits(one, other):
    for name in TENSORS:
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        assert a is None or (a.dtype == b.dtype and torch.equal(a, b)), name
    assert one.form == other.form and one.warnings == other.warnings


class Stopped(BaseException):
    """Not an error that anybody catches: the process is removed."""


@pytest.mark.parametrize("settings", FORMS.values(), ids=FORMS)
def test_an_interrupted_pass_goes_on_to_the_same_bits(tmp_path, monkeypatch, settings):
    expected = collect(*problem(), **settings)
    assert expected.form.chunk < 17
    written, computed = FeatureStore.put, []

    def stopping(self, number, values):
        if len(computed) % 2:
            computed.append(number)
            raise Stopped
        computed.append(number)
        written(self, number, values)

    for _ in range(20):
        monkeypatch.setattr(FeatureStore, "put", stopping)
        try:
            lin = collect(*problem(), **settings, store=tmp_path / "store")
            break
        except Stopped:
            continue
    same_bits(lin, expected)
    assert len(computed) == 2 * len(set(computed)) - 1


def test_a_second_call_computes_a_few_samples_again(tmp_path, monkeypatch, caplog):
    expected = collect(*problem(), store=tmp_path)
    monkeypatch.setattr(FeatureStore, "put", None)
    computed, compute = [], JacobianPass.arrays

    def noting(self, chunk):
        computed.append(chunk)
        return compute(self, chunk)

    monkeypatch.setattr(JacobianPass, "arrays", noting)
    with caplog.at_level(logging.INFO):
        same_bits(collect(*problem(), store=tmp_path), expected)
    assert 1 < len(computed) <= N_RECHECKED and {len(chunk) for chunk in computed} == {1}
    assert len({chunk.number for chunk in computed}) == len(computed)
    n_chunks = len(zarr.open_group(str(tmp_path), mode="r")["digests"][:])
    assert f"{n_chunks} of {n_chunks} chunks found, 0 missing, 0 damaged" in caplog.text


def test_the_store_holds_what_the_pass_gave(tmp_path):
    model, train, val = problem()
    lin = collect(model, train, val, projection=9, store=tmp_path)
    group = zarr.open_group(str(tmp_path), mode="r")
    features = group["train_jacobian.projected"][:]
    assert np.array_equal(features.reshape(-1, features.shape[2]), lin.features.numpy())
    assert np.array_equal(group["val_outputs"][:], lin.val_outputs.numpy())
    assert np.array_equal(group["train_targets"][:], lin.targets.numpy())
    ids = [bytes(row).rstrip(b"\0").decode() for row in group["val_ids"][:]]
    assert ids == list(val.ids)
    train, val = regression(9), regression(4, seed=1)
    torch.manual_seed(0)
    collect(mlp((5,), 1, width=7), train, val, store=tmp_path / "numbers")
    group = zarr.open_group(str(tmp_path / "numbers"), mode="r")
    assert np.array_equal(group["train_ids"][:], train.ids)


def test_a_damaged_chunk_is_told_and_computed_again(tmp_path, caplog):
    expected = collect(*problem(), projection=9, store=tmp_path)
    file = next(f for f in (tmp_path / "train_outputs" / "c" / "1").rglob("*") if f.is_file())
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    with caplog.at_level(logging.WARNING):
        same_bits(collect(*problem(), projection=9, store=tmp_path), expected)
    assert "1 damaged; 1: outputs does not read" in caplog.text
    assert file.read_bytes() == whole


def test_other_weights_data_seed_settings_or_versions_are_named(tmp_path, monkeypatch):
    model, train, val = problem()
    collect(model, train, val, projection=9, store=tmp_path)

    def differs(model=model, train=train, val=val, **settings):
        with pytest.raises(SettingError, match="store must belong to this run") as refused:
            collect(model, train, val, store=tmp_path, **({"projection": 9} | settings))
        return str(refused.value).partition("differs in: ")[2].partition(". Name")[0]

    assert differs(model=network(seed=1)) == "weights"
    assert differs(train=replace(train, x=train.x + 1e-9)) == "training samples"
    assert differs(val=classes(6, seed=2, first=50)) == "validation samples"
    assert differs(train=replace(train, ids=train.ids[::-1].copy())) == "training samples"
    assert differs(seed=4) == "seed (0 there, 4 here)"
    assert "precision" in differs(precision="float32")
    assert "projection (9 there, 30 here)" in differs(projection=30)
    assert "outputs" in differs(outputs="averaged")
    frozen = network()
    frozen[-1].bias.requires_grad_(False)
    assert "trained tensors" in differs(model=frozen)
    with monkeypatch.context() as patched:
        patched.setattr(torch, "__version__", "9.9")
        assert re.fullmatch(r"torch \(.* there, \"9.9\" here\)", differs())
    collect(model, train, val, store=tmp_path)  # "auto" takes what is there
    assert plan_collection(model, train, val, store=tmp_path).projection == 9


def test_features_larger_than_the_memory_stay_in_the_store(tmp_path, monkeypatch):
    expected = collect(*problem(), projection=9, outputs="joint")
    assert not expected.form.products.in_store
    settings = {"projection": 9, "outputs": "joint", "memory": expected.form.peak_bytes - 1}
    lin = collect(*problem(), **settings, store=tmp_path)
    assert lin.form.products.in_store and lin.form.peak_bytes < expected.form.peak_bytes
    for stored, held in (
        (lin.features, expected.features),
        (lin.val_features, expected.val_features),
    ):
        assert isinstance(stored, StoredFeatures) and stored.shape == held.shape
        assert torch.equal(stored[2:17], held[2:17]) and torch.equal(stored[:], held)
        assert stored.dtype == held.dtype and len(stored[5:5]) == 0
        rows = torch.tensor([14, 3, 3, 16])
        assert torch.equal(stored.take(rows), held[rows])
    ours, all_at_once = (leave_one_out(one, steps=100).held_out for one in (lin, expected))
    assert np.array_equal(ours, all_at_once)
    keep = np.array([3, 1, 16])
    assert torch.equal(lin.subset(keep).features, expected.subset(keep).features)
    assert torch.equal(lin.average_outputs().kernel, expected.average_outputs().kernel)
    file = next(f for f in tmp_path.glob("train_jacobian.projected/c/1/**/*") if f.is_file())
    file.unlink()
    with pytest.raises(DamagedChunk, match=r"chunk 1: jacobian\.projected is not what was written"):
        lin.features[0:51]


def test_a_form_that_memory_decided_is_a_warning_and_stays(tmp_path):
    few = {"memory": 1e5}
    first = collect(*problem(), **few, store=tmp_path)
    (warning,) = [w for w in first.warnings if "the memory decided what is collected" in w]
    assert f"{first.form.summary} instead of exact joint kernel" in warning
    assert "; projection none, outputs averaged gives this form again." in warning
    again = collect(*problem(), store=tmp_path)  # with all of the memory
    assert again.form.summary == first.form.summary and warning in again.warnings
    fixed = collect(*problem(), **first.form.options, store=tmp_path)
    assert fixed.warnings == () and torch.equal(fixed.kernel, first.kernel)
    alone = collect(*problem(), **first.form.options)
    assert alone.warnings == () and torch.equal(alone.kernel, first.kernel)
    with pytest.raises(SettingError, match="differs in: "):
        collect(*problem(), outputs="joint", store=tmp_path)


def test_other_threads_compute_with_those_of_the_first_call(tmp_path, monkeypatch):
    used, compute, before = [], JacobianPass.arrays, torch.get_num_threads()

    def noting(self, chunk):
        used.append(torch.get_num_threads())
        return compute(self, chunk)

    try:
        torch.set_num_threads(2)
        collect(*problem(), store=tmp_path)
        torch.set_num_threads(1)
        next(f for f in (tmp_path / "train_outputs" / "c" / "1").rglob("*") if f.is_file()).unlink()
        monkeypatch.setattr(JacobianPass, "arrays", noting)
        collect(*problem(), store=tmp_path)
        assert set(used) == {2} and torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
