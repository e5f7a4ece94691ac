"""The differentiated training run against autograd through the run, and against retraining."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.score.influence.whole.unrolled import unrolled
from datassay.train.retrain import retrain

RUN = {"lr": 0.3, "steps": 25}


def samples(n, k=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    y = (x @ rng.normal(size=(4, k))).argmax(1)
    return SampleSet(x=x, y=y, ids=np.arange(50, 50 + n), class_names=tuple("abc"[: max(k, 2)]))


def network(k=3, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, k))


def through_autograd(model, train, val, i, lr, steps, weight_decay, loss):
    """d f(x_val)/dε of a run on (Σ ℓ − ε ℓ_i + nλ/2 ‖w − w₀‖²)/(n − ε), at ε = 0."""
    model = model.double()
    start = {n: p.detach() for n, p in model.named_parameters()}
    x, y = torch.tensor(train.x).double(), torch.tensor(train.y)
    n = len(x)

    def trained(eps):
        weight = torch.ones(n, dtype=torch.float64) - eps * torch.eye(n).double()[i]
        w = {name: p.clone().requires_grad_() for name, p in start.items()}
        for _ in range(steps):
            f = functional_call(model, w, (x,))
            if loss == "mse":
                each = 0.5 * (f - torch.eye(f.shape[1]).double()[y]).square().sum(1)
            else:
                each = nn.functional.cross_entropy(f, y, reduction="none")
            pull = sum((w[k] - start[k]).square().sum() for k in w)
            total = ((weight * each).sum() + n * weight_decay / 2 * pull) / (n - eps)
            grads = torch.autograd.grad(total, list(w.values()), create_graph=True)
            w = {k: p - lr * g for (k, p), g in zip(w.items(), grads, strict=True)}
        return functional_call(model, w, (torch.tensor(val.x).double(),))

    return torch.autograd.functional.jacobian(trained, torch.zeros(()).double())


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_against_autograd_through_the_run(loss, weight_decay):
    train, val = samples(9), samples(4, seed=1)
    run = {**RUN, "weight_decay": weight_decay, "loss": loss}
    effects = unrolled(
        network(), train, val, measure="loss", removed=[2, 7], precision="float64", **run
    )
    for place, i in enumerate((2, 7)):
        slope = through_autograd(network(), train, val, i, **run)  # of f₋ᵢ by ε: minus ours
        assert effects.prediction_change[place] == pytest.approx(
            float(slope.square().sum()), rel=1e-9
        )
    assert effects.ids.tolist() == [52, 57]


def test_it_tends_to_retraining():
    """The relative error of the predictions falls with n: what is left is second order."""
    errors = {}
    for n in (20, 160):
        train, val = samples(n), samples(30, seed=1)
        some = list(range(8))
        truth = retrain(
            network(), train, val, loss="cross_entropy", removed=some, precision="float64", **RUN
        )
        effects = unrolled(network(), train, val, removed=some, precision="float64", **RUN)
        gap = np.abs(effects.prediction_change - truth.prediction_change)
        errors[n] = gap.sum() / truth.prediction_change.sum()
    assert errors[20] < 0.6
    assert errors[160] < errors[20] / 4


def test_every_sample_by_default_in_any_precision():
    train = samples(12)
    reported = []
    one = unrolled(network(), train, **RUN, progress=lambda *call: reported.append(call))
    two = unrolled(network(), train, **RUN, precision="float64")
    assert one.effect.shape == (12, 12)
    np.testing.assert_allclose(one.effect, two.effect, rtol=1e-2, atol=1e-5)
    assert reported[-1][1:] == (25, 25)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 0.0}, "lr must be positive"),
        ({"steps": 0}, "steps at least 1"),
        ({"removed": [40]}, r"removed must hold positions in 0\.\.8; got 40"),
        ({"loss": "hinge"}, "loss must be cross_entropy or mse"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(SettingError, match=message):
        unrolled(network(), samples(9), **{**RUN, **settings})


def test_a_run_that_blows_up_is_refused():
    with pytest.raises(SettingError, match="lr must be low enough"):
        unrolled(network(), samples(9), loss="mse", lr=50.0, steps=200)
