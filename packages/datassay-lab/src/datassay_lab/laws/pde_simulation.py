"""Solutions of seven partial differential equations on periodic grids, to find their laws from.

The linear part of each equation is solved exactly in Fourier space, so what these solutions
lack in accuracy is far below the errors of the laws that are found from them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float

# Points on the circle over which the coefficients of ETDRK4 are averaged.
CONTOUR = 32
# Middle and strength of each vortex.
VORTICES = (((2.2, 2.9), 4.0), ((4.1, 3.4), 4.0), ((3.1, 5.2), -4.0), ((1.0, 1.0), 3.0))
# Steps of fourth-order splitting in one time unit: its error is below 1e-6 in our cases.
SPLIT_STEPS = 1000
YOSHIDA = 1 / (2 - 2 ** (1 / 3))


@dataclass(frozen=True, slots=True)
class Solution:
    """A field on a periodic grid at several times."""

    # of every axis in space, equally spaced; its period ends one step after the last.
    x: Float[np.ndarray, " n"]
    t: Float[np.ndarray, " m"]  # times, equally spaced
    values: Float[np.ndarray, "..."]  # of the v fields; a complex u is its real and imaginary part


def burgers(*, n: int = 256, m: int = 101, viscosity: float = 0.1) -> Solution:
    """Solve u_t + u u_x = ε u_xx from a Gaussian, x ∈ [−8, 8), t ∈ [0, 10]."""
    # viscosity: ε.
    # Source: S2 class 5, the table; Rudy et al. (2017).
    x, k = periodic_grid(-8.0, 16.0, n)
    t = np.linspace(0, 10, m)
    u = exponential_steps(-viscosity * k**2 + 0j, advection(k), np.exp(-((x + 2) ** 2)), t, 20)
    return Solution(x, t, u.T[..., None])


def kdv(*, n: int = 512, m: int = 201) -> Solution:
    """Solve u_t + 6 u u_x + u_xxx = 0, two solitons, x ∈ [−30, 30), t ∈ [0, 20]."""
    # Source: S2 class 5, the table; Rudy et al. (2017), whose start jumps by 9e-5 at the border.
    x, k = periodic_grid(-30.0, 60.0, n)
    t = np.linspace(0, 20, m)
    # Their images in the neighbouring periods: without them the start jumps at the border, and
    # waves too fast for the times run from there through everything.
    images = x[:, None] + np.array([-60.0, 0.0, 60.0])
    start = (soliton(images + 20, 1.0) + soliton(images - 5, 0.5)).sum(1)
    u = exponential_steps(1j * k**3, advection(k, 6.0), start, t, 40)
    return Solution(x, t, u.T[..., None])


def kuramoto_sivashinsky(*, n: int = 1024, m: int = 251) -> Solution:
    """Solve u_t + u u_x + u_xx + u_xxxx = 0, chaotic, x ∈ [0, 32π), t ∈ [0, 100]."""
    # Source: S2 class 5, the table; Rudy et al. (2017); Kassam and Trefethen (2005).
    x, k = periodic_grid(0.0, 32 * np.pi, n)
    t = np.linspace(0, 100, m)
    start = np.cos(x / 16) * (1 + np.sin(x / 16))
    u = exponential_steps(k**2 - k**4 + 0j, advection(k), start, t, 10)
    return Solution(x, t, u.T[..., None])


def schrodinger(*, n: int = 512, m: int = 401) -> Solution:
    """Solve i u_t + u_xx / 2 − x² u / 2 = 0 (Schrödinger), a packet, |x| < 7.5, t ∈ [0, 10]."""
    # Source: S2 class 5, the table; Rudy et al. (2017); the packet at the start is ours.
    x, _ = periodic_grid(-7.5, 15.0, n)
    start = np.exp(-((x - 1) ** 2)) * (1 + 0j)
    t = np.linspace(0, 10, m)
    return complex_solution(x, t, split_steps(x, lambda u: x**2 / 2, start, t))


def nonlinear_schrodinger(*, n: int = 512, m: int = 501) -> Solution:
    """Solve i u_t + u_xx / 2 + |u|² u = 0, two bound solitons, |x| ≤ 5, t ∈ [0, π]."""
    # Source: S2 class 5, the table; Rudy et al. (2017).
    x, _ = periodic_grid(-5.0, 10.0, n)
    t = np.linspace(0, np.pi, m)
    start = 2 / np.cosh(x) * (1 + 0j)
    return complex_solution(x, t, split_steps(x, lambda u: -(np.abs(u) ** 2), start, t))


def reaction_diffusion(*, n: int = 64, m: int = 101, beta: float = 1.0) -> Solution:
    """Solve the λ-ω system for a spiral wave, x and y ∈ [−10, 10), t ∈ [0, 10]."""
    # u_t = 0.1 ∇²u + λu − ωv,  v_t = 0.1 ∇²v + ωu + λv,  λ = 1 − A²,  ω = −βA²,  A² = u² + v²
    # beta: β, speed of turning.
    # Source: S2 class 5, the table; Rudy et al. (2017), who have n = 256 there.
    x, k = periodic_grid(-10.0, 20.0, n)
    grid_x, grid_y = np.meshgrid(x, x, indexing="ij")
    radius, angle = np.hypot(grid_x, grid_y), np.arctan2(grid_y, grid_x)
    start = np.tanh(radius) * np.exp(1j * (angle - radius))

    def reaction(hat: np.ndarray) -> np.ndarray:
        # With w = u + iv, λu − ωv + i (ωu + λv) = (λ + iω) w.
        w = np.fft.ifft2(hat)
        square = np.abs(w) ** 2
        return np.fft.fft2((1 - square - 1j * beta * square) * w)

    linear = -0.1 * (k[:, None] ** 2 + k**2) + 0j
    t = np.linspace(0, 10, m)
    w = np.moveaxis(exponential_steps(linear, reaction, start, t, 5), 0, -1)
    return Solution(x, t, np.stack([np.real(w), np.imag(w)], -1))


def navier_stokes(*, n: int = 64, m: int = 101, reynolds: float = 100.0) -> Solution:
    """Solve for the vorticity of a flow in the plane, x and y ∈ [0, 2π), t ∈ [0, 10]."""
    # ω_t + u ω_x + v ω_y = ∇²ω / Re,  ∇²ψ = −ω,  u = ψ_y,  v = −ψ_x
    # Source: S2 class 5, the table; Rudy et al. (2017), whose flow is past a cylinder, on 449 x
    # 199 places. Deviates: four vortices in a periodic box, as the steps in Fourier space need.
    x, k = periodic_grid(0.0, 2 * np.pi, n)
    k_x, k_y = k[:, None], k[None]
    square = k_x**2 + k_y**2
    inverse = 1 / np.where(square > 0, square, np.inf)
    low_pass = np.where(np.maximum(np.abs(k_x), np.abs(k_y)) < 2 / 3 * np.abs(k).max(), 1.0, 0.0)

    def velocity(hat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        stream = inverse * hat
        return np.fft.ifft2(1j * k_y * stream).real, np.fft.ifft2(-1j * k_x * stream).real

    def advect(hat: np.ndarray) -> np.ndarray:
        u, v = velocity(hat)
        slopes = (np.fft.ifft2(1j * axis * hat).real for axis in (k_x, k_y))
        return -low_pass * np.fft.fft2(u * next(slopes) + v * next(slopes))

    grid = tuple(np.meshgrid(x, x, indexing="ij"))
    vortices = [  # periodic, and near 0 exp(−d²/2)
        strength * np.exp(sum(np.cos(x - c) - 1 for x, c in zip(grid, centre, strict=True)))
        for centre, strength in VORTICES
    ]
    start = np.sum(vortices, 0)
    t = np.linspace(0, 10, m)
    states = exponential_steps(-square / reynolds + 0j, advect, start - start.mean(), t, 6)
    vorticity = np.real(states)
    velocities = np.array([velocity(np.fft.fft2(state)) for state in vorticity])  # [m, 2, n, n]
    fields = np.concatenate([vorticity[:, None], velocities], 1)
    return Solution(x, t, np.moveaxis(fields, (0, 1), (2, 3)))


def soliton(x: Float[np.ndarray, "..."], speed: float) -> Float[np.ndarray, "..."]:
    """Return the travelling wave of KdV, (c/2) sech²(√c x / 2)."""
    # x: places; its crest is at 0.
    return speed / 2 / np.cosh(np.sqrt(speed) * x / 2) ** 2


def periodic_grid(
    low: float, period: float, n: int
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return the places of a periodic grid and their wave numbers."""
    # period: length; low + period is the first position again.
    return low + period * np.arange(n) / n, 2 * np.pi * np.fft.fftfreq(n, period / n)


