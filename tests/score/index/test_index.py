"""An index answers as `influence` does, from what it kept; an interrupted one goes on."""

import contextlib
import hashlib
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import datassay as da
from datassay.collect.gradients.batches import Batches
from datassay.collect.gradients.objective import Objective
from datassay.errors import DataError, DatassayError, ModelError, SettingError
from datassay.score.index import curvature, identity, opened, opening, search, segment
from datassay.score.index.identity import check_unique, describe_loss, objective_of, positions_of
from datassay.score.influence.trained_network import TrainedNetwork
from helpers.by_block import gauss_newton, losses, slopes
from helpers.counted import counted

WHOLE = {"bytes_per_sample": 2**20}  # rows of floats


def trained(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    x = torch.randn(90, 5)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0.3).long()
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(150):
        loss = nn.functional.cross_entropy(model(x[:60]), y[:60])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    whole = da.SampleSet(x.numpy(), y.numpy(), np.arange(90), ("a", "b", "c"))
    return model, whole.subset(np.arange(60)), whole.subset(np.arange(60, 90))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A network, its samples, others, and an index that nothing changes."""
    model, train, new = trained()
    return model, train, new, da.index(model, train, tmp_path_factory.mktemp("made") / "ix")


def bytes_of(folder: Path) -> dict[str, str]:
    """Every file of an index and its digest."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.mark.parametrize("by", ["blocks", "ekfac"])
