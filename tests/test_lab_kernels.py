"""From kernels to networks, and what gradient descent learns first."""

import numpy as np
import pytest
import torch

from datassay.errors import SettingError
from datassay.lab.eigenmodes import eigenmodes, eigenmodes_plots
from datassay.lab.lazy_training import lazy_training, lazy_training_plots
from datassay.lab.linearized_training import linearized_training, linearized_training_plots
from datassay.lab.ntk_width import ntk_width, ntk_width_plots
from datassay.lab.wide_network import (
    limit_kernels,
    sphere_samples,
    spread_steps,
    tangent_kernel,
    train_watched,
    wide_network,
)

FAST = {
    ntk_width: {"n_samples": 12, "widths": (64, 512, 4096), "repeats": 4},
    lazy_training: {"n_samples": 16, "widths": (64, 512), "steps": 400, "repeats": 3},
    linearized_training: {"widths": (128, 512, 2048), "steps": 100, "repeats": 4},
    eigenmodes: {"n_samples": 16, "width": 4096, "steps": 600, "repeats": 1},
}
PLOTS = {
    ntk_width: ntk_width_plots,
    lazy_training: lazy_training_plots,
    linearized_training: linearized_training_plots,
    eigenmodes: eigenmodes_plots,
}


def same(first, second):
    return all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in first.__slots__
    )


@pytest.mark.parametrize("run", FAST, ids=lambda run: run.__name__)
def test_the_statement_holds_and_is_the_same_again(run):
    found = run(**FAST[run], seed=2)
    assert found.agreement.holds, found.agreement
    assert same(found, run(**FAST[run], seed=2))


@pytest.mark.parametrize("run", PLOTS, ids=lambda run: run.__name__)
def test_every_figure_draws_theory_dashed(run):
    plots = PLOTS[run](run(**FAST[run]))
    assert plots
    for plot in plots:
        dashes = {trace.line.dash for trace in plot.figure.data}
        assert "dash" in dashes
        assert len(dashes) > 1 or plot.figure.data[0].mode == "markers"
        assert plot.figure.layout.xaxis.title.text


@pytest.mark.parametrize(
    ("run", "wrong"),
    [
        (ntk_width, {"output_weights": "cauchy"}),
        (lazy_training, {"scaling": "mean field"}),
        (linearized_training, {"scaling": "mean field"}),
        (eigenmodes, {"width": 32}),
    ],
)
def test_it_would_notice_where_the_statement_is_false(run, wrong):
    assert not run(**FAST[run] | wrong).agreement.holds


def test_limit_kernels_are_expectations_over_the_weights():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4))
    w, v = rng.normal(size=(2_000_000, 4)), rng.normal(size=(2_000_000, 1))
    units, on = np.maximum(w @ x.T, 0), w @ x.T > 0
    limit = limit_kernels(x, x)
    for i, j in ((0, 0), (0, 1), (1, 2)):
        each = units[:, i] * units[:, j]
        both = each + (v[:, 0] ** 2) * on[:, i] * on[:, j] * (x[i] @ x[j])
        np.testing.assert_allclose(each.mean(), limit.outputs[i, j], rtol=0.02)
        np.testing.assert_allclose(both.mean(), limit.tangent[i, j], rtol=0.02, atol=0.01)
        np.testing.assert_allclose(both.var(), limit.variance[i, j], rtol=0.05)


@pytest.mark.parametrize(("scaling", "power"), [("ntk", -0.5), ("mean field", -1.0)])
def test_the_factor_before_the_sum_may_stand_before_the_first_layer(scaling, power):
    model = wide_network(3, 20, 0, scaling=scaling)
    x = np.random.default_rng(1).normal(size=(5, 3))
    w, v = (model[i].weight.detach().clone().requires_grad_() for i in (1, 3))
    outputs = 20**power * (torch.from_numpy(x) @ w.T).relu() @ v[0]
    rows = [torch.autograd.grad(f, (w, v), retain_graph=True) for f in outputs]
    jacobian = torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])
    kernel, start = tangent_kernel(model, x)
    np.testing.assert_allclose(start, outputs.detach(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(kernel, jacobian @ jacobian.T, rtol=1e-6, atol=1e-9)


def test_watched_training_is_plain_gradient_descent():
    x, y = sphere_samples(10, 4, np.random.default_rng(3))
    model = wide_network(4, 30, 5)
    looks = spread_steps(20, 5)
    run = train_watched(model, x, y, rate=0.05, looks=looks, n_train=8)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    for step in range(21):
        outputs = model(inputs)[:, 0]
        if step in looks:
            place = list(looks).index(step)
            np.testing.assert_allclose(run.outputs[place], outputs.detach(), rtol=1e-9)
        model.zero_grad()
        ((outputs - targets)[:8].square().sum() / 2).backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight -= 0.05 * weight.grad


def test_random_state_of_torch_is_left_alone():
    torch.manual_seed(4)
    before = torch.get_rng_state()
    ntk_width(**FAST[ntk_width])
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("run", "wrong", "said"),
    [
        (ntk_width, {"widths": (64,)}, "widths must be 2 or more increasing"),
        (ntk_width, {"n_inputs": 1}, "n_inputs must be a whole number >= 2; got 1"),
        (ntk_width, {"output_weights": "flat"}, "output_weights must be one of normal, cauchy"),
        (ntk_width, {"repeats": 0}, "repeats must"),
        (lazy_training, {"scaling": "mu"}, "scaling must be one of ntk, mean field; got 'mu'"),
        (lazy_training, {"steps": 0}, "steps must be a whole number >= 1; got 0"),
        (linearized_training, {"n_samples": 9}, "n_samples must be a whole number >= 10"),
        (linearized_training, {"widths": (8, 4)}, "widths must be 2 or more increasing"),
        (eigenmodes, {"width": 0}, "width must be a whole number >= 1; got 0"),
        (eigenmodes, {"steps": True}, "steps must be a whole number"),
    ],
)
def test_bad_settings_are_refused(run, wrong, said):
    with pytest.raises(SettingError, match=said):
        run(**wrong)
