"""The Bateman equations of several materials by an ODE solver."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from datassay.errors import DataError

RELATIVE, ABSOLUTE = 1e-10, 1e-12


def bateman_system(
    x: Float[np.ndarray, "n d"],
    *,
    speed: float,
    sigma: Float[np.ndarray, " M"],
    removal: Float[np.ndarray, "M M"],
) -> Float[np.ndarray, "n q"]:
    """The solution for any number M of materials: u' = v (σ·η) u,  η' = v (Σ η) u.

    All points are one system of n (M + 1) equations in the time t/t_i of each, so they share the
    solver's steps, and differences between near points are as smooth as the solution.

    Args:
        x: u₀, the M values of η₀, and t; d = M + 2.
        speed: v.
        sigma: σ.
        removal: Σ.

    Returns:
        u(t) and the M values of η(t); q = M + 1.

    Raises:
        DataError: the columns are not M + 2, or the solver cannot reach t.

    Cost: some hundred evaluations of n M² products.
    Source: S0 App. A; its own points are by an explicit Euler scheme, ours by DOP853 at a relative
    tolerance of 1e-10.
    """
    x, m = np.asarray(x, dtype=float), len(sigma)
    if x.ndim != 2 or x.shape[1] != m + 2:
        raise DataError(
            f"x must be [n, {m + 2}]: u₀, {m} values of η₀, and t; got {list(x.shape)}."
        )
    t = x[:, -1:]

    def change(_time: float, flat: np.ndarray) -> np.ndarray:
        state = flat.reshape(len(x), m + 1)
        u, eta = state[:, :1], state[:, 1:]
        rate = np.concatenate([eta @ sigma[:, None], eta @ removal.T], axis=1)
        return (speed * t * u * rate).ravel()

    start = x[:, :-1].ravel()
    solution = solve_ivp(change, (0.0, 1.0), start, "DOP853", rtol=RELATIVE, atol=ABSOLUTE)
    if not solution.success:
        raise DataError(
            f"the Bateman equations could not be solved up to t = {t.max():g}: {solution.message} "
            "With coefficients above 0 the solution ends at a finite time; shorten t."
        )
    return solution.y[:, -1].reshape(len(x), m + 1)