def test_all_coordinates_give_the_effects_of_influence(tmp_path, by):
    model, train, new = trained()
    ix = da.index(model, train, tmp_path / "ix", curvature=by, **WHOLE)
    truth = da.influence(model, train, new, curvature=by, measure="margin")
    effects = ix.query(new, top=None, measure="margin")
    np.testing.assert_allclose(effects.effect, truth.effect, rtol=2e-3, atol=2e-5)
    np.testing.assert_allclose(ix.self_influence(), truth.self_influence, rtol=1e-4)
    np.testing.assert_allclose(effects.outcome, truth.outcome, rtol=1e-6)
    few = ix.query(new, top=4, measure="margin")
    best = np.sort(effects.effect, 0)
    np.testing.assert_allclose(few.top.raising_effect, best[::-1][:4].T, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(few.top.lowering_effect, best[:4].T, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(few.total, effects.effect.sum(1), rtol=1e-3, atol=1e-4)


def test_the_whole_matrix_stands_beside_the_top_where_it_fits(made, monkeypatch):
    _, train, new, ix = made
    plain, effects = ix.query(new), ix.query(new, top=3)
    what = f"{len(train)} samples of {ix.bytes_per_sample} bytes, {type(ix.model).__name__}"
    assert repr(ix) == f"Index({ix.location!r}, {what})"
    assert plain.effect.shape == (len(train), len(new)) and plain.top.raising.shape[1] == 20
    np.testing.assert_array_equal(effects.effect, plain.effect)
    np.testing.assert_array_equal(effects.total, plain.total)
    for side in ("raising", "lowering"):
        named = getattr(effects.top, side)
        assert named.shape == (len(new), 3)
        np.testing.assert_array_equal(named, getattr(plain.top, side)[:, :3])
        values = np.take_along_axis(effects.effect.T, named, 1)
        np.testing.assert_array_equal(getattr(effects.top, f"{side}_effect"), values)
    monkeypatch.setattr(opened, "LARGEST_MATRIX", len(train) * len(new))
    assert ix.query(new, top=3).effect is not None
    monkeypatch.setattr(opened, "LARGEST_MATRIX", len(train) * len(new) - 1)
    few = ix.query(new, top=3)
    assert few.effect is None and ix.query(new, top=None).effect is None
    np.testing.assert_array_equal(few.top.raising, effects.top.raising)
    with pytest.raises(SettingError, match="top must"):
        ix.query(new, top=0)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("n_bytes", [16, 32, 128, 2**20])
def test_the_largest_effects_are_found_in_either_precision(tmp_path, monkeypatch, fast, n_bytes):
    sizes = {"QUERY_GROUP": 7, "GROUPED": 2, "ROWS_AT_ONCE": 40, "FLOATS_AT_ONCE": 9}
    for name, value in {"has_int8": lambda: fast, **sizes}.items():
        monkeypatch.setattr(search, name, value)
    monkeypatch.setattr(opened, "LARGEST_MATRIX", 0)
    monkeypatch.setattr(segment, "MOST_SAMPLES", 16)
    model, train, new = trained()
    ix = da.index(model, train, tmp_path / "ix", bytes_per_sample=n_bytes)
    effects = ix.query(new, top=6)
    monkeypatch.undo()
    monkeypatch.setattr(search, "has_int8", lambda: False)
    effect = ix.query(new, top=None).effect
    apart = 1e-2 if fast else 1e-5  # queries in 8 bits; the largest of all effects are 1
    for side, sign in (("raising", -1), ("lowering", 1)):
        best = np.argsort(sign * effect, 0)[:6].T
        found = zip(best, getattr(effects.top, side), strict=True)
        assert np.mean([len(set(a) & set(b)) for a, b in found]) > 5.8
        values = np.take_along_axis(effect.T, getattr(effects.top, side), 1)
        differences = getattr(effects.top, f"{side}_effect") - values
        assert np.abs(differences).max() < apart * np.abs(effect).max()
    np.testing.assert_allclose(effects.total, effect.sum(1), atol=apart * np.abs(effect).max())


@pytest.mark.parametrize("b", [1, 31, 64, 65, 479, 4001])
def test_the_best_of_groups_are_the_best_of_all(b):
    effect = torch.randperm(3 * b, generator=torch.Generator().manual_seed(b)).view(3, b).float()
    for keep in {1, min(b, 7)}:
        for largest in (True, False):
            values, index = search._select_extremes(effect, keep, keeps_largest=largest)
            assert values.equal(effect.topk(keep, 1, largest=largest).values)
            assert effect.gather(1, index).equal(values)


@pytest.mark.parametrize("settings", [
    {}, {"smoothing": 0.1}, {"class_weight": torch.tensor([1.0, 2.0])}, {"scale": 0.5},
    {"temperature": 2.0}, {"averaged": False}, {"ignored": -1}, {"delta": 2.0},
    {"output_weight": torch.tensor([0.5, 3.0])}, {"classes_second": True},
    {"classes_second": False},
])  # fmt: skip
def test_a_loss_is_rebuilt_from_what_is_stored_of_it(settings):
    loss = Objective("bce", **settings)
    stored = json.loads(json.dumps(describe_loss(loss)))
    assert repr(objective_of(stored, "auto", "ix")) == repr(loss)
    assert repr(objective_of(stored, "bce", "ix")) == repr(loss)
    for other in ("mse", "cross_entropy", nn.MSELoss(), self_influence_loss):
        with pytest.raises(SettingError, match="was asked with another"):
            objective_of(stored, other, "ix")
    others = [Objective("bce"), Objective("mse"), *(Objective("bce", **s) for s in OTHER_LOSSES)]
    assert all((describe_loss(other) == stored) == (repr(other) == repr(loss)) for other in others)


OTHER_LOSSES = {"averaged": False, "ignored": -1}, {"delta": 2.0}, {"temperature": 3.0}


def test_what_a_call_reports_goes_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(segment, "MOST_SAMPLES", 16)
    model, train, new = trained()
    ix, steps = counted(da.index, model, train, tmp_path / "ix", curvature="ekfac")
    fitting = {f"fit the curvature: {name}": (1, 1) for name in ("sums", "squares")}
    assert steps == fitting | {"keep gradients": (4, 60)}
    queries = {"differentiate the queries": (1, 30)}
    for call, arguments, further in (
        (ix.query, (new,), {"compare with the index": (4, 60)}),
        (ix.groups, ({"a": [3]}, new), {"compare with the index": (4, 60)}),
        (ix.brittleness, (new,), {"compare with the index": (4, 60), "brittleness": (30, 30)}),
    ):
        assert counted(call, *arguments)[1] == queries | further
    assert counted(ix.append, new)[1] == {f"append to {ix.segments[0].store.location}": (2, 30)}


def test_a_folder_goes_where_it_fails_and_each_part_draws_by_its_seed(tmp_path, monkeypatch):
    def dies(step, done, total):
        if step == "keep gradients":
            assert [*tmp_path.glob("datassay-index-*")]
            raise KeyboardInterrupt

    seeds, roots = [], TrainedNetwork.roots
    monkeypatch.setattr(
        TrainedNetwork, "roots", lambda net, s, step: seeds.append(s) or roots(net, s, step)
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(curvature, "SMALLEST_PART", 20)
    with pytest.raises(KeyboardInterrupt):
        da.index(*trained()[:2], seed=5, curvature="blocks", progress=dies)
    assert not [*tmp_path.glob("datassay-index-*")] and seeds == [5, 6, 7]


def test_ids_of_groups_that_are_unknown_are_named_up_to_three():
    for n in (1, 3, 4):
        names = ", ".join(map(repr, range(9, 9 + min(n, 3)))) + ", ..." * (n > 3)
        with pytest.raises(DataError, match=f"'a' has {names}\\."):
            positions_of({"b": [1], "a": np.array([0, *range(9, 9 + n)])}, np.arange(3))
    assert positions_of({"a": ["2", 0]}, np.arange(3))[0].tolist() == [2, 0]


@pytest.mark.parametrize("ids", [[0, 1], [1, 0], [5, 1], [5, 6], ["0", "1"], ["a", "5"]])
def test_counted_ids_go_on_and_others_stay_unless_one_is_known(ids):
    for index_ids in ([0, 1, 2], [0, 2, 1], [1, 2, 3], ["0", "1", "2"], ["a"]):
        asked = np.array(ids), np.array(index_ids)
        if (ids, index_ids) == ([0, 1], [0, 1, 2]):
            assert identity.new_ids(*asked).tolist() == [3, 4]
        elif known := [i for i in ids if str(i) in map(str, index_ids)]:
            with pytest.raises(DataError, match=f"has {', '.join(map(repr, known))} already"):
                identity.new_ids(*asked)
        else:
            assert identity.new_ids(*asked).tolist() == ids


def test_the_digest_of_samples_is_of_every_value_and_id():
    x, y = torch.ones(2, 3), torch.zeros(2)
    asked = [([0, 1], x, y), ([0, 2], x, y), ([1, 0], x, y), ([0, 1], x, y + 1),
             ([0, 1], x + x.tril(-1), y)]  # fmt: skip
    read = [Batches(lambda i=i, b=b: iter([(np.array(i), b)]), None, None) for i, *b in asked]
    assert len({identity.samples_digest(batches)[0] for batches in read}) == 5


def test_ids_that_occur_twice_are_named():
    check_unique(np.array(["a", "b"]))
    with pytest.raises(DataError, match="more than once: 'b', 'c'\\."):
        check_unique(np.array([*"abbcccd"]))
    with pytest.raises(DataError, match="more than once: 0, 1, 2\\."):
        check_unique(np.repeat(np.arange(9), 2))


@pytest.mark.parametrize(
    ("n_bytes", "bits", "least"),
    [(512, 32, 1 - 1e-9), (128, 8, 0.9999), (32, 4, 0.99), (8, 2, 0.95), (2, 1, 0.8)],
)
def test_fewer_bytes_keep_less_and_as_much_as_they_say(tmp_path, n_bytes, bits, least):
    model, train, new = trained()
    truth = da.influence(model, train, new, curvature="blocks", measure="margin").effect
    ix = da.index(model, train, tmp_path / "ix", curvature="blocks", bytes_per_sample=n_bytes)
    effect = ix.query(new, top=None, measure="margin").effect
    kept = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(effect.T, truth.T, strict=True)])
    assert (ix.sketch.bits, ix.bytes_per_sample) == (bits, n_bytes + 4)
    assert kept > least and abs(kept - ix.fidelity["mean"]) < 0.05
    assert np.vdot(effect, truth) / np.vdot(truth, truth) == pytest.approx(1, abs=0.25)


def test_a_narrow_index_says_what_it_keeps(tmp_path):
    model, train, _ = trained()
    ix = da.index(model, train, tmp_path / "ix", bytes_per_sample=4)
    agreement = ix.fidelity
    assert agreement["low"] < agreement["mean"] < agreement["high"] <= 1
    assert ix.appended == 0
    thin = da.index(model, train, tmp_path / "thin", bytes_per_sample=1)
    assert "rows of 1 bytes follow" in thin.warnings[0]


@pytest.mark.parametrize("n_bytes", [16, pytest.param(64, marks=pytest.mark.slow)])
def test_bits_are_the_same_whatever_the_batch(tmp_path, n_bytes):
    model, train, _ = trained()
    data = TensorDataset(torch.from_numpy(train.x).double(), torch.from_numpy(train.y))
    rows = []
    for size in (1, 7, 60):
        ix = da.index(
            model.double(), DataLoader(data, batch_size=size), tmp_path / str(size),
            bytes_per_sample=n_bytes, precision="float64",
        )  # fmt: skip
        (chunk,) = ix.segments[0].store.chunks
        rows.append(ix.segments[0].rows(chunk, holds=False)[0])
    assert (rows[0] == rows[1]).all() and (rows[0] == rows[2]).all()


def test_an_interrupted_index_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(segment, "MOST_SAMPLES", 16)
    monkeypatch.setattr(curvature, "SMALLEST_PART", 20)
    model, train, _ = trained()
    da.index(model, train, tmp_path / "once", curvature="ekfac")
    calls, is_done = 0, False
    while not is_done:
        steps, calls = iter("a"), calls + 1

        def dies(step, done, total, steps=steps):
            if next(steps, None) is None:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            da.index(model, train, tmp_path / "often", curvature="ekfac", progress=dies)
            is_done = True
    assert calls > 5
    assert bytes_of(tmp_path / "often") == bytes_of(tmp_path / "once")


@pytest.mark.slow
def test_other_processes_give_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(segment, "MOST_SAMPLES", 16)
    model, train, _ = trained()
    da.index(model, train, tmp_path / "here")
    da.index(model, train, tmp_path / "there", engine="processes")
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "there")


