"""collect: from a network and samples to arrays, with every target kind and every refusal."""

import sys

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from datassay.collect.collection import collect, plan_collection
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.data.corrupt.label_noise import add_label_noise
from datassay.data.load import load
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError, SettingError
from datassay.models.build import build_model
from datassay.score.label_issues import label_issues
from datassay.score.leave_one_out import leave_one_out
from datassay.train.recipe import Recipe
from datassay.train.training import train_networks
from helpers.collecting import classes, network, regression
from helpers.jacobians import oracle


def explicit(model, samples):
    outputs, blocks = oracle(frozen_copy(model, torch.float64), torch.tensor(samples.x))
    return outputs, torch.cat(list(blocks.values()), 2)


def test_joint_kernel():
    model, train, val = network(), classes(), classes(5, seed=1, first=50)
    lin = collect(model, train, val)
    (f0, phi), (val_f0, val_phi) = explicit(model, train), explicit(model, val)
    rows, val_rows = phi.flatten(0, 1), val_phi.flatten(0, 1)
    torch.testing.assert_close(lin.outputs, f0, rtol=0, atol=1e-12)
    torch.testing.assert_close(lin.val_outputs, val_f0, rtol=0, atol=1e-12)
    torch.testing.assert_close(lin.kernel, rows @ rows.T, rtol=0, atol=1e-11)
    torch.testing.assert_close(lin.val_kernel, val_rows @ rows.T, rtol=0, atol=1e-11)
    assert lin.features is None and lin.val_features is None and lin.warnings == ()
    assert list(lin.ids) == list(train.ids) and lin.rows_per_sample == 3
    assert lin.form.outputs == "joint" and lin.form.precision == "float64"


def test_exact_features():
    model, train, val = network(), classes(60), classes(5, seed=1)
    lin = collect(model, train, val, outputs="joint")
    phi, val_phi = explicit(model, train)[1].flatten(0, 1), explicit(model, val)[1].flatten(0, 1)
    assert lin.kernel is None and lin.features.shape == phi.shape
    torch.testing.assert_close(lin.features @ lin.features.T, phi @ phi.T, rtol=0, atol=1e-11)
    cross = lin.val_features @ lin.features.T
    torch.testing.assert_close(cross, val_phi @ phi.T, rtol=0, atol=1e-11)


@pytest.mark.parametrize("n", [12, 60], ids=["from a kernel", "from features"])
def test_averaged(n):
    model, train, val = network(), classes(n), classes(5, seed=1)
    joint = collect(model, train, val, outputs="joint")
    assert (joint.kernel is None) == (n == 60)
    ours = joint.averaged()
    direct = collect(model, train, val, outputs="averaged")
    torch.testing.assert_close(ours.kernel, direct.kernel, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.val_kernel, direct.val_kernel, rtol=1e-12, atol=1e-12)
    assert ours.features is None and ours.rows_per_sample == 1 and ours.form.n_rows == n
    assert direct.averaged() is direct
    assert ours.residual.shape == (n, 1, 3) and joint.residual.shape == (n, 3, 1)


@pytest.mark.parametrize("settings", [{}, {"projection": 4}, {"outputs": "averaged"}])
def test_subset(settings):
    model, train, val = network(), classes(30), classes(5, seed=1)
    keep = np.array([7, 2, 19])
    ours = collect(model, train, val, **settings).subset(keep)
    exact = {"projection": None} | settings
    direct = collect(model, train.subset(keep), val, **exact)
    assert list(ours.ids) == ["s7", "s2", "s19"] and list(ours.labels) == [1, 2, 1]
    torch.testing.assert_close(ours.targets, direct.targets)
    torch.testing.assert_close(kernel_of(ours), kernel_of(direct), rtol=0, atol=1e-11)
    torch.testing.assert_close(val_kernel_of(ours), val_kernel_of(direct), rtol=0, atol=1e-11)


def kernel_of(lin):
    return lin.features @ lin.features.T if lin.kernel is None else lin.kernel


def val_kernel_of(lin):
    return lin.val_features @ lin.features.T if lin.val_kernel is None else lin.val_kernel


def test_projection_gives_the_same_from_both_forms():
    """Few rows make a kernel, many make features, of one and the same draw."""
    model, train = network(), classes(30)
    features = collect(model, train, projection=9, seed=4)
    kernel = collect(model, train.subset(np.arange(4)), projection=9, seed=4)
    assert features.kernel is None and kernel.features is None
    expected = features.features[:12] @ features.features[:12].T
    torch.testing.assert_close(kernel.kernel, expected, rtol=1e-12, atol=1e-12)
    other = collect(model, train, projection=9, seed=5)
    assert not torch.allclose(other.features, features.features)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_labels_of_any_integer_type(dtype):
    train = classes()
    typed = SampleSet(
        x=train.x, y=train.y.astype(dtype), ids=train.ids, class_names=("a", "b", "c")
    )
    assert torch.equal(collect(network(), typed).targets, collect(network(), train).targets)


