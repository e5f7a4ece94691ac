"""Retraining without a sample: against a loop by hand, linear networks, and its store."""

import numpy as np
import pytest
import torch
from torch import nn

from datassay.collect.collection import collect
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError, SettingError
from datassay.models.networks import cnn, linear, mlp
from datassay.score.leave_one_out import leave_one_out
from datassay.train.retrain import retrain

RUN = {"lr": 0.05, "steps": 30}


THREE = SampleSet(np.eye(6, dtype=np.float32), np.arange(6) % 3, np.arange(6), ("a", "b", "c"))


def samples(n=12, k=2, seed=0, shape=(5,)):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, *shape)).astype(np.float32)
    return SampleSet(x=x, y=np.arange(n) % k, ids=np.arange(100, 100 + n), class_names=("a", "b"))


def network(seed=0, width=7):
    torch.manual_seed(seed)
    return mlp((5,), 1, width=width)


def by_hand(model, train, keep, lr, steps, penalty, loss="mse"):
    """w ← w − lr ∇(Σ ℓ over `keep` + penalty/2 ‖w − w₀‖²), float64: the sum-loss convention."""
    import copy

    model = copy.deepcopy(model).double()
    start = [p.detach().clone() for p in model.parameters()]
    x, y = torch.tensor(train.x[keep]).double(), torch.tensor(train.y[keep]).double()
    for _ in range(steps):
        out = model(x)[:, 0]
        if loss == "mse":
            total = 0.5 * (out - y).square().sum()
        else:
            total = nn.functional.binary_cross_entropy_with_logits(out, y, reduction="sum")
        pull = sum((p - s).square().sum() for p, s in zip(model.parameters(), start, strict=True))
        total = total + penalty / 2 * pull
        grads = torch.autograd.grad(total, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), grads, strict=True):
                p -= lr * g
    return model


@pytest.mark.parametrize("reduction", ["sum", "mean", "mean_same_penalty"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.02])
@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
def test_against_a_loop_by_hand(reduction, weight_decay, loss):
    """λ of the sum loss stays without a sample; a mean loss divides by n − 1, S1's but for λ."""
    train, val = samples(), samples(6, seed=1)
    lr = 0.01 if reduction == "sum" else 0.1
    run = {"lr": lr, "steps": 20, "weight_decay": weight_decay, "reduction": reduction}
    retrained = retrain(network(), train, val, loss=loss, precision="float64", **run)
    n = len(train)
    per, per_without = (1, 1) if reduction == "sum" else (n, n - 1)
    penalty = weight_decay * (per_without if reduction == "mean" else per)
    everything = np.arange(n)
    x_val = torch.tensor(val.x).double()
    reference = by_hand(network(), train, everything, lr / per, 20, weight_decay * per, loss)
    for i in (0, 5, 11):
        keep = np.delete(everything, i)
        without = by_hand(network(), train, keep, lr / per_without, 20, penalty, loss)
        with torch.no_grad():
            change = float((reference(x_val) - without(x_val)).square().sum())
            own = without(torch.tensor(train.x[i : i + 1]).double())
            pairs = zip(reference.parameters(), without.parameters(), strict=True)
            weights = sum(float((a - b).square().sum()) for a, b in pairs)
        assert retrained.prediction_change[i] == pytest.approx(change, rel=1e-7)
        assert retrained.weight_change[i] == pytest.approx(weights, rel=1e-7)
        np.testing.assert_allclose(retrained.held_out[i], own[0].numpy(), rtol=1e-9)


@pytest.mark.parametrize("reduction", ["sum", "mean", "mean_same_penalty"])
def test_a_linear_network_is_its_own_linearisation(reduction):
    """The same settings describe the same run in `leave_one_out`."""
    train, val = samples(), samples(6, seed=1)
    torch.manual_seed(0)
    model = linear((5,), 1)
    run = {"lr": 0.01, "steps": 50, "weight_decay": 0.01, "reduction": reduction}
    truth = retrain(model, train, val, loss="mse", **run, precision="float64")
    exact = leave_one_out(collect(model, train, val), **run, dynamics="descent")
    np.testing.assert_allclose(truth.prediction_change, exact.prediction_change, rtol=1e-6)
    np.testing.assert_allclose(truth.weight_change, exact.weight_change, rtol=1e-6)
    np.testing.assert_allclose(truth.held_out, exact.held_out, rtol=1e-6)


def test_subset_order_and_training_inputs_as_queries():
    train = samples()
    every = retrain(network(), train, **RUN)
    some = retrain(network(), train, removed=[7, 2], **RUN)
    assert every.on_training_inputs and every.outputs.shape == (12, 1)
    assert some.ids.tolist() == [107, 102]
    np.testing.assert_allclose(some.prediction_change, every.prediction_change[[7, 2]], rtol=1e-3)
    names = ["id", "prediction_change", "weight_change", "held_out"]
    assert some.to_table().column_names == names