def test_appended_samples_are_as_if_they_had_been_there(tmp_path):
    model, train, new = trained()
    ix = da.index(model, train, tmp_path / "ix", temperature=1.0, **WHOLE)
    before = ix.query(new, top=None).effect
    assert ix.append(new) is ix and ix.ids.tolist() == list(range(90))
    after = da.open_index(tmp_path / "ix", model).query(new, top=None)
    np.testing.assert_allclose(after.effect[:60] * 90, before * 60, rtol=1e-5, atol=1e-7)
    own = np.diag(ix.query(new, top=None, measure="loss").effect[60:])
    np.testing.assert_allclose(-own, after.self_influence[60:], rtol=1e-3)
    assert ix.appended == pytest.approx(1 / 3) and "33%" in after.warnings[-1]


def test_groups_are_the_sums_of_their_samples(made):
    _, train, new, ix = made
    alone = ix.query(new, top=None).effect
    groups = ix.groups({"first": range(10), "others": train.ids[10:]}, new)
    for row, part in enumerate((alone[:10], alone[10:])):
        np.testing.assert_allclose(groups.effect[row], part.sum(0), rtol=1e-4, atol=1e-6)
    assert groups.ids.tolist() == ["first", "others"]
    with pytest.raises(DataError, match="'first' has 99"):
        ix.groups({"first": [1, 99]}, new)
    with pytest.raises(DataError, match="'none' is empty"):
        ix.groups({"none": []}, new)


