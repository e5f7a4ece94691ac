"""A law read off a trained network's derivatives instead of the data's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from datassay.models import seeded
from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import fit_by_lbfgs
from datassay_lab.laws.pde_simulation import Solution, burgers
from datassay_lab.laws.sparse_law import law_table, law_text, sparsest

# Of the first layer: tanh units drawn as usual are too flat for a field with several waves.
FIRST_LAYER_SCALE = 3.0
# Share of the half axes that counts: beyond it the network has neighbours on one side only.
INSIDE = 0.9
ROUTES = ("network", "differences")


@dataclass(frozen=True, slots=True)
class NetworkDictionary:
    """Laws found through a network and through differences, in the same noisy data."""

    systems: tuple[str, ...]  # [e], names
    routes: tuple[str, ...]  # [r], where the derivatives came from
    # largest relative error of a true coefficient in percent; 100 if missing.
    error: Float[np.ndarray, "e r"]
    right: Bool[np.ndarray, "e r"]  # whether exactly the true terms were found
    laws: tuple[str, ...]  # [e · r], the laws found, in the same order
    # RMS distance of the network from the field without noise, in its std.
    fit: Float[np.ndarray, " e"]
    noise: float  # standard deviation of the noise as a share of the field's
    x: Float[np.ndarray, " n"]  # places of the wave at its middle time
    exact: Float[np.ndarray, " n"]  # u_tt of the wave there
    by_network: Float[np.ndarray, " n"]  # the network's
    by_differences: Float[np.ndarray, " n"]  # that of the noisy data

    @property
    def agreement(self) -> Agreement:
        """The largest error of the network's laws, 100 % where the terms are wrong."""
        error = np.where(self.right[:, 0], self.error[:, 0], 100.0)
        return Agreement("largest coefficient error, network, %", float(error.max()), 5.0)


def heat() -> Solution:
    """Solve u_t = u_xx / 4, three decaying modes."""
    return _modes(lambda k, t, _: np.exp(-0.25 * k**2 * t))


def wave() -> Solution:
    """Solve u_tt = u_xx, three standing waves."""
    return _modes(lambda k, t, phase: np.cos(k * t + 0.8 * phase))


def coarse_burgers() -> Solution:
    """Solve Burgers' equation; return every fourth place and second time."""
    fine = burgers()
    return Solution(fine.x[::4], fine.t[::2], fine.values[::4, ::2])


# Name → solution, true coefficients, and order of the time derivative on the left.
SYSTEMS: dict[str, tuple[Callable[[], Solution], Mapping[str, float], int]] = {
    "Heat": (heat, {"u_xx": 0.25}, 1),
    "Wave": (wave, {"u_xx": 1.0}, 2),
    "Burgers": (coarse_burgers, {"u u_x": -1.0, "u_xx": 0.1}, 1),
}


