"""collect: from a network and samples to arrays, with every target kind and every refusal."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from datassay.collect.collection import collect, plan_collection
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.data.corrupt.label_noise import add_label_noise
from datassay.data.load import load
from datassay.errors import DataError, ModelError
from datassay.models.build import build_model
from datassay.score.label_issues import label_issues
from datassay.score.leave_one_out import leave_one_out
from datassay.train.recipe import Recipe
from datassay.train.training import train_networks
from helpers.collecting import classes, network, regression
from helpers.jacobians import oracle
from helpers.linearizations import random_linearization
from helpers.made_of import MadeOf


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
    ours = joint.average_outputs()
    direct = collect(model, train, val, outputs="averaged")
    torch.testing.assert_close(ours.kernel, direct.kernel, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.val_kernel, direct.val_kernel, rtol=1e-12, atol=1e-12)
    assert ours.features is None and ours.rows_per_sample == 1 and ours.form.n_rows == n
    assert direct.average_outputs() is direct
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


@pytest.mark.parametrize("dual", [True, False])
def test_rows_that_are_held_out_take_all_of_theirs_along(dual):
    lin = random_linearization(12, 3, 1, 50, 4, 0, dual=dual)
    stay, held = np.array([7, 2, 9, 0]), np.array([11, 1, 5])
    part = lin.held_out(stay, held)
    rows, held_rows = ((3 * idx[:, None] + np.arange(3)).ravel() for idx in (stay, held))
    for name, idx in (("outputs", held), ("targets", held)):
        torch.testing.assert_close(getattr(part, f"val_{name}"), getattr(lin, name)[idx])
        torch.testing.assert_close(getattr(part, name), getattr(lin, name)[stay])
    if dual:
        torch.testing.assert_close(part.kernel, lin.kernel[rows][:, rows])
        torch.testing.assert_close(part.val_kernel, lin.kernel[held_rows][:, rows])
    else:
        torch.testing.assert_close(part.features, lin.features[rows])
        torch.testing.assert_close(part.val_features, lin.features[held_rows])
    np.testing.assert_array_equal(part.ids, lin.ids[stay])


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


def test_scores_of_float32_jacobians_have_the_same_ranks():
    train, val = (part.subset(np.arange(60)) for part in load("digits"))
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.Tanh(), nn.Conv2d(6, 8, 3), nn.Tanh(), nn.Flatten(),
        nn.Linear(8 * 4 * 4, 10),
    )  # fmt: skip
    results = {}
    for precision in ("float64", "float32"):
        lin = collect(model, train, val, precision=precision)
        assert lin.form.precision == precision and lin.kernel.dtype == torch.float64
        results[precision] = leave_one_out(lin).prediction_change, label_issues(lin).score
    for exact, quick in zip(*results.values(), strict=True):
        assert spearmanr(exact, quick)[0] > 0.999


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
    for seed in range(2):
        lin = collect(build_model(model, train, seed=seed), train, val, projection=5)
        assert lin.warnings == ()


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_targets(dtype):
    """Labels of any integer type, one-hot; {0, 1} of one output; those of a regression."""
    train, typed = classes(), replace(classes(), y=classes().y.astype(dtype))
    assert torch.equal(collect(network(), typed).targets, collect(network(), train).targets)
    assert collect(network(1), classes(k=2)).targets.tolist() == [[0.0], [1.0]] * 6
    assert collect(network(2), classes(k=2)).targets.shape == (12, 2)
    for columns in (None, 1, 3):
        train = regression(columns=columns)
        lin = collect(network(columns or 1), train)
        assert lin.targets.numpy().tolist() == train.y.reshape(12, -1).tolist()
        assert lin.labels is None and lin.class_names == ()


def test_the_plan_progress_and_what_there_is_without_validation(caplog):
    seen, sets = [], (classes(), classes(4, seed=1))
    lin = collect(network(), *sets, projection=5, progress=lambda *step: seen.append(step))
    assert seen == [("collect Jacobians", 12, 16), ("collect Jacobians", 16, 16)]
    assert plan_collection(network(), *sets, projection=5) == lin.form
    alone = collect(network(), sets[0], memory=1e3)
    assert alone.val_outputs is None and alone.val_kernel is None and alone.val_features is None
    assert alone.average_outputs().val_kernel is None
    assert alone.subset(np.array([1, 2])).val_kernel is None
    assert any("are free; set a smaller projection" in warning for warning in alone.warnings)
    assert "are free" in caplog.text


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_network_that_works_in_place_leaves_the_samples_alone(dtype):
    train = replace(classes(), x=classes().x.astype(dtype))
    before = train.x.copy()
    collect(MadeOf(lambda net, x: net.layer(x.mul_(2)), layer=nn.Linear(5, 3)), train)
    assert np.array_equal(train.x, before)


NO_SETS = {
    "one sample": (classes(1), None, "train must hold at least 2 samples; got 1"),
    "one class": (
        classes().subset(np.array([0, 3, 6])), None, "at least 2 classes; every label is 'a'"
    ),
    "shapes": (classes(), classes(shape=(6,)), r"inputs of one shape; got \[5\] and \[6\]"),
    "no validation": (classes(), classes().subset(np.arange(0)), "val must hold at least 1 sample"),
    "classes": (classes(), classes(k=2), "same classes; got a, b, c and a, b. Load"),
    "task": (classes(), regression(), r"same classes; got a, b, c and none \(regression\)"),
}  # fmt: skip
NO_OUTPUTS = [
    (4, classes(), "must have 3 outputs, one per class; got 4. Change its last layer"),
    (1, classes(), "must have 3 outputs, one per class; got 1"),
    (3, classes(k=2), r"must have 2 outputs, one per class \(or 1 for two classes\); got 3"),
    (2, regression(), "must have 1 output, one a target; got 2"),
    (1, regression(columns=2), "must have 2 outputs, one a target; got 1"),
]


@pytest.mark.parametrize(
    ("k", "train", "val", "message"),
    [(3, *case) for case in NO_SETS.values()] + [(k, t, None, m) for k, t, m in NO_OUTPUTS],
)
def test_what_does_not_fit_is_refused_before_any_work(k, train, val, message):
    steps = []
    with pytest.raises((DataError, ModelError), match=message):
        collect(network(k), train, val, progress=lambda *step: steps.append(step))
    with pytest.raises((DataError, ModelError), match=message):
        plan_collection(network(k), train, val)
    assert not steps


def test_what_is_not_finite_is_named():
    def root(net, x):
        return net.layer(x) * torch.sqrt(x[:, :1] + 3)

    train, val = classes(), classes(5, seed=1, first=50)
    train.x[[4, 9], 0] = -7
    with pytest.raises(ModelError, match=r"finite; samples s4, s9 give NaN or infinity. Check"):
        collect(MadeOf(root, layer=nn.Linear(5, 3)), train, val)
    train.x[[4, 9], 0] = 0
    val.x[2, 0] = -7
    with pytest.raises(ModelError, match=r"finite; sample s52 gives NaN"):
        collect(MadeOf(root, layer=nn.Linear(5, 3)), train, val)

    def slope(net, x):  # √ at 0 has a finite output and an infinite slope
        return net.layer(x) + torch.sqrt(net.layer.bias[0] * x[:, :1].clamp_min(0))

    train.x[:, 0] = 1
    train.x[5, 0] = -7
    model = MadeOf(slope, layer=nn.Linear(5, 3))
    nn.init.ones_(model.layer.bias)
    with pytest.raises(ModelError, match=r"derivatives must be finite; sample s5 gives NaN or inf"):
        collect(model, train)