def test_convolutions_train_one_by_one_and_agree():
    train = samples(6, shape=(20, 20))
    torch.manual_seed(0)
    model = cnn((20, 20), 1)
    updates, run = [], {"lr": 0.01, "steps": 2}
    one = retrain(model, train, removed=[3], **run)
    two = retrain(
        model, train, removed=[1, 3], **run, progress=lambda *index: updates.append(index[1:])
    )
    np.testing.assert_array_equal(one.prediction_change, two.prediction_change[1:])
    assert updates[-1] == (6, 6) and len(updates) == 6


def test_the_store_goes_on_where_it_stopped(tmp_path):
    train, store = samples(), tmp_path / "s"
    full = retrain(network(), train, removed=[1, 2, 3], **RUN)
    reported = []

    def stop(step, done, total):
        reported.append(total)
        if done > 35:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retrain(network(), train, removed=[1], **RUN, store=store, progress=stop)
    assert reported[0] == 60
    run = {**RUN, "store": store, "progress": lambda step, done, total: reported.append(total)}
    reported.clear()
    again = retrain(network(), train, removed=[1, 2, 3], **run)
    assert reported[0] == 90  # the network on all samples is not trained again
    np.testing.assert_array_equal(again.prediction_change, full.prediction_change)
    reported.clear()
    retrain(network(), train, removed=[3, 1], **run)
    assert not reported


def test_damage_is_told_and_computed_again(tmp_path, caplog):
    train, store = samples(), tmp_path / "s"
    before = retrain(network(), train, removed=[4, 5], **RUN, store=store)
    piece = store / "without-4.npz"
    data = bytearray(piece.read_bytes())
    data[len(data) // 2] ^= 255
    piece.write_bytes(data)
    (store / "without-5.npz").write_bytes(b"")
    after = retrain(network(), train, removed=[4, 5], **RUN, store=store)
    np.testing.assert_array_equal(after.outputs_without, before.outputs_without)
    assert sum("is damaged" in r.message for r in caplog.records) == 2


def test_a_store_of_something_else_is_refused(tmp_path):
    train, store = samples(), tmp_path / "s"
    retrain(network(), train, removed=[0], **RUN, store=store)
    frozen = network()
    frozen[1].requires_grad_(False)
    for given, what in (
        ({"lr": 0.06}, "lr"),
        ({"model": network(1)}, "weights"),
        ({"train": samples(seed=3)}, "training samples"),
        ({"model": frozen}, "frozen tensors"),
    ):
        with pytest.raises(SettingError, match=f"differs in: {what}"):
            retrain(
                **{"model": network(), "train": train, "removed": [0], **RUN, **given}, store=store
            )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(SettingError, match=r"holds letter.txt but no run\.json"):
        retrain(network(), train, removed=[0], **RUN, store=tmp_path / "mine")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"removed": [12]}, SettingError, r"removed must hold positions in 0\.\.11; got 12"),
        ({"removed": []}, SettingError, "got none"),
        (
            {"reduction": "median"},
            SettingError,
            "reduction must be one of sum, mean, mean_same_penalty; got 'median'",
        ),
        ({"steps": 0}, SettingError, "steps must be positive"),
        ({"weight_decay": -1.0}, SettingError, "weight_decay must be at least 0"),
        ({"precision": "float16"}, SettingError, "precision must be 'float32' or 'float64'"),
        ({"model": network().requires_grad_(False)}, ModelError, "parameter; every one is frozen"),
        ({"val": samples(shape=(4,))}, DataError, "must have inputs of one shape"),
        # One output beside three classes would be broadcast against them in silence.
        *(
            (
                {"train": THREE, "model": nn.Linear(6, k), "loss": loss},
                ModelError,
                f"must have 3 outputs, one per class; got {k}",
            )
            for loss in ("mse", "cross_entropy")
            for k in (1, 2, 4)
        ),
    ],
)
def test_refusals(given, error, message):
    with pytest.raises(error, match=message):
        retrain(**{"model": network(), "train": samples(), **RUN, **given})


def test_frozen_weights_stay():
    """With its first layer frozen the network is linear in what trains, so both runs are one."""
    train, val = samples(16), samples(6, seed=1)
    model = network(width=9).double()
    model[1].requires_grad_(False)
    retrained = retrain(model, train, val, loss="mse", precision="float64", **RUN)
    lin = collect(model, train, val, projection=None)
    loo = leave_one_out(lin, reduction="mean", dynamics="descent", **RUN)
    np.testing.assert_allclose(retrained.prediction_change, loo.prediction_change, rtol=1e-6)
    np.testing.assert_allclose(retrained.weight_change, loo.weight_change, rtol=1e-6)
