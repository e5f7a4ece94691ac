"""Functions to learn from their values: steep somewhere, flat elsewhere, and known everywhere."""

import re
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from torch import Tensor

from datassay.errors import DataError, SettingError
from datassay.results import result

# The constants of `bateman`, which S0 does not print.
SPEED = 1.0
SIGMA = 0.45
REMOVAL = -1.0
LONGEST = 10.0
# (eᶻ − 1)/z by its series where |z| is smaller: the next term is below 1e-17.
NEAR_ZERO, TERMS = 0.1, 12
Points = Float[Tensor, "n d"] | Float[np.ndarray, "n d"]
Values = Float[Tensor, "n ..."] | Float[np.ndarray, "n ..."]


@result
class FunctionProblem:
    """A function, where it is asked for, and what its numbers are called.

    Attributes:
        name: what to call it on a page.
        function: [n, d] points → [n] or [n, q] values; the user's own is checked when it is called.
        domain: [d, 2], lower and upper end of each input.
        inputs: d names.
        outputs: q names.
        differentiable: whether torch tensors go through it, with their derivatives.
    """

    name: str
    function: Any
    domain: Float[np.ndarray, "d 2"]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    differentiable: bool = True


def runge(x: Points) -> Values:
    """Return 1/(1 + 25(x − ½)²): a hill in the middle of [0, 1] (S0 App. A)."""
    return 1 / (1 + 25 * (x[..., 0] - 0.5) ** 2)


def hyperbolic_tangent(x: Points) -> Values:
    """Return tanh(10(x − ½)) + 1: a step in the middle of [0, 1] (S0 App. A)."""
    return torch.tanh(10 * (torch.as_tensor(x)[..., 0] - 0.5)) + 1


def bateman(
    x: Points, *, speed: float = SPEED, sigma: float = SIGMA, removal: float = REMOVAL
) -> Values:
    """Solve the Bateman equations of one material, in closed form.

    u' = v σ η u,  η' = v Σ η u,  u(0) = u₀, η(0) = η₀

    Σu − ση = c keeps its value, which leaves a logistic equation for η. With φ = (e^{vct} − 1)/c,
    and φ = vt in the limit c → 0,

    u(t) = u₀ / (1 − σ η₀ φ),  η(t) = η₀ e^{vct} / (1 − σ η₀ φ)

    so that no quotient is 0/0: neither at c = 0 (a balance of both), nor at v, t, σ, Σ, u₀ or η₀
    = 0, alone or together.

    Args:
        x: u₀, η₀ and t.
        speed: v.
        sigma: σ, what a reaction adds to u; negative where it takes.
        removal: Σ, the same for η.

    Returns:
        u(t) and η(t). Where both coefficients are positive the solution ends at a finite time;
        beyond it these are no solution.

    Source: S0 App. A, M = 1; its "analytic, cheap to compute solution" is not printed.
    """
    u, eta, t = torch.as_tensor(x).unbind(-1)
    c = removal * u - sigma * eta
    exponent = speed * c * t
    denominator = 1 - sigma * eta * speed * t * _divide_expm1(exponent)  # 1 − σ η₀ φ
    return torch.stack([u / denominator, eta * exponent.exp() / denominator], -1)


def function_problem(name: str) -> FunctionProblem:
    """Return the built-in problem of that name.

    Args:
        name: "runge", "tanh", "bateman", or "bateman:M" for M ≥ 2 materials by an ODE solver.

    Returns:
        The problem. "bateman" has v = 1, σ = 0.45, Σ = −1, u₀ and η₀ in [0, 1], t in [0, 10]: a
        little u grows on η, faster and faster, until η is used up, so that the solution is the
        steeper the smaller u₀ is, as S0's Fig. 5 says of its own.

    Raises:
        SettingError: there is none of that name.
    """
    unit = np.array([[0.0, 1.0]])
    if name == "runge":
        return FunctionProblem("runge", runge, unit, ("x",), ("f",))
    if name == "tanh":
        return FunctionProblem("tanh", hyperbolic_tangent, unit, ("x",), ("f",))
    if name == "bateman":
        domain = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, LONGEST]])
        inputs = ("u₀", "η₀", "t")
        outputs = ("u(t)", "η(t)")
        return FunctionProblem("bateman", bateman, domain, inputs, outputs)
    match = re.fullmatch(r"bateman:([1-9]\d?)", name)
    if match is None:
        raise SettingError(
            "the function must be runge, tanh, bateman, bateman:M (M = 1 to 99 materials) or "
            f"package.module:function; got {name!r}."
        )
    m = int(match[1])
    # M materials that share σ and burn up one into the next: a chain, as Bateman's own is.
    sigma = np.full(m, SIGMA)
    removal = REMOVAL * np.eye(m) - REMOVAL * np.eye(m, k=-1) / 2
    domain = np.array([[0.0, 1.0]] + [[0.0, 1 / m]] * m + [[0.0, LONGEST]])
    return FunctionProblem(
        f"bateman:{m}",
        partial(bateman_system, speed=SPEED, sigma=sigma, removal=removal),
        domain,
        ("u₀", *(f"η₀ {i + 1}" for i in range(m)), "t"),
        ("u(t)", *(f"η(t) {i + 1}" for i in range(m))),
        differentiable=False,
    )


def _divide_expm1(z: Tensor) -> Tensor:
    """Return (eᶻ − 1)/z, [...]; 1 at z = 0; differentiable there."""
    is_small = z.abs() < NEAR_ZERO
    small = torch.where(is_small, z, 0.0)
    series = torch.ones_like(z)
    for k in range(TERMS, 1, -1):
        series = 1 + series * small / k
    large = torch.where(is_small, 1.0, z)
    return torch.where(is_small, series, large.expm1() / large)


RELATIVE = 1e-10
ABSOLUTE = 1e-12


def bateman_system(
    x: Float[np.ndarray, "n d"],
    *,
    speed: float,
    sigma: Float[np.ndarray, " M"],
    removal: Float[np.ndarray, "M M"],
) -> Float[np.ndarray, "n q"]:
    """Solve the equations of any number M of materials: u' = v (σ·η) u,  η' = v (Σ η) u."""
    # x: u₀, the M values of η₀, and t. Gives u(t) and the M values of η(t). All points are one
    # system of n (M + 1) equations in the time t/t_i of each, so they share the solver's steps, and
    # differences between near points are as smooth as the solution. Source: S0 App. A, whose own
    # points are by an explicit Euler scheme, ours by DOP853 at a relative tolerance of 1e-10.
    x = np.asarray(x, dtype=float)
    m = len(sigma)
    if x.ndim != 2 or x.shape[1] != m + 2:
        raise DataError(
            f"x must be [n, {m + 2}]: u₀, {m} values of η₀, and t; got {list(x.shape)}."
        )
    t = x[:, -1:]

    def derivative(_time: float, flat: np.ndarray) -> np.ndarray:
        state = flat.reshape(len(x), m + 1)
        u = state[:, :1]
        eta = state[:, 1:]
        rate = np.concatenate([eta @ sigma[:, None], eta @ removal.T], axis=1)
        return (speed * t * u * rate).ravel()

    start = x[:, :-1].ravel()
    solution = solve_ivp(derivative, (0.0, 1.0), start, "DOP853", rtol=RELATIVE, atol=ABSOLUTE)
    if not solution.success:
        raise DataError(
            f"the Bateman equations could not be solved up to t = {t.max():g}: {solution.message} "
            "With coefficients above 0 the solution ends at a finite time; shorten t."
        )
    return solution.y[:, -1].reshape(len(x), m + 1)