@check_args
def network_dictionary(
    *,
    noise: Annotated[float, positive()] = 0.05,
    width: Annotated[int, whole(2)] = 32,
    iterations: Annotated[int, whole()] = 1000,
    weight: Annotated[float, positive()] = 0.02,
    seed: int = 0,
    progress: Progress = silent,
) -> NetworkDictionary:
    """Fit a smooth network to noisy data, differentiate it exactly, and regress as before.

    α* = argmin ‖∂_t φ_W − D(φ_W) α‖₂ / ‖∂_t φ_W‖₂ + weight · ‖α‖₀ over the data's places and times

    Args:
        noise: standard deviation of the noise as a share of the field's.
        width: of the network's two tanh layers.
        iterations: of L-BFGS.
        weight: penalty per term.
        seed: of noise and network.
        progress: called after each system.

    Returns:
        Laws through the network and through differences of the same data.

    Cost: about 4 seconds for each of three systems, most of it L-BFGS.
    Source: S2 class 5, "Suppose we learnt a φ_W …", which compares φ_W itself with a combination
        of its derivatives; a law needs a derivative on the left, so here it is ∂_t φ_W (∂_tt of
        the wave). S2's "harmonic oscillator" (∂_t − ω²∂_xx) u = 0 is the heat equation; the wave
        equation has ∂_tt: both are here. PySINDy's STLSQ is the regression.
    """
    import pysindy as ps

    errors, is_right, laws, fits, slices = [], [], [], [], []
    for index, (simulate, truth, order) in enumerate(SYSTEMS.values()):
        solution = simulate()
        field = solution.values[..., 0]
        white = np.random.default_rng([seed, index]).normal(size=field.shape)
        data = field + noise * field.std() * white
        network = _surrogate(solution, data, width, iterations, seed)
        jets = (_network_jet(network, solution), _difference_jet(ps, solution, data))
        fits.append(float(np.sqrt(np.mean((jets[0]["u"] - field) ** 2)) / field.std()))
        slices.append([jet["tt"][:, field.shape[1] // 2] for jet in jets])
        for jet in jets:
            error, has_true_terms, text = _law(jet, truth, order, weight)
            errors.append(error)
            is_right.append(has_true_terms)
            laws.append(text)
        progress("systems", index + 1, len(SYSTEMS))
    waves = wave()
    k, values = np.fft.fftfreq(64, 1 / 64)[:, None], waves.values[..., 0]
    exact = np.real(np.fft.ifft(-(k**2) * np.fft.fft(values, axis=0), axis=0))[:, len(waves.t) // 2]
    return NetworkDictionary(
        tuple(SYSTEMS), ROUTES, np.array(errors).reshape(-1, 2), np.array(is_right).reshape(-1, 2),
        tuple(laws), np.array(fits), noise, waves.x, exact, slices[1][0], slices[1][1],
    )  # fmt: skip


@add_titles
def network_dictionary_plots(result: NetworkDictionary) -> Figures:
    """Draw the wave's second time derivative by both routes, and the laws."""
    figure = axes("place x", "u_tt of the wave, middle time")
    add_data(figure, result.x, result.by_differences, "differences", series=1, mode="markers")
    add_data(figure, result.x, result.by_network, "network", mode="lines")
    theory(figure, result.x, result.exact, "exact")
    limit = 4 * float(np.abs(result.exact).max())
    figure.update_yaxes(range=[-limit, limit])
    cases = [f"{system}, {route}" for system in result.systems for route in result.routes]
    rights = [bool(is_true) for is_true in result.right.ravel()]
    rows = list(zip(cases, result.laws, rights, strict=True))
    return figure, law_table(rows)


def _modes(amplitude: Callable[[int, np.ndarray, float], np.ndarray]) -> Solution:
    x, t = np.linspace(-np.pi, np.pi, 64, endpoint=False), np.linspace(0, 2, 41)
    modes = ((1.0, 1, 0.0), (0.7, 2, 0.5), (0.4, 3, 1.0))  # amplitude, wave number, phase
    u = sum(a * np.sin(k * x + p)[:, None] * amplitude(k, t, p) for a, k, p in modes)
    return Solution(x, t, np.asarray(u)[..., None])


def _places(solution: Solution) -> tuple[Float[Tensor, "s 2"], Float[np.ndarray, " 2"]]:
    """Return all (x, t), each axis scaled to [−1, 1], and the half lengths that were used."""
    ends = [(axis[0], axis[-1]) for axis in (solution.x, solution.t)]
    half = np.array([(high - low) / 2 for low, high in ends])
    scaled = [
        (axis - axis[0]) / half_length - 1
        for axis, half_length in zip((solution.x, solution.t), half, strict=True)
    ]
    grid = np.stack(np.meshgrid(*scaled, indexing="ij"), -1).reshape(-1, 2)
    return torch.tensor(grid), half


def _surrogate(
    solution: Solution, data: np.ndarray, width: int, iterations: int, seed: int
) -> nn.Module:
    positions, _ = _places(solution)
    values = torch.tensor(data.reshape(-1, 1))
    with seeded(seed):
        input_layer = nn.Linear(2, width)
        further_layers = (nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        network = nn.Sequential(input_layer, *further_layers).double()
    with torch.no_grad():
        input_layer.weight *= FIRST_LAYER_SCALE
    fit_by_lbfgs(network, positions, values, iterations)
    return network


def _network_jet(network: nn.Module, solution: Solution) -> dict[str, np.ndarray]:
    """Differentiate the network: return u and its derivatives at all places and times."""
    from torch.func import grad, vmap

    def value(x: Tensor, t: Tensor) -> Tensor:
        return network(torch.stack([x, t]))[0]

    positions, half = _places(solution)
    functions, scales = {"u": value}, {"u": 1.0}
    for name, inner, axis in (
        ("x", "u", 0), ("xx", "x", 0), ("xxx", "xx", 0), ("t", "u", 1), ("tt", "t", 1)
    ):  # fmt: skip
        functions[name] = grad(functions[inner], argnums=axis)
        scales[name] = scales[inner] / half[axis]
    shape = (len(solution.x), len(solution.t))
    return {
        name: scales[name] * vmap(function)(*positions.T).detach().numpy().reshape(shape)
        for name, function in functions.items()
    }


def _difference_jet(ps: ModuleType, solution: Solution, data: np.ndarray) -> dict[str, np.ndarray]:
    def differentiate(axis: int, order: int) -> np.ndarray:
        method = ps.FiniteDifference(order=2, d=order, axis=axis)
        grid = solution.t if axis else solution.x
        return np.asarray(method._differentiate(data[..., None], grid))[..., 0]

    return {
        "u": data, "x": differentiate(0, 1), "xx": differentiate(0, 2), "xxx": differentiate(0, 3),
        "t": differentiate(1, 1), "tt": differentiate(1, 2),
    }  # fmt: skip


def _law(
    jet: Mapping[str, np.ndarray], truth: Mapping[str, float], order: int, weight: float
) -> tuple[float, bool, str]:
    """Find the law; return its largest error in %, whether its terms are right, and its text."""
    cut = [int(np.ceil(n * (1 - INSIDE) / 2)) for n in jet["u"].shape]
    inner = {name: field[cut[0] : -cut[0], cut[1] : -cut[1]].ravel() for name, field in jet.items()}
    powers = {"": np.ones_like(inner["u"]), "u": inner["u"], "u²": inner["u"] ** 2}
    slopes = {"": powers[""], "u_x": inner["x"], "u_xx": inner["xx"], "u_xxx": inner["xxx"]}
    terms = {
        f"{power} {slope}".strip() or "1": powers[power] * slopes[slope]
        for slope in slopes
        for power in powers
    }
    time_subscript = "t" * order
    coef = sparsest(np.stack(list(terms.values()), 1), inner[time_subscript], weight)
    found_terms = {name: float(value) for name, value in zip(terms, coef, strict=True) if value}
    error = max(100 * abs(found_terms.get(name, 0.0) / value - 1) for name, value in truth.items())
    return error, set(found_terms) == set(truth), law_text(f"u_{time_subscript}", found_terms)
