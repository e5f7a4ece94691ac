"""Influence through training: against real training with other weights, by torch's optimisers."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

import datassay as da
from datassay.act import trained_network
from datassay.errors import ModelError, SettingError
from datassay.score import Optimizer, replay
from datassay.score.influence.replay.run import segments
from datassay.train import Recipe, train_networks

N, UPDATES, BATCH, H = 12, 14, 4, 1e-4
SCHEDULE = [0.1 * (1 - step / UPDATES) for step in range(UPDATES)]
ADAM = {"betas": (0.8, 0.95)}
OPTIMIZERS = {
    "sgd": ({"name": "sgd", "lr": 0.3}, torch.optim.SGD, {}),
    "schedule": ({"name": "sgd", "lr": SCHEDULE}, torch.optim.SGD, {}),
    "momentum": (
        {"name": "sgd", "lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        torch.optim.SGD,
        {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    ),
    "nesterov": (
        {"name": "sgd", "lr": 0.1, "momentum": 0.8, "nesterov": True},
        torch.optim.SGD,
        {"momentum": 0.8, "nesterov": True},
    ),
    "adam": ({"name": "adam", "lr": 0.02, "weight_decay": 0.1, **ADAM}, torch.optim.Adam,
             {"weight_decay": 0.1, **ADAM}),
    "adamw": ({"name": "adamw", "lr": SCHEDULE, "weight_decay": 0.2, **ADAM}, torch.optim.AdamW,
              {"weight_decay": 0.2, **ADAM}),
    "clipping": ({"name": "adam", "lr": 0.02, "clip": 0.2}, torch.optim.Adam, {}),
}  # fmt: skip


def problem():
    """A network with dropout, samples, queries, batches and the draws of each update."""
    generator = torch.Generator().manual_seed(0)
    x, u = (torch.randn(n, 3, generator=generator).double() for n in (N, 4))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Dropout(0.3), nn.Linear(5, 3)).double()
    batches = [torch.randperm(N, generator=generator)[:BATCH] for _ in range(UPDATES)]
    draws = [torch.Generator().manual_seed(step).get_state() for step in range(UPDATES)]
    return net, (x, torch.arange(N) % 3), (u, torch.arange(4) % 3), batches, draws


def trained(kind, weight):
    """The queries' losses after real training with these weights of the samples."""
    settings, optimizer, kept = OPTIMIZERS[kind]
    net, (x, y), (u, v), batches, draws = problem()
    rates = settings["lr"] if isinstance(settings["lr"], list) else [settings["lr"]] * UPDATES
    descent = optimizer(net.parameters(), lr=rates[0], **kept)
    with torch.random.fork_rng():
        for idx, state, rate in zip(batches, draws, rates, strict=True):
            torch.set_rng_state(state)
            descent.param_groups[0]["lr"] = rate
            descent.zero_grad()
            losses = nn.functional.cross_entropy(net(x[idx]), y[idx], reduction="none")
            (losses * weight[idx]).mean().backward()
            if settings.get("clip"):
                nn.utils.clip_grad_norm_(net.parameters(), settings["clip"])
            descent.step()
    net.eval()
    return net, nn.functional.cross_entropy(net(u), v, reduction="none").detach()


def replayed(kind, **settings):
    net, (x, y), (u, v), batches, draws = problem()

    def losses(weights, idx):
        outputs = functional_call(net.train(), weights, (x[idx],))
        return nn.functional.cross_entropy(outputs, y[idx], reduction="none")

    def measure(weights):
        outputs = functional_call(net.eval(), weights, (u,))
        return nn.functional.cross_entropy(outputs, v, reduction="none")

    start = {name: w.detach() for name, w in net.named_parameters()}
    optimizer = Optimizer(**OPTIMIZERS[kind][0] | settings.pop("optimizer", {}))
    settings = {"draws": draws, "check": False} | settings
    return replay(losses, start, batches, optimizer, measure, **settings)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_effects_are_derivatives_of_real_training(kind):
    ones = torch.ones(N, dtype=torch.float64)
    network, outcome = trained(kind, ones)
    answer = replayed(kind, trained=dict(network.named_parameters()))
    torch.testing.assert_close(answer.outcome, outcome)
    for i in (0, 7):
        shift = H * (torch.arange(N) == i)
        # Richardson's: two central differences, without the error of H².
        wide, narrow = (
            (trained(kind, ones + k * shift)[1] - trained(kind, ones - k * shift)[1]) / (2 * k * H)
            for k in (2, 1)
        )
        truth = (4 * narrow - wide) / 3
        torch.testing.assert_close(answer.effect[i], truth, rtol=1e-6, atol=1e-9)


