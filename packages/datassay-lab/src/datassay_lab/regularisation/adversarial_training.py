"""Adversarial training: robustness, its cost, and its closed form for a linear unit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from datassay.data import SampleSet, load
from datassay.models import linear, mlp, seeded
from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, positive, refuse_if, rising, whole
from datassay_lab.curves import COLOURS, Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import relative_error, track

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class AdversarialTraining:
    """Accuracy under attack of units and networks trained with and without attack."""

    trained: Float[np.ndarray, " t"]  # ε of the attack in training, pixel unit; the first is 0
    attacks: Float[np.ndarray, " a"]  # ε of the attack afterwards, the first is 0
    linear_accuracy: Float[np.ndarray, "t a"]  # of a linear unit on held-out digits
    linear_predicted: Float[np.ndarray, "t a"]  # share with y f(x) > ε ‖w‖₁
    network_accuracy: Float[np.ndarray, "t a"]  # of the network
    # relative distance of the unit's weights from those that minimise the closed form with as many
    # steps.
    weight_error: Float[np.ndarray, " t"]
    norms: Float[np.ndarray, " t"]  # ‖w‖₁ of the unit

    @property
    def agreement(self) -> Agreement:
        """The largest distance of the attacked unit's weights from the closed form's."""
        measure = "relative distance of the unit's weights from the closed form"
        return Agreement(measure, float(self.weight_error.max()), 1e-6)


@check_args
def adversarial_training(
    *,
    trained: Annotated[tuple[float, ...], rising(0)] = (0.0, 0.05, 0.1, 0.2),
    attacks: Annotated[tuple[float, ...], rising(0)] = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25),
    width: Annotated[int, whole()] = 64,
    steps: Annotated[int, whole()] = 800,
    learning_rate: Annotated[float, positive()] = 0.01,
    attack: Annotated[str, one_of(("sign", "gradient"))] = "sign",
    seed: int = 0,
    progress: Progress = silent,
) -> AdversarialTraining:
    """Train classifiers of even and odd digits on inputs that each step makes worse.

    x′ = x + ε sign(∂ℓ/∂x);   linear unit: ℓ(x′) = log(1 + exp(−y (wᵀx + b) + ε ‖w‖₁))

    Args:
        trained: ε in training, increasing from 0; pixels lie in [0, 1].
        attacks: ε afterwards, increasing from 0.
        width: hidden units of the network.
        steps: of Adam on the whole training set.
        learning_rate: of Adam.
        attack: "sign" (FGSM) or "gradient" (a step of the same length ε √d along the gradient),
            for which the closed form has another norm.
        seed: of split and starts.
        progress: called after each training ε.

    Returns:
        Accuracies under attack, and the linear unit's closed form.

    Cost: 2 · trainings · steps passes over 1438 digits, twice each; about ten seconds.
    Source: S2's contents, "Adversarial training" (no slide of it is there); Goodfellow, Shlens and
    Szegedy (2015), section 5. The attack is not clipped to [0, 1], unlike `add_adversarial`: the
    closed form is for free pixels. FGSM is one step, so robustness to stronger attacks is less.
    """
    refuse_if(
        trained[0] != 0 or attacks[0] != 0,
        f"trained and attacks must start at 0; got {trained!r}, {attacks!r}.",
    )
    train, held_out = (_even_or_odd(values) for values in load("digits", seed=seed))
    rows = []
    for size in track(trained, progress, "training"):
        unit, exact, network = _starts(train[0].shape[1], width, seed)
        attacked_loss = _attacked_loss(size, attack)
        _train(unit, train, attacked_loss, steps, learning_rate)
        _train(exact, train, _closed_form(size), steps, learning_rate)
        _train(network, train, attacked_loss, steps, learning_rate)
        margins = (held_out[1] * unit(held_out[0])[:, 0]).detach().numpy()
        norm = np.abs(_weights(unit)).sum()
        rows.append((
            _accuracies(unit, held_out, attacks, attack),
            [float((margins > size * norm).mean()) for size in attacks],
            _accuracies(network, held_out, attacks, attack),
            relative_error(_weights(unit), _weights(exact)),
            float(norm),
        ))
    columns = [np.array(values) for values in zip(*rows, strict=True)]
    return AdversarialTraining(np.array(trained, float), np.array(attacks, float), *columns)


@add_titles
def adversarial_training_plots(result: AdversarialTraining) -> Figures:
    """Draw the accuracy under attack of unit and network, and the price."""
    unit = axes("ε of the attack, pixel units", "held-out accuracy, linear unit")
    network = axes("ε of the attack, pixel units", "held-out accuracy, network")
    for index, size in enumerate(result.trained):
        name = f"trained with ε = {size:g}"
        add_data(unit, result.attacks, result.linear_accuracy[index], name, series=index,
                 mode="markers")  # fmt: skip
        message = "share with y f > ε‖w‖₁" if index == 0 else ""
        theory(unit, result.attacks, result.linear_predicted[index], message, colour=COLOURS[index])
        add_data(network, result.attacks, result.network_accuracy[index], name, series=index)
    price = axes("ε in training, pixel units", "held-out accuracy without attack")
    add_data(price, result.trained, result.network_accuracy[:, 0], "network")
    add_data(price, result.trained, result.linear_accuracy[:, 0], "linear unit", series=1)
    return unit, network, price


def _even_or_odd(samples: SampleSet) -> tuple[Float[Tensor, "n d"], Float[Tensor, " n"]]:
    """Return the pixels as rows, and +1 for even, −1 for odd digits."""
    digits = np.array([int(name) for name in samples.class_names])[samples.y]
    x = torch.tensor(samples.x.reshape(len(samples), -1), dtype=torch.float64)
    return x, torch.from_numpy(1.0 - 2.0 * (digits % 2))


def _starts(n_pixels: int, width: int, seed: int) -> tuple[nn.Module, nn.Module, nn.Module]:
    with seeded(seed):
        unit, network = linear((n_pixels,), 1).double(), mlp((n_pixels,), 1, width).double()
        copy = linear((n_pixels,), 1).double()
    copy.load_state_dict(unit.state_dict())
    return unit, copy, network


def _attacked_loss(size: float, attack: str) -> Loss:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return softplus(-y * model(_attack(model, x, y, size, attack))[:, 0]).mean()

    return loss


def _closed_form(size: float) -> Loss:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        weights = dict(model.named_parameters())["1.weight"]
        return softplus(-y * model(x)[:, 0] + size * weights.abs().sum()).mean()

    return loss


def _attack(model: nn.Module, x: Tensor, y: Tensor, size: float, attack: str) -> Tensor:
    if size == 0:
        return x
    inputs = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(softplus(-y * model(inputs)[:, 0]).sum(), inputs)
    if attack == "sign":
        return x + size * slope.sign()
    length = slope.norm(dim=1, keepdim=True).clamp_min(1e-300)
    return x + size * x.shape[1] ** 0.5 * slope / length


def _train(
    model: nn.Module, data: tuple[Tensor, Tensor], loss: Loss, steps: int, learning_rate: float
) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model, *data).backward()
        optimizer.step()


def _accuracies(
    model: nn.Module, data: tuple[Tensor, Tensor], attacks: tuple[float, ...], attack: str
) -> list[float]:
    x, y = data
    return [
        float((y * model(_attack(model, x, y, size, attack))[:, 0] > 0).double().mean())
        for size in attacks
    ]


def _weights(unit: nn.Module) -> Float[np.ndarray, " d"]:
    return unit.get_parameter("1.weight").detach().numpy().ravel()