def test_two_classes_with_one_output_are_0_and_1():
    lin = collect(network(1), classes(k=2))
    assert lin.targets.flatten().tolist() == [0.0, 1.0] * 6 and lin.targets.shape == (12, 1)
    assert collect(network(2), classes(k=2)).targets.shape == (12, 2)


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_regression_targets_are_kept(columns):
    train = regression(columns=columns)
    lin = collect(network(columns or 1), train)
    assert lin.targets.numpy().tolist() == train.y.reshape(12, -1).tolist()
    assert lin.labels is None and lin.class_names == ()


def test_without_validation():
    lin = collect(network(), classes())
    assert lin.val_outputs is None and lin.val_kernel is None and lin.val_features is None
    assert lin.averaged().val_kernel is None
    assert lin.subset(np.array([1, 2])).val_kernel is None


def test_sample_order_does_not_matter():
    train, order = classes(20), np.random.default_rng(3).permutation(20)
    a = collect(network(), train, outputs="averaged")
    b = collect(network(), train.subset(order), outputs="averaged")
    torch.testing.assert_close(b.kernel, a.kernel[order][:, order], rtol=1e-13, atol=1e-13)


def test_chunks_do_not_matter(monkeypatch):
    train, val = classes(20), classes(7, seed=1)
    whole = collect(network(), train, val)
    monkeypatch.setattr(sys.modules["datassay.collect.choose_form"], "WORKING_BYTES", 2**13)
    pieces = collect(network(), train, val)
    assert pieces.form.chunk < 7 < whole.form.chunk
    torch.testing.assert_close(pieces.kernel, whole.kernel, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(pieces.val_kernel, whole.val_kernel, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(pieces.outputs, whole.outputs, rtol=1e-12, atol=1e-14)


def test_float32_is_reported_and_close():
    double = collect(network(), classes(), projection=6)
    single = collect(network(), classes(), projection=6, precision="float32")
    assert double.form.precision == "float64" and single.form.precision == "float32"
    assert "float32 Jacobians" in single.form.summary
    assert kernel_of(single).dtype in {torch.float32, torch.float64}
    torch.testing.assert_close(kernel_of(single).double(), kernel_of(double), rtol=1e-4, atol=1e-5)


def test_scores_of_float32_jacobians_have_the_same_ranks():
    train, val = (part.subset(np.arange(60)) for part in load("digits"))
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.Tanh(), nn.Conv2d(6, 8, 3), nn.Tanh(), nn.Flatten(),
        nn.Linear(8 * 4 * 4, 10),
    )  # fmt: skip
    found = {}
    for precision in ("float64", "float32"):
        lin = collect(model, train, val, precision=precision)
        assert lin.form.precision == precision and lin.kernel.dtype == torch.float64
        found[precision] = leave_one_out(lin).prediction_change, label_issues(lin).score
    for exact, quick in zip(*found.values(), strict=True):
        assert spearmanr(exact, quick)[0] > 0.999


def test_a_store_of_another_precision_is_told(tmp_path):
    path = tmp_path / "kept"
    collect(network(), classes(), precision="float64", store=path)
    assert collect(network(), classes(), store=path).form.precision == "float64"
    with pytest.raises(SettingError, match="precision"):
        collect(network(), classes(), precision="float32", store=path)


def test_the_plan_is_what_collect_does():
    train, val = classes(), classes(4, seed=1)
    assert (
        plan_collection(network(), train, val, projection=5)
        == collect(network(), train, val, projection=5).form
    )


def test_progress_counts_all_samples():
    seen = []
    collect(network(), classes(), classes(4, seed=1), progress=lambda *step: seen.append(step))
    assert seen == [("collect Jacobians", 12, 16), ("collect Jacobians", 16, 16)]


def test_a_network_that_works_in_place_leaves_the_samples_alone():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x):
            return self.layer(x.mul_(2))

    for dtype in (np.float32, np.float64):
        train = classes()
        train = SampleSet(train.x.astype(dtype), train.y, train.ids, train.class_names)
        before = train.x.copy()
        collect(InPlace(), train)
        assert np.array_equal(train.x, before)


def test_the_network_is_left_untouched():
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 3)).train()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    collect(model, classes())
    assert all(torch.equal(before[n], t) for n, t in model.state_dict().items())
    assert all(m.training for m in model.modules())


def test_memory_warning(caplog):
    lin = collect(network(), classes(), memory=1e3)
    assert any("are free; set a smaller projection" in warning for warning in lin.warnings)
    assert "are free" in caplog.text