def test_decay_towards_the_start_is_part_of_the_run():
    """Two updates by hand: w ← w − lr (g + λ (w − w₀)) of the loss a w."""
    start = {"w": torch.tensor([2.0], dtype=torch.float64)}
    answer = replay(
        lambda weights, idx: weights["w"].expand(len(idx)) ** 2 / 2,
        start,
        [torch.tensor([0]), torch.tensor([1])],
        Optimizer("sgd", 0.1, weight_decay=0.5, decay_towards="start"),
        lambda weights: weights["w"],
        check=False,
    )
    middle = 2 - 0.1 * 2
    end = middle - 0.1 * (middle + 0.5 * (middle - 2))
    np.testing.assert_allclose(answer.outcome, [end])
    by_hand = [-0.1 * 2 * (1 - 0.1 * 1.5), -0.1 * middle]
    np.testing.assert_allclose(answer.effect[:, 0], by_hand)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 57, 100, 1000])
def test_states_held_are_few(n):
    parts = segments(n)
    assert [step for part in parts for step in part] == list(range(n))
    held = [index + len(part) for index, part in enumerate(parts)]
    assert max(held) <= (2 * n) ** 0.5 + 1


def test_tiny_second_moments_are_softened_and_reported():
    """Of the loss 1e-9 w: Adam's step is lr g / (√(g² + 1e-10) + eps) there, the loop's unmoved."""
    start = {"w": torch.tensor([2.0], dtype=torch.float64)}
    settings = [start, [torch.tensor([0])], Optimizer("adam", 0.1), lambda weights: weights["w"]]
    answer = replay(lambda weights, idx: 1e-9 * weights["w"], *settings, check=False)
    np.testing.assert_allclose(answer.outcome, [2 - 0.1 / 11])
    np.testing.assert_allclose(answer.effect, [[-0.1 * 1e-9 / 1e-5]], rtol=2e-3)
    assert answer.softened == 1.0 and "eps_root" in answer.warnings[0]
    assert replayed("adam").softened == 0.0 and not replayed("adam").warnings


def test_a_smooth_run_is_answered_and_an_unsmooth_one_refused():
    """A sample's sign of large curvature: with a large step the run is chaos."""
    smooth = replayed("sgd", check=True, optimizer={"lr": 0.01})
    assert smooth.smoothness.is_smooth and smooth.smoothness.agreement > 0.95
    assert smooth.smoothness.prediction_error(smooth.effect) < 0.2
    with pytest.raises(SettingError, match="must be smooth in its samples' weights"):
        replayed("momentum", check=True, optimizer={"lr": 20.0})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": {"lr": [0.1, 0.2]}}, "one for each of the 14 updates; got 2 numbers"),
        ({"optimizer": {"name": "lion"}}, "optimizer must be one of sgd, adam, adamw"),
        ({"optimizer": {"weight_decay": {"bias": 1.0}}}, "name weights that train, such as '0.w"),
        ({"draws": []}, "draws must be one an update; got 0 of 14"),
        ({"optimizer": {"eps_root": 0.0}}, "eps_root must be finite and positive"),
        ({"optimizer": {"clip": -1.0}}, "clip must be positive; got -1"),
        ({"optimizer": {"momentum": -0.1}}, "momentum must be at least 0"),
        ({"optimizer": {"betas": (1.5, 0.9)}}, "betas must lie in"),
        ({"optimizer": {"nesterov": True}}, "nesterov must go with momentum of 'sgd' alone"),
        ({"optimizer": {"name": "adam", "momentum": 0.9}}, "momentum must go with 'sgd' alone"),
        ({"n_samples": 5}, "n_samples must be above the largest position; got 5"),
        ({"trained": {}}, "trained must hold the weights of start"),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        replayed("sgd", **settings)