def advection(k: Float[np.ndarray, " n"], factor: float = 1.0) -> Callable[..., np.ndarray]:
    """Return −factor · u u_x in Fourier space, without the upper third of the wave numbers."""
    is_low = np.abs(k) < 2 / 3 * np.abs(k).max()
    return lambda hat: -0.5j * factor * k * is_low * np.fft.fft(np.fft.ifft(hat).real ** 2)


def exponential_steps(
    linear: Complex[np.ndarray, "..."],
    nonlinear: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    times: Float[np.ndarray, " m"],
    steps: int,
) -> np.ndarray:
    """Solve û_t = L û + N(û) by exponential time differencing of fourth order."""
    # linear: L of every wave number. start: u at the first time; real or complex, and so is what
    # comes back. steps: of the method between two times.
    # Source: Cox and Matthews (2002); Kassam and Trefethen (2005) for the contour.
    step = float(times[1] - times[0]) / steps
    full_step, half_step = np.exp(step * linear), np.exp(step * linear / 2)
    phi_inner, phi_first, phi_middle, phi_last = (step * weight for weight in _phi(step * linear))
    inverse_fft = np.fft.ifftn if np.iscomplexobj(start) else lambda v: np.fft.ifftn(v).real
    hat = np.fft.fftn(start)
    states = [start]
    for _ in range(len(times) - 1):
        for _ in range(steps):
            n0 = nonlinear(hat)
            a = half_step * hat + phi_inner * n0
            na = nonlinear(a)
            nb = nonlinear(half_step * hat + phi_inner * na)
            nc = nonlinear(half_step * a + phi_inner * (2 * nb - n0))
            hat = full_step * hat + phi_first * n0 + 2 * phi_middle * (na + nb) + phi_last * nc
        states.append(inverse_fft(hat))
    return np.array(states)


