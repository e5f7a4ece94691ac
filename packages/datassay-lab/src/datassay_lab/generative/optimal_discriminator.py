"""The best discriminator is p / (p + q), and its value is 2 JS(p ‖ q) − 2 ln 2."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.models import seeded
from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, whole
from datassay_lab.curves import COLOURS, Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track
from datassay_lab.generative.gan import tanh_network, value

# Name → the two densities, each a mixture of normals: (weight, centre, width).
PAIRS = {
    "shifted": (((1.0, -1.0, 1.0),), ((1.0, 1.0, 1.0),)),
    "two modes, one": (((0.5, -1.5, 0.5), (0.5, 1.5, 0.5)), ((1.0, 0.0, 1.2),)),
    "equal": (((1.0, 0.0, 1.0),), ((1.0, 0.0, 1.0),)),
}
PLACES = np.linspace(-5, 5, 401)
JUDGED = 100_000
RATE = 5e-3


@dataclass(frozen=True, slots=True)
class OptimalDiscriminator:
    """Discriminators trained on known densities, beside what they should become."""

    pairs: tuple[str, ...]  # [c], names of the pairs of densities
    x: Float[np.ndarray, " m"]  # places
    p: Float[np.ndarray, "c m"]  # density of the data
    q: Float[np.ndarray, "c m"]  # density of the fakes
    learnt: Float[np.ndarray, "c m"]  # D of the trained network
    ratio: Float[np.ndarray, "c m"]  # p / (p + q)
    errors: Float[np.ndarray, " c"]  # RMS of their difference under (p + q) / 2
    values: Float[np.ndarray, " c"]  # V of the trained network on fresh samples, nats
    predicted: Float[np.ndarray, " c"]  # 2 JS − 2 ln 2 by quadrature, nats
    printed: Float[np.ndarray, " c"]  # the same with S2's JS, whose second term lacks its ln

    @property
    def agreement(self) -> Agreement:
        """The largest distance of a trained discriminator from the ratio."""
        return Agreement("largest RMS of D − p / (p + q)", float(self.errors.max()), 0.03)


@check_args
def optimal_discriminator(
    *,
    steps: Annotated[int, whole()] = 2000,
    batch: Annotated[int, whole(2)] = 512,
    width: Annotated[int, whole(2)] = 32,
    seed: int = 0,
    progress: Progress = silent,
) -> OptimalDiscriminator:
    """Train a discriminator on each of three pairs of known densities on the line.

    max_D ∫ p ln D + q ln(1 − D) dx  at  D = p / (p + q),  V = 2 JS(p ‖ q) − 2 ln 2

    Args:
        steps: of Adam, fresh samples in each, the step size falling to 0.
        batch: samples of each density per step.
        width: of the network's two hidden layers.
        seed: of weights and samples.
        progress: called after each pair.

    Returns:
        Discriminators and values, trained and predicted.

    Cost: about 3 seconds per pair.
    Source: S2 class 6, "What is the Optimization doing?"; Goodfellow et al. (2014), proposition
        1. S2's JS divergence lacks ln in its second term, and its "min_G V = 2 JS − 2 ln 2" is V
        at the best D; its minimum over G is −2 ln 2. Both are as in the paper here.
    """
    outputs, values = [], []
    p, q = (np.array([_density(pair[i]) for pair in PAIRS.values()]) for i in (0, 1))
    for index, (real, fake) in enumerate(track(PAIRS.values(), progress, "pairs")):
        generator = torch.Generator().manual_seed(seed * len(PAIRS) + index)
        with seeded(seed):
            network = tanh_network(1, width, 1)
        _train(network, (real, fake), steps, batch, generator)
        with torch.no_grad():
            logits = network(torch.tensor(PLACES)[:, None].float())[:, 0]
            outputs.append(logits.sigmoid().numpy().astype(float))
            fresh = (network(_draw(mixture, JUDGED, generator)) for mixture in (real, fake))
            values.append(float(value(*fresh)))
    ratio, middle = p / (p + q), (p + q) / 2
    square = (np.array(outputs) - ratio) ** 2
    floor, step = 2 * np.log(2), PLACES[1] - PLACES[0]
    data_term, fake_term = p * np.log(p / middle), q * np.log(q / middle)
    return OptimalDiscriminator(
        tuple(PAIRS), PLACES, p, q, np.array(outputs), ratio,
        errors=np.sqrt((square * middle).sum(1) * step),
        values=np.array(values),
        predicted=(data_term + fake_term).sum(1) * step - floor,
        printed=(data_term + q * (q / middle)).sum(1) * step - floor,
    )  # fmt: skip


@add_titles
def optimal_discriminator_plots(result: OptimalDiscriminator) -> Figures:
    """Draw discriminators over x, and values."""
    figure = axes("x", "D(x), probability of being real")
    for index, name in enumerate(result.pairs):
        add_data(figure, result.x, result.learnt[index], name, series=index, mode="lines")
        # Where neither density has samples nothing is asked of D, and nothing promised.
        has_samples = (result.p + result.q)[index] > 1e-3
        label = "p / (p + q)" if index == 0 else ""
        theory(figure, result.x[has_samples], result.ratio[index][has_samples], label)
    columns = np.arange(len(result.pairs))
    values = axes("", "value V, nats")
    add_data(values, columns, result.values, "trained", mode="markers")
    add_data(values, columns, result.printed, "S2 as printed", series=1, mode="markers")
    for column, predicted in enumerate(result.predicted):
        ends = [column - 0.3, column + 0.3]
        theory(values, ends, [predicted] * 2, "" if column else "2 JS − 2 ln 2")
    values.update_xaxes(tickvals=columns, ticktext=list(result.pairs), range=[-0.5, 2.5])
    printed: Any = values.data[1]
    printed.marker.update(symbol="x-thin-open", line={"width": 2, "color": COLOURS[1]})
    return figure, values


def _density(mixture: tuple[tuple[float, float, float], ...]) -> Float[np.ndarray, " m"]:
    return sum(
        (
            weight * np.exp(-(((PLACES - centre) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
            for weight, centre, width in mixture
        ),
        np.zeros_like(PLACES),
    )


def _draw(
    mixture: tuple[tuple[float, float, float], ...], n: int, generator: torch.Generator
) -> Float[Tensor, "n 1"]:
    weights, centres, widths = (torch.tensor(values) for values in zip(*mixture, strict=True))
    component = torch.multinomial(weights, n, replacement=True, generator=generator)
    return (centres[component] + widths[component] * torch.randn(n, generator=generator))[:, None]


def _train(
    network: nn.Module,
    pair: tuple[tuple[tuple[float, float, float], ...], ...],
    steps: int,
    batch: int,
    generator: torch.Generator,
) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, steps)
    for _ in range(steps):
        real, fake = (_draw(mixture, batch, generator) for mixture in pair)
        optimizer.zero_grad()
        (-value(network(real), network(fake))).backward()
        optimizer.step()
        schedule.step()
