"""Checkpoints as networks, state dicts, files and folders: averaged, or added with their rates."""

import copy
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

import datassay as da
from datassay.errors import ModelError, SettingError
from datassay.score.influence.checkpoints import _load_adapter, learning_rates, trainer_run

N, M = 12, 3


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def data(n, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)), np.arange(n) % 2


TRAIN, QUERIES = data(N, 0), data(M, 1)


def run(model, **given):
    return da.influence(model, TRAIN, QUERIES, measure="margin", **given)


def written(model, folder, kind):
    """The same weights in every form that is taken."""
    if kind == "network":
        return model
    if kind == "state dict":
        return model.state_dict()
    if kind == "safetensors":
        save_model(model, folder / "weights.safetensors")
        return str(folder / "weights.safetensors")
    if kind == "torch":
        torch.save(model.state_dict(), folder / "weights.pt")
        return folder / "weights.pt"
    if kind == "folder":
        save_model(model, folder / "model.safetensors")
        (folder / "training_args.bin").write_bytes(b"not to be read")
        return folder
    state = model.state_dict()
    halves = {"model-1.safetensors": list(state)[:2], "model-2.safetensors": list(state)[2:]}
    for name, held in halves.items():
        save_file({key: state[key] for key in held}, folder / name)
    index = {"weight_map": {key: name for name, held in halves.items() for key in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


KINDS = ["network", "state dict", "safetensors", "torch", "folder", "shards"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_is_the_network_itself(kind, tmp_path):
    model, other = network(), network(1)
    given = written(other, tmp_path, kind)
    truth = run(other)
    findings = run(model, checkpoints=[given])
    np.testing.assert_array_equal(findings.effect, truth.effect)
    np.testing.assert_array_equal(run([model, given]).effect, run([model, other]).effect)
    torch.testing.assert_close(model.state_dict(), network().state_dict())  # left as it was


@pytest.mark.parametrize("curvature", ["blocks", "whole"])
@pytest.mark.parametrize("given", ["checkpoints", "models", "folder", "tracin"])
def test_which_state_dict_was_taken_stands_in_the_result(given, curvature, tmp_path):
    model, average = network(1), network(2)
    held = {"ema": average.state_dict(), "model": model.state_dict()}
    torch.save(held, path := tmp_path / "pytorch_model.bin")
    findings, message = None, f"{path} holds several state dicts of this network: 'model' was taken"
    if given == "models":
        findings = run([network(), path], curvature=curvature)
        truth = run([network(), model], curvature=curvature)
    else:
        method = {"method": "tracin"} if given == "tracin" else {"curvature": curvature}
        findings = run(network(), checkpoints=tmp_path if given == "folder" else path, **method)
        truth = run(model, **method)
    np.testing.assert_array_equal(findings.effect, truth.effect)
    assert sum(one.startswith(message) for one in findings.warnings) == 1
    named = run(network(), checkpoints=f"{path}::ema", curvature=curvature)
    np.testing.assert_array_equal(named.effect, run(average, curvature=curvature).effect)
    assert not any("state dict" in one for one in named.warnings)


@pytest.mark.parametrize("curvature", ["blocks", "whole"])
def test_checkpoints_are_averaged_and_added(curvature):
    models = [network(s).double() for s in range(3)]
    averaged = run(models[-1], checkpoints=models[:2], curvature=curvature)
    mean = np.mean([run(m, curvature=curvature).effect for m in models[:2]], 0)
    np.testing.assert_allclose(averaged.effect, mean, rtol=1e-6, atol=1e-12)
    added = run(models[-1], checkpoints=models[:2], method="tracin", lr=[0.1, 0.2])
    each = [run(m, method="tracin", lr=lr) for m, lr in zip(models, (0.1, 0.2), strict=False)]
    np.testing.assert_allclose(added.effect, sum(e.effect for e in each), rtol=1e-5, atol=1e-8)


def keep(folder, step, model, history):
    """A checkpoint as a Trainer writes it, with what was logged until then."""
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    save_model(model, path / "model.safetensors")
    held = [e for e in history if e["step"] <= step]
    state = {"global_step": step, "log_history": held}
    (path / "trainer_state.json").write_text(json.dumps(state))
    return path


def trained(folder, rates=(0.3, 0.2, 0.1), logged=(2, 10, 12)):
    """A run's folder, whose checkpoints are in no order of their names."""
    history = [{"step": s, "learning_rate": lr} for s, lr in zip(logged, rates, strict=True)]
    models = {2: network(2), 10: network(3), 12: network(4)}
    for step, model in models.items():
        keep(folder, step, model, [*history, {"step": 12, "train_loss": 1.0}])
    (folder / "checkpoint-best").mkdir()
    return models


def test_a_runs_folder_is_its_checkpoints_in_order(tmp_path):
    models = trained(tmp_path)
    findings = run(network(), checkpoints=tmp_path, method="tracin", lr="trainer")
    steps = zip(models.values(), (0.3, 0.2, 0.1), strict=True)
    each = [run(m, method="tracin", lr=lr).effect for m, lr in steps]
    np.testing.assert_allclose(findings.effect, sum(each), rtol=1e-5, atol=1e-8)
    averaged = run(network(), checkpoints=str(tmp_path))
    mean = np.mean([run(m).effect for m in models.values()], 0)
    np.testing.assert_allclose(averaged.effect, mean, rtol=1e-5, atol=1e-8)


def test_the_rate_is_the_last_that_was_logged_until_then(tmp_path):
    trained(tmp_path / "a", logged=(1, 8, 12))
    assert learning_rates(tmp_path / "a") == [0.3, 0.2, 0.1]
    some = [tmp_path / "a" / "checkpoint-10", str(tmp_path / "a" / "checkpoint-2")]
    assert learning_rates(some) == [0.2, 0.3]
    trained(tmp_path / "b", logged=(3, 10, 12))
    trained(tmp_path / "c", rates=(0.3, 0.2, 0.0))
    for folder, message in (("b", "checkpoint-2 was not logged"), ("c", "checkpoint-12 is 0")):
        with pytest.raises(SettingError, match=message):
            run(network(), checkpoints=tmp_path / folder, method="tracin", lr="trainer")


def steps_of(folder, rates, norms=(None,) * 4, optimizer=torch.optim.AdamW):
    """A run of one update per rate, logged each, with checkpoints after the second and the last."""
    model, x, y = network(), torch.tensor(TRAIN[0]).float(), torch.tensor(TRAIN[1])
    made = optimizer(model.parameters(), lr=rates[0])
    history, models = [], []
    for step, (rate, norm) in enumerate(zip(rates, norms, strict=True), start=1):
        made.param_groups[0]["lr"] = rate
        made.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        made.step()
        history.append({"step": step, "learning_rate": rate, "grad_norm": norm})
        if step in (2, len(rates)):
            path = keep(folder, step, model, history)
            torch.save(made.state_dict(), path / "optimizer.pt")
            models.append(copy.deepcopy(model))
    return models


RATES = [0.01, 0.02, 0.03, 0.02]


def test_segments_of_a_runs_folder_are_its_optimisers(tmp_path):
    models = steps_of(tmp_path, RATES)
    folders = [tmp_path / "checkpoint-2", tmp_path / "checkpoint-4"]
    findings = run(network(), checkpoints=tmp_path, method="segments", lr="trainer")
    given = {"checkpoints": models, "method": "segments", "lr": [0.015, 0.025], "steps": [2, 4]}
    by_hand = run(models[1], optimizer=folders, **given)
    np.testing.assert_allclose(findings.effect, by_hand.effect, rtol=1e-5)
    words = "temperature 2 (1 of self-influence)"
    assert findings.method == by_hand.method == f"segments of Adam's run, {words}"
    assert not findings.warnings
    plain = run(models[1], **given)
    assert plain.method == f"segments, {words}"
    assert not np.allclose(findings.effect, plain.effect, rtol=0.1)


def test_clipping_shortens_segments_and_is_told(tmp_path):
    steps_of(tmp_path, RATES, norms=[0.5, 2.0, 4.0, 1.0])
    findings = run(network(), checkpoints=tmp_path, method="segments", lr="trainer")
    assert "clipped at a norm of 1" in findings.warnings[0]
    read, notes = trainer_run(tmp_path, [network()] * 2, None)
    np.testing.assert_allclose(read["lr"], [(0.01 + 0.02 / 2) / 2, (0.03 / 4 + 0.02) / 2])
    read, notes = trainer_run(tmp_path, [network()] * 2, 0.0)  # the Trainer says that it did not
    np.testing.assert_allclose(read["lr"], [0.015, 0.025])
    assert not notes


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("clip", [None, 0.0, 0.5, 2.0])
def test_the_rate_of_a_segment_is_the_mean_of_its_updates_clipped_as_they_were(
    tmp_path, seed, clip
):
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.integers(1, 6, 3)).tolist()
    logged = np.sort(rng.permutation(np.arange(1, steps[-1] + 4))[:5]).tolist()
    history = [
        {"step": s, "learning_rate": rng.random(), "grad_norm": 2 * rng.random()} for s in logged
    ]
    del history[2]["learning_rate"], history[3]["grad_norm"]
    for step in steps:
        path = keep(tmp_path, step, network(), [])
        state = {"global_step": step, "log_history": [{"step": 1, "learning_rate": 0.5}, *history]}
        (path / "trainer_state.json").write_text(json.dumps(state))
    seen = [e for e in [{"step": 1, "learning_rate": 0.5}, *history] if e["step"] <= steps[-1]]
    rates = {e["step"]: e["learning_rate"] for e in seen if "learning_rate" in e}
    norms = {e["step"]: e["grad_norm"] for e in seen if "grad_norm" in e}
    most = 1.0 if clip is None else clip
    parts = {s: min(1.0, most / norm) if most else 1.0 for s, norm in norms.items()} or {0: 1.0}
    at = np.arange(1, steps[-1] + 1)
    each = np.interp(at, *zip(*rates.items(), strict=True)) * np.interp(
        at, *zip(*parts.items(), strict=True)
    )
    read, notes = trainer_run(tmp_path, [network()] * 3, clip)
    expected = [each[a:b].mean() for a, b in zip([0, *steps], steps, strict=False)]
    np.testing.assert_allclose(read["lr"], expected)
    assert read["steps"] == steps and read["optimizer"] is None and "plain gradient" in notes[0]
    assert len(notes) == 1 + (clip is None and min(parts.values()) < 1)


@pytest.mark.parametrize("lost", ["the state", "its kind"])
def test_without_a_known_optimiser_it_is_descent_and_told(tmp_path, lost):
    made = torch.optim.AdamW if lost == "the state" else torch.optim.Adagrad
    models = steps_of(tmp_path, RATES, optimizer=made)
    if lost == "the state":
        (tmp_path / "checkpoint-2" / "optimizer.pt").unlink()
    findings = run(network(), checkpoints=tmp_path, method="segments", lr="trainer")
    given = {"lr": [0.015, 0.025], "steps": [2, 4]}
    plain = run(models[1], checkpoints=models, method="segments", **given)
    np.testing.assert_allclose(findings.effect, plain.effect, rtol=1e-5)
    why = "checkpoint-2 has no optimizer.pt" if lost == "the state" else "must be Adam, AdamW or"
    assert "taken as plain gradient descent" in findings.warnings[0] and why in findings.warnings[0]


def test_runs_that_cannot_be_read(tmp_path):
    steps_of(tmp_path, RATES)
    first, last = (tmp_path / f"checkpoint-{s}" for s in (2, 4))

    def refuses(message):
        with pytest.raises(SettingError, match=message):
            run(network(), checkpoints=tmp_path, method="segments", lr="trainer")

    other = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 5))
    state = torch.optim.AdamW(other.parameters()).state_dict()
    moments = [{"step": torch.tensor(1.0), "exp_avg_sq": p.square()} for p in other.parameters()]
    state["state"] = dict(enumerate(moments))
    torch.save(state, first / "optimizer.pt")
    refuses("must be of this network's weights")
    (last / "trainer_state.json").write_text("{")
    refuses(r"trainer_state\.json must hold JSON")
    (first / "optimizer.pt").unlink()
    (last / "trainer_state.json").write_text('{"global_step": 4}')
    refuses(r"needs a positive learning rate; .*-4 logged")