def test_a_replay_that_ends_elsewhere_is_refused():
    network, _ = trained("sgd", torch.ones(N).double())
    with pytest.raises(SettingError, match="must end at the trained weights; it ends away"):
        replayed("sgd", trained=dict(network.named_parameters()), optimizer={"lr": 0.29})


def test_a_run_that_diverges_is_refused():
    start = {"w": torch.tensor([2.0])}
    with pytest.raises(ModelError, match="must stay finite; it diverges"):
        replay(
            lambda weights, idx: weights["w"].expand(len(idx)) ** 4, start,
            [torch.tensor([0])] * 20, Optimizer("sgd", 1e3), lambda weights: weights["w"],
        )  # fmt: skip


@pytest.mark.parametrize("given", [{"losses": 0}, {"measure": 0}])
def test_functions_of_other_shapes_are_refused(given):
    def number(weights, *_):
        return weights["w"].sum()

    def each(weights, idx=(0,)):
        return weights["w"].expand(len(idx))

    losses = number if "losses" in given else each
    measure = number if "measure" in given else each
    with pytest.raises(SettingError, match=f"{next(iter(given))} must give"):
        replay(losses, {"w": torch.ones(1)}, [torch.tensor([0])], Optimizer(), measure, check=False)


RECIPE = Recipe("adam", 1e-3, 20, 8)


def own_run(recipe=RECIPE, seed=3):
    train, val = da.load("iris")
    train, val = train.subset(np.arange(40) * 3), val.subset(np.arange(6))
    start = da.build_model("mlp:width=8", train).requires_grad_(True)
    everyone = torch.arange(len(train))[None]
    networks = train_networks([start], train, everyone, recipe, seed=seed)
    model = da.build_model("mlp:width=8", train)
    model.load_state_dict({name: w[0] for name, w in networks.state.items()})
    return model, start, train, val


def test_the_run_of_our_own_recipe():
    recipe = Recipe("adam", 1e-3, 20, 8, precision="float64", weight_decay=0.1)
    model, start, train, val = own_run(recipe)
    settings = {"method": "replay", "start": start, "recipe": recipe, "seed": 3, "measure": "loss"}
    answer = da.influence(model, train, val, **settings)
    assert answer.effect.shape == (40, 6) and answer.method.startswith(
        "replay of 20 updates by adam"
    )
    mean = da.influence(model, train, val, per_query=False, check=False, **settings)
    np.testing.assert_allclose(mean.effect[:, 0], answer.effect.mean(1), atol=1e-12)
    some = da.influence(model, train, val, removed=[3, 5], check=False, **settings)
    np.testing.assert_allclose(some.effect, answer.effect[[3, 5]])


def test_the_network_that_the_library_trains_by_default(monkeypatch):
    monkeypatch.setattr("datassay.train.recipe.FEWEST_UPDATES", 30)
    train, val = da.load("iris")
    train = train.subset(np.arange(30) * 4)
    start = da.build_model("mlp:width=4", train)
    network = trained_network(start, train, seed=1)
    answer = da.influence(
        network, train, val.subset(np.arange(2)), method="replay", start=start.state_dict(), seed=1,
        per_query=False, check=False,
    )  # fmt: skip
    assert answer.effect.shape == (30, 1) and np.isfinite(answer.effect).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs start=, the network"),
        ({"damping": 1.0}, "takes no damping"),
        ({"measure": lambda model, batch: batch}, "measure must be 'output', 'margin' or 'loss'"),
        ({"loss": nn.CrossEntropyLoss()}, "loss must be 'auto', 'cross_entropy' or 'mse'"),
        ({"seed": 4}, "must end at the trained weights"),
        ({"depth": 3}, "takes start, recipe, per_query, check; got depth"),
        ({"checkpoints": [{}]}, "without checkpoints"),
    ],
)
def test_what_the_method_refuses(settings, message):
    model, start, train, val = own_run()
    settings = {"start": start, "recipe": RECIPE, "seed": 3} | settings
    if message.startswith("needs start"):
        settings = {}
    with pytest.raises(SettingError, match=message):
        da.influence(model, train, val, method="replay", **settings)