def test_queries_of_a_class_that_the_network_does_not_have_are_refused(made):
    *_, new, ix = made
    queries = TensorDataset(torch.from_numpy(new.x), torch.from_numpy(new.y) + 1)
    with pytest.raises(DataError, match="lasses"):
        ix.query(DataLoader(queries, 9), measure="loss")


class Iterated(torch.utils.data.IterableDataset):
    """Samples that can only be iterated."""

    def __init__(self, samples):
        self.pairs = list(zip(*map(torch.from_numpy, (samples.x, samples.y)), strict=True))

    def __iter__(self):
        return iter(self.pairs)


def test_samples_that_can_only_be_iterated_are_indexed_as_others(tmp_path, made):
    model, train, new, ix = made
    iterated = da.index(model, Iterated(train), tmp_path / "ix").append(Iterated(new))
    assert iterated.ids.tolist() == list(range(90))
    np.testing.assert_allclose(iterated.self_influence()[:60] * 90, ix.self_influence() * 60)


def test_queries_need_no_labels_where_outputs_are_asked_for(made):
    *_, new, ix = made
    bare = torch.from_numpy(new.x)
    np.testing.assert_allclose(ix.query(bare, measure="output").effect,
                               ix.query(new, measure="output").effect)  # fmt: skip
    named, unnamed = (ix.brittleness(some) for some in (new, bare))
    np.testing.assert_array_equal(named.size, unnamed.size)