@pytest.mark.parametrize("change", ["", "lacks", "adds", "reshapes"])
def test_an_adapter_is_the_models_in_every_name_and_shape(tmp_path, monkeypatch, change):
    model, loaded = network(), []
    model.peft_config = {}
    expected = {"a": torch.zeros(2, 3), "b": torch.zeros(4)}
    stored = dict(expected)
    if change == "lacks":
        del stored["b"]
    elif change:
        stored["c" if change == "adds" else "b"] = torch.zeros(5)
    save_file(stored, tmp_path / "adapter_model.safetensors")
    peft = SimpleNamespace(
        get_peft_model_state_dict=lambda network, save_embedding_layers: expected,
        set_peft_model_state_dict=lambda network, tensors: loaded.append(tensors),
    )
    monkeypatch.setitem(sys.modules, "peft", peft)
    if change:
        name = "c" if change == "adds" else "b"
        with pytest.raises(ModelError, match=f"hold the model's adapter; {name} differ"):
            _load_adapter(model, tmp_path / "adapter_model.safetensors")
    else:
        _load_adapter(model, tmp_path / "adapter_model.safetensors")
        assert loaded[0].keys() == expected.keys()


def test_what_is_refused(tmp_path):
    model, full = network(), tmp_path / "all.pt"
    other = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    torch.save(model, full)
    with torch.device("meta"):
        empty = network()
    tracin = {"method": "tracin", "lr": "trainer"}
    for error, message, models, settings in (
        (SettingError, "a Sequential has none", model, {"checkpoints": [model], **tracin}),
        (SettingError, "lr='trainer' needs checkpoints", model, tracin),
        (SettingError, r"lr must be a number, .*; got 'train'", model, {**tracin, "lr": "train"}),
        (SettingError, "must hold at least 1 network", model, {"checkpoints": []}),
        (SettingError, "one training run; got 2 models", [model] * 2, {"checkpoints": [model]}),
        (SettingError, "one training run; got 2 models", [model] * 2, {"method": "tracin"}),
        (SettingError, r"must be networks, state dicts, .*; got 3", model, {"checkpoints": 3}),
        (SettingError, "a network, or a list with one first", "weights.safetensors", {}),
        (ModelError, r"no-such\.pt must be", model, {"checkpoints": tmp_path / "no-such.pt"}),
        (ModelError, "must hold every tensor", model, {"checkpoints": other.state_dict()}),
        (ModelError, "holds more than tensors", model, {"checkpoints": [full]}),
        (ModelError, "meta", empty, {}),
        (ModelError, "on the meta device", model, {"checkpoints": empty.state_dict()}),
    ):
        with pytest.raises(error, match=message):
            run(models, **settings)
    full.unlink()
    with pytest.raises(ModelError, match=r"must hold model\.safetensors or adapter_model"):
        run(model, checkpoints=tmp_path)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="needs a model that has one; got a Sequential"):
        run(model, checkpoints=tmp_path)