BAD_SETS = {
    "one sample": (classes(1), None, "train must hold at least 2 samples; got 1"),
    "one class": (
        classes().subset(np.array([0, 3, 6])),
        None,
        "train must hold at least 2 classes; every label is 'a'",
    ),
    "shapes": (classes(), classes(shape=(6,)), r"inputs of one shape; got \[5\] and \[6\]"),
    "no validation": (classes(), classes().subset(np.arange(0)), "val must hold at least 1 sample"),
    "classes": (classes(), classes(k=2), "same classes; got a, b, c and a, b. Load"),
    "task": (classes(), regression(), r"same classes; got a, b, c and none \(regression\)"),
}


@pytest.mark.parametrize("case", BAD_SETS)
def test_bad_sets(case):
    train, val, message = BAD_SETS[case]
    with pytest.raises(DataError, match=message):
        collect(network(), train, val)
    with pytest.raises(DataError, match=message):
        plan_collection(network(), train, val)


@pytest.mark.parametrize(
    ("k", "train", "message"),
    [
        (4, classes(), "must have 3 outputs, one a class; got 4. Change its last layer"),
        (1, classes(), "must have 3 outputs, one a class; got 1"),
        (3, classes(k=2), r"must have 2 outputs, one a class \(or 1 for two classes\); got 3"),
        (2, regression(), "must have 1 output, one a target; got 2"),
        (1, regression(columns=2), "must have 2 outputs, one a target; got 1"),
    ],
)
def test_wrong_output_count_is_refused_before_any_work(k, train, message):
    steps = []
    with pytest.raises(ModelError, match=message):
        collect(network(k), train, progress=lambda *step: steps.append(step))
    assert not steps
    with pytest.raises(ModelError, match=message):
        plan_collection(network(k), train, None)


def test_outputs_that_are_not_finite_are_named():
    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x):
            return self.layer(x) * torch.sqrt(x[:, :1] + 3)

    train, val = classes(), classes(5, seed=1, first=50)
    train.x[[4, 9], 0] = -7
    with pytest.raises(ModelError, match=r"finite; samples s4, s9 give NaN or infinity. Check"):
        collect(Root(), train, val)
    train.x[[4, 9], 0] = 0
    val.x[2, 0] = -7
    with pytest.raises(ModelError, match=r"finite; sample s52 gives NaN"):
        collect(Root(), train, val)


def test_jacobians_that_are_not_finite_are_named():
    """√ at 0 has a finite output and an infinite slope."""

    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x):
            return self.layer(x) + torch.sqrt(self.layer.bias[0] * x[:, :1].clamp_min(0))

    train = classes()
    train.x[:, 0] = 1
    train.x[5, 0] = -7
    model = Root()
    nn.init.ones_(model.layer.bias)
    with pytest.raises(ModelError, match=r"derivatives must be finite; sample s5 gives NaN or inf"):
        collect(model, train)


def trained_on(samples, train_on, k, recipe, seed=0):
    """The network for `samples`, trained on `train_on`."""
    model = build_model("mlp:width=64", samples, seed=seed)
    subset = torch.arange(len(train_on))[None]
    state = train_networks([model], train_on, subset, recipe, seed=seed).state
    model.load_state_dict({name: t[0] for name, t in state.items()})
    return model


@pytest.fixture(scope="module")
def digits():
    return load("digits", seed=0)


RECIPES = {
    "cross-entropy": Recipe(steps=1500, lr=3e-3),
    "squared error": Recipe(steps=1500, lr=3e-3, loss="mse"),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_weights_trained_on_the_same_noisy_labels_are_refused(digits, recipe):
    train, val = digits
    train = add_label_noise(train.subset(np.arange(500)), 0.2, seed=0)
    model = trained_on(train, train, 10, RECIPES[recipe])
    message = "weights must not have seen these labels; .+ pass allow_trained=True .--allow-trained"
    with pytest.raises(ModelError, match=message):
        collect(model, train, val, outputs="averaged", projection=20)
    lin = collect(model, train, val, outputs="averaged", projection=20, allow_trained=True)
    assert len(lin.warnings) == 1 and "must not have seen these labels" in lin.warnings[0]


@pytest.mark.parametrize("recipe", RECIPES)
def test_weights_trained_on_other_data_only_warn(digits, recipe):
    train, val = digits
    here, elsewhere = train.subset(np.arange(500)), train.subset(np.arange(500, 1000))
    model = trained_on(here, elsewhere, 10, RECIPES[recipe])
    lin = collect(model, here, val, outputs="averaged", projection=20)
    assert len(lin.warnings) == 1 and "valid only if they were trained on other" in lin.warnings[0]
    alone = collect(model, here, outputs="averaged", projection=20)
    assert "valid only if they were trained on other" in alone.warnings[0]


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "wine", "iris", "diabetes"])
@pytest.mark.parametrize("model", ["mlp:width=64", "linear"])
def test_random_weights_give_no_warning(name, model):
    train, val = load(name, seed=0)
    train = train.subset(np.random.default_rng(0).permutation(len(train))[:300])
    for seed in range(4):
        lin = collect(build_model(model, train, seed=seed), train, val, projection=5)
        assert lin.warnings == ()