@pytest.mark.parametrize(("temperature", "own"), [("auto", 1.0), (2.0, 2.0), (1.0, 1.0)])
def test_self_influence_is_the_definition_at_its_temperature(tmp_path, temperature, own):
    model, train, new = trained()
    model, names = model.double(), [["0.weight", "0.bias"], ["2.weight", "2.bias"]]
    exact = {"precision": "float64", "curvature": "blocks", "damping": 0.1}
    ix = da.index(model, train, tmp_path / "ix", temperature=temperature, **exact)
    hot = 2.0 if temperature == "auto" else temperature
    pair, more = (
        (torch.from_numpy(s.x).double(), torch.from_numpy(s.y).long()) for s in (train, new)
    )
    truth = own_effects(model, names, pair, pair, hot, own)
    np.testing.assert_allclose(ix.self_influence(), truth, rtol=1e-9)
    # Of further samples in the metric of the first.
    theirs = own_effects(model, names, pair, more, hot, own)
    np.testing.assert_allclose(ix.self_influence(new), theirs, rtol=1e-9)
    ix = da.open_index(tmp_path / "ix", model).append(new)
    np.testing.assert_allclose(ix.self_influence()[60:] * 90, theirs * 60, rtol=1e-9)
    words = {"auto": ", temperature 2 (1 of self-influence)", 2.0: ", temperature 2", 1.0: ""}
    assert ix.query(new, top=2).method == (
        f"index, blocks curvature, {ix.bytes_per_sample:,} bytes a sample{words[temperature]}"
    )


def own_effects(model, names, train, samples, temperature, own):
    """gᵀ P g / n of samples at a temperature of their own, P of the training samples."""
    total, (x, y) = 0.0, samples
    for block in names:
        hessian = gauss_newton(model, *train, block, temperature)
        damped = hessian + 0.1 * hessian.diagonal().mean() * torch.eye(len(hessian)).double()
        rows = slopes(model, x, lambda f: own * losses(f / own, y), block)
        total = total + (rows @ torch.linalg.inv(damped) * rows).sum(1) / len(train[0])
    return total.detach().numpy()


class Halved(nn.Module):
    def __init__(self, inner, by=2.0):
        super().__init__()
        self.inner, self.by = inner, by

    def forward(self, x):
        return self.inner(x) / self.by


