"""The sparse regression finds laws of several fields, too: quantum waves, a spiral and a flow."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, whole
from datassay_lab.curves import Figures, add_titles, pictures
from datassay_lab.laws.pde_simulation import (
    navier_stokes,
    nonlinear_schrodinger,
    reaction_diffusion,
    schrodinger,
)
from datassay_lab.laws.sparse_law import (
    KnownLaw,
    add_noise,
    discover_law,
    error_bars,
    field_picture,
    law_table,
    weak_form,
)

# Of u = real and v = imaginary part; of both reacting substances in the third; of the vorticity,
# the velocities known, in the last.
LAWS = (
    KnownLaw(
        "Schrödinger", schrodinger,
        ({"v_11": -0.5, "v w": 1.0}, {"u_11": 0.5, "u w": -1.0}), order=2, degree=2,
        window=(1.5, 0.5), published=(0.25, 10.0), published_spread=(0.01, 7.0),
        potential=lambda x: x**2 / 2, letters="uvV",
    ),
    KnownLaw(
        "Nonlinear Schrödinger", nonlinear_schrodinger,
        ({"v_11": -0.5, "u^2 v": -1.0, "v^3": -1.0}, {"u_11": 0.5, "u^3": 1.0, "u v^2": 1.0}),
        order=2, degree=3, window=(1.0, 0.15), published=(0.05, 3.0), published_spread=(0.01, 1.0),
    ),
    KnownLaw(
        "Reaction–diffusion", reaction_diffusion,
        ({"u_11": 0.1, "u_22": 0.1, "u": 1.0, "u^3": -1.0, "u v^2": -1.0, "u^2 v": 1.0,
          "v^3": 1.0},
         {"v_11": 0.1, "v_22": 0.1, "v": 1.0, "v^3": -1.0, "u^2 v": -1.0, "u^3": -1.0,
          "u v^2": -1.0}),
        order=2, degree=3, window=(2.5, 2.5, 1.0), published=(0.02, 3.8),
        published_spread=(0.01, 2.4), products=False,
    ),
    KnownLaw(
        "Navier–Stokes", navier_stokes,
        ({"u_11": 0.01, "u_22": 0.01, "vu_1": -1.0, "wu_2": -1.0},), order=2, degree=2,
        window=(1.0, 1.0, 0.8), published=(1.0, 7.0), published_spread=(0.2, 6.0), letters="ωuv",
    ),
)  # fmt: skip
PICTURE = 96


@dataclass(frozen=True, slots=True)
class SimulatedLaws:
    """Laws found in simulated data of four systems, beside the true ones."""

    equations: tuple[str, ...]  # [e], names
    noise: Float[np.ndarray, " 2"]  # standard deviation as a share of each field's; the first is 0
    error: Float[np.ndarray, "e 2"]  # mean relative error of the true coefficients in percent
    spread: Float[np.ndarray, "e 2"]  # its standard deviation over the coefficients, percent
    right: Bool[np.ndarray, "e 2"]  # whether exactly the true terms were found
    laws: tuple[str, ...]  # [e · 2], the laws found, of all fields of each, in the same order
    published: Float[np.ndarray, "e 2"]  # percent, of S2's table
    published_spread: Float[np.ndarray, "e 2"]  # percent
    # first field, scaled to ±1: place and time, in the last two x and y.
    fields: Float[np.ndarray, "e h w"]

    @property
    def agreement(self) -> Agreement:
        """The largest error, 100 % where the terms are wrong."""
        error = np.where(self.right, self.error, 100.0)
        return Agreement("largest coefficient error, %", float(error.max()), 2.0)


@check_args
def simulated_laws(
    *,
    noise: Annotated[float, positive()] = 0.01,
    n_windows: Annotated[int, whole(50)] = 500,
    weight: Annotated[float, positive()] = 0.003,
    seed: int = 0,
    progress: Progress = silent,
) -> SimulatedLaws:
    """Find Schrödinger's, a λ-ω system's and Navier and Stokes' laws in our solutions of them.

    α* = argmin ‖u_t − D α‖₂ / ‖u_t‖₂ + weight · ‖α‖₀, one for each field, in the weak form

    Args:
        noise: standard deviation of the noise as a share of each field's.
        n_windows: windows of the weak form.
        weight: penalty per term.
        seed: of noise and windows.
        progress: called after each law.

    Returns:
        Laws and their errors, beside those of S2's table.

    Cost: about 20 seconds; most of it is the dictionaries.
    Source: S2 class 5, the table; Rudy et al. (2017), table 1. Complex u is its real part u and
        its imaginary part v here, so that each law is two. The potential V = x²/2 is given as a
        third field, as in Rudy et al. Reaction and diffusion: 64² places instead of 256², all
        of them instead of 1.14 %, and no products of fields and derivatives (20 terms). The flow:
        vortices in a box instead of a cylinder's wake; its law is that of the vorticity, the
        velocities known, as in Rudy et al. PySINDy differentiates the factors of products by
        differences, whose error is most of what that law's is.
    """
    levels, discovered, fields = (0.0, noise), [], []
    for law in LAWS:
        solution = law.simulate()
        field = solution.values[..., 0]
        fields.append(field_picture(field if field.ndim == 2 else field[..., -1], PICTURE))
        versions = [add_noise(solution, level, seed) for level in levels]
        for dictionary in weak_form(law, versions, n_windows, seed):
            discovered.append(discover_law(law, dictionary, weight))
            progress("laws", len(discovered), 2 * len(LAWS))
    shape = (len(LAWS), len(levels))
    return SimulatedLaws(
        equations=tuple(law.name for law in LAWS),
        noise=np.array(levels),
        error=np.array([law.error for law in discovered]).reshape(shape),
        spread=np.array([law.spread for law in discovered]).reshape(shape),
        right=np.array([law.right for law in discovered]).reshape(shape),
        laws=tuple(law.text for law in discovered),
        published=np.array([law.published for law in LAWS]),
        published_spread=np.array([law.published_spread for law in LAWS]),
        fields=np.array(fields),
    )


@add_titles
def simulated_laws_plots(result: SimulatedLaws) -> Figures:
    """Draw errors beside S2's table, the laws, and the data."""
    ours = {"weak form": (result.error, result.right)}
    bars = error_bars(result.equations, ours, result.published, float(result.noise[1]))
    rows = []
    for index, (text, holds) in enumerate(zip(result.laws, result.right.ravel(), strict=True)):
        case = f"{result.equations[index // 2]}, {100 * result.noise[index % 2]:g} %"
        rows += [("" if i else case, line, bool(holds)) for i, line in enumerate(text.split("; "))]
    ends = 2 * ("x down, t right",) + 2 * ("x and y, at the end",)
    titles = [f"{name}: {end}" for name, end in zip(result.equations, ends, strict=True)]
    fields = pictures(result.fields, titles, columns=4, signed=True, side=240)
    return bars, law_table(rows), fields