def split_steps(
    x: Float[np.ndarray, " n"],
    potential: Callable[[np.ndarray], np.ndarray],
    start: Complex[np.ndarray, " n"],
    times: Float[np.ndarray, " m"],
) -> Complex[np.ndarray, "m n"]:
    """Solve i u_t = −u_xx / 2 + V(u) u by splitting into its two parts, to fourth order."""
    # potential: V of u, real; it may depend on |u| only, which its own step leaves alone. start:
    # u at the first time.
    # Source: Yoshida (1990), three Strang steps in one.
    k = 2 * np.pi * np.fft.fftfreq(len(x), x[1] - x[0])
    interval = float(times[1] - times[0])
    steps = max(1, round(interval * SPLIT_STEPS))
    parts = [interval / steps * c for c in (YOSHIDA, 1 - 2 * YOSHIDA, YOSHIDA)]
    kinetic = [np.exp(-0.5j * k**2 * duration) for duration in parts]
    states, u = [start], start
    for _ in range(len(times) - 1):
        for duration, move in list(zip(parts, kinetic, strict=True)) * steps:
            u = u * np.exp(-0.5j * duration * potential(u))
            u = np.fft.ifft(move * np.fft.fft(u))
            u = u * np.exp(-0.5j * duration * potential(u))
        states.append(u)
    return np.array(states)


def complex_solution(
    x: Float[np.ndarray, " n"], t: Float[np.ndarray, " m"], u: Complex[np.ndarray, "m n"]
) -> Solution:
    """Return a complex field as two real ones."""
    return Solution(x, t, np.stack([np.real(u.T), np.imag(u.T)], -1))


def _phi(z: np.ndarray) -> tuple[np.ndarray, ...]:
    # The closed forms cancel near 0; their mean over a circle around z does not.
    circle = z[..., None] + np.exp(2j * np.pi * (np.arange(CONTOUR) + 0.5) / CONTOUR)
    e = np.exp(circle)
    inner = (np.exp(circle / 2) - 1) / circle
    start = (-4 - circle + e * (4 - 3 * circle + circle**2)) / circle**3
    middle = (2 + circle + e * (circle - 2)) / circle**3
    end = (-4 - 3 * circle - circle**2 + e * (4 - circle)) / circle**3
    return tuple(values.mean(-1) for values in (inner, start, middle, end))