def test_what_changed_is_told_by_name(tmp_path):
    model, train, new = trained()
    network, path = Halved(model), tmp_path / "ix"
    da.index(network, train, path)
    for other, message in (
        (Halved(trained(1)[0]), "differs in: weights"),
        (Halved(model, 3.0), r"code \(attributes of Halved"),
        (model, r"differs in: .*model"),
    ):
        with pytest.raises(ModelError, match=message):
            da.open_index(path, other)
    with pytest.raises(SettingError, match="differs in: loss"):
        da.index(network, train, path, loss="mse")
    with pytest.raises(SettingError, match="training samples"):
        da.index(network, train.subset(np.arange(50)), path)
    with pytest.raises(SettingError, match="model must be given"):
        da.open_index(path).query(new)


def self_influence_loss(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


def test_a_loss_of_the_users_must_be_given_again(tmp_path):
    model, train, new = trained()
    ix = da.index(model, train, tmp_path / "ix", loss=self_influence_loss)
    with pytest.raises(SettingError, match="loss must be given"):
        da.open_index(tmp_path / "ix", model)
    with pytest.raises(SettingError, match="other code"):
        da.open_index(tmp_path / "ix", model, loss=lambda m, b: self_influence_loss(m, b) * 2)
    da.index(model, train, tmp_path / "named")
    with pytest.raises(SettingError, match="was asked with another"):
        da.open_index(tmp_path / "named", model, loss="mse")
    again = da.open_index(tmp_path / "ix", model, loss=self_influence_loss)
    assert (again.query(new, top=None).effect == ix.query(new, top=None).effect).all()


@pytest.mark.parametrize("folder", ["rows-0", "curvature"])
def test_damage_is_told(tmp_path, folder):
    model, train, new = trained()
    da.index(model, train, tmp_path / "ix")
    files = [p for p in (tmp_path / "ix" / folder).rglob("c/**/*") if p.is_file()]
    chunk = max(files, key=lambda p: p.stat().st_size)
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(bytes(content))
    with pytest.raises(DataError, match="chunk 0: "):
        da.open_index(tmp_path / "ix", model).query(new)


def test_a_part_that_is_gone_is_missed_and_one_in_anothers_place_refused(tmp_path):
    model, train, new = trained()
    da.index(model, train, tmp_path / "ix").append(new).append((new.x + 1, new.y))
    assert len(da.open_index(tmp_path / "ix", model)) == 120
    for gone in ("rows-1", "rows-2", "rows-1/digests/c", "rows-0", "parts"):
        less = tmp_path / gone.replace("/", "-")
        shutil.copytree(tmp_path / "ix", less)
        shutil.rmtree(less / gone)
        with pytest.raises(DataError, match=r"index must|must hold an index"):
            da.open_index(less, model)
    da.index(model, train, tmp_path / "parts")
    assert len(da.open_index(tmp_path / "parts", model)) == 120
    unfit = da.open_index(tmp_path / "parts", model)
    unfit.manifest = unfit.manifest | {"blocks": unfit.manifest["blocks"][:1]}
    with pytest.raises(DataError, match=r"the curvature of .* is not"):
        unfit.query(new)
    first, second, aside = (tmp_path / "ix" / name for name in ("rows-1", "rows-2", "aside"))
    first.rename(aside), second.rename(first), aside.rename(second)
    with pytest.raises(DataError, match="rows-1 is another one"):
        da.open_index(tmp_path / "ix", model)


def test_an_appending_that_was_not_noted_does_not_count(tmp_path):
    model, x = nn.Linear(2, 1), torch.randn(12, 2, generator=torch.Generator().manual_seed(0))
    ix = da.index(model, (x, x[:, 0]), tmp_path / "ix")
    shutil.copytree(tmp_path / "ix" / "parts", tmp_path / "noted")
    ix.append((x + 1, x[:, 0]))
    shutil.rmtree(tmp_path / "ix" / "parts")
    shutil.move(tmp_path / "noted", tmp_path / "ix" / "parts")
    assert len(ix) == 24 and len(da.open_index(tmp_path / "ix", model)) == 12


def test_an_index_is_refused_where_it_is_none_or_unfinished(tmp_path, monkeypatch):
    model, train, _ = trained()
    for settings in (
        {"bytes_per_sample": 0}, {"curvature": "whole"}, {"precision": "half"},
    ):  # fmt: skip
        with pytest.raises(DatassayError, match=next(iter(settings))):
            da.index(model, train, tmp_path / "ix", **settings)
    with pytest.raises(DataError, match="has none"):
        da.open_index(tmp_path / "ix")
    monkeypatch.setattr(segment, "MOST_SAMPLES", 16)

    def dies(step, done, total):
        if step == "keep gradients" and done < total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        da.index(model, train, tmp_path / "ix", progress=dies)
    with pytest.raises(DataError, match="lacks 3 of 4 chunks"):
        da.open_index(tmp_path / "ix")
    monkeypatch.setattr(opening, "FORMAT", 0)
    with pytest.raises(DataError, match="has version 4, of another"):
        da.open_index(tmp_path / "ix")


def test_ids_that_are_texts(tmp_path):
    model, train, _ = trained()
    named = replace(train, ids=np.array([f"é{i}" for i in range(60)]))
    texts = da.index(model, named, tmp_path / "texts")
    assert da.open_index(tmp_path / "texts").ids.tolist() == named.ids.tolist()
    assert texts.to_table().column_names == ["id", "self_influence", "segment"]


def test_networks_of_transformers_alone_are_built_again_and_nothing_is_fetched():
    transformers = pytest.importorskip("transformers")
    kinds = {"GPT2LMHeadModel": transformers.GPT2LMHeadModel, "GPT2Config": None, "evil": None}
    assert {name: opening._find_transformers_class(name) for name in kinds} == kinds
    nested = {"attn_implementation": "evil/kernel"}
    config = {"n_embd": 8, "auto_map": {"AutoModel": "evil--model.Run"}, "text_config": nested}
    assert opening.remove_remote_code(config) == {"n_embd": 8, "text_config": {}}


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_network_that_its_configuration_does_not_build_again(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 12, "vocab_size": 20}
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()
    model.gradient_checkpointing_enable({"use_reentrant": True})
    kept = {}
    model.lm_head.register_forward_hook(lambda layer, x, output: kept.update(last=output))
    samples = [{"input_ids": torch.randint(0, 20, (9,))} for _ in range(8)]
    effect = da.index(model, samples, tmp_path / "ix").query(samples[:3], top=None).effect
    assert effect.shape == (8, 3) and effect.any()
    with pytest.raises(ModelError, match="differs in: code"):
        da.open_index(tmp_path / "ix")


@pytest.mark.parametrize(("attention", "dtype"), [("sdpa", "float32"), ("eager", "bfloat16")])
def test_a_network_of_transformers_is_built_again_without_fetched_code(tmp_path, attention, dtype):
    transformers = pytest.importorskip("transformers")
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 12, "vocab_size": 20}
    torch.manual_seed(0)
    config = transformers.GPT2Config(**sizes, attn_implementation=attention)
    model = transformers.GPT2LMHeadModel(config).to(getattr(torch, dtype)).eval()
    samples = [{"input_ids": torch.randint(0, 20, (9,))} for _ in range(24)]
    ix, wanted = (
        da.index(model, samples, tmp_path / "ix", **WHOLE),
        {"top": None, "measure": "loss"},
    )
    effects = da.open_index(tmp_path / "ix").query(samples[:3], **wanted)
    same = ix.query(samples[:3], **wanted)
    assert effects.effect.shape == (24, 3)
    np.testing.assert_array_equal(effects.effect, same.effect)
