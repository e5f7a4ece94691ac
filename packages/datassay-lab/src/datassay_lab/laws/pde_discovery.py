"""Sparse regression over a dictionary of derivatives finds the law that made the data."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, positive, refuse_if, whole
from datassay_lab.curves import Plot, pictures
from datassay_lab.laws.pde_simulation import Solution, burgers, kdv, kuramoto_sivashinsky
from datassay_lab.laws.sparse_law import (
    KnownLaw,
    add_noise,
    difference_form,
    discover_law,
    error_bars,
    field_picture,
    law_table,
    weak_form,
)

LAWS = (
    KnownLaw(
        "Burgers", burgers, ({"uu_1": -1.0, "u_11": 0.1},), order=4, degree=2,
        window=(1.6, 1.0), published=(0.15, 0.8), published_spread=(0.06, 0.6),
    ),
    KnownLaw(
        "KdV", kdv, ({"uu_1": -6.0, "u_111": -1.0},), order=4, degree=2,
        window=(6.0, 2.0), published=(1.0, 7.0), published_spread=(0.2, 5.0),
    ),
    KnownLaw(
        "Kuramoto–Sivashinsky", kuramoto_sivashinsky,
        ({"uu_1": -1.0, "u_11": -1.0, "u_1111": -1.0},), order=4, degree=2,
        window=(4.0, 4.0), published=(1.3, 70.0), published_spread=(1.3, 27.0),
    ),
)  # fmt: skip
# File of Rudy et al., its solution and its times; x is "x" in all of them.
FILES = (("burgers.mat", "usol", "t"), ("kdv.mat", "usol", "t"),
         ("kuramoto_sivishinky.mat", "uu", "tt"))  # fmt: skip
FORMS = ("weak form", "differences")
PICTURE = 128


@dataclass(frozen=True, slots=True)
class PdeDiscovery:
    """Laws found in data of three equations, beside the true ones."""

    data: str  # whose: "Rudy et al. (2017)" or "our simulation"
    equations: tuple[str, ...]  # [e], names
    forms: tuple[str, ...]  # [f], how derivatives were taken
    noise: Float[np.ndarray, " 2"]  # standard deviation as a share of the data's; the first is 0
    error: Float[np.ndarray, "e f 2"]  # mean relative error of the true coefficients in percent
    spread: Float[np.ndarray, "e f 2"]  # its standard deviation over the coefficients, percent
    right: Bool[np.ndarray, "e f 2"]  # whether exactly the true terms were found
    laws: tuple[str, ...]  # [e · f · 2], the laws found, in the same order
    published: Float[np.ndarray, "e 2"]  # percent, of S2's table
    published_spread: Float[np.ndarray, "e 2"]  # percent
    fields: Float[np.ndarray, "e h w"]  # the data, each scaled to ±1; x downwards, t to the right

    @property
    def agreement(self) -> Agreement:
        """The largest error of the weak form, 100 % where the terms are wrong."""
        error = np.where(self.right[:, 0], self.error[:, 0], 100.0)
        return Agreement("largest coefficient error, weak form, %", float(error.max()), 1.0)


@check_args
def pde_discovery(
    *,
    noise: Annotated[float, positive()] = 0.01,
    n_windows: Annotated[int, whole(50)] = 500,
    weight: Annotated[float, positive()] = 0.003,
    folder: str = "",
    seed: int = 0,
    progress: Progress = silent,
) -> PdeDiscovery:
    """Find Burgers, KdV and Kuramoto–Sivashinsky in data, without and with noise.

    α* = argmin ‖u_t − D α‖₂ / ‖u_t‖₂ + weight · ‖α‖₀,  D = {1, u, u², u_x, u u_x, …, u_xxxx, …}

    Args:
        noise: standard deviation of the noise as a share of the data's.
        n_windows: windows of the weak form.
        weight: penalty per term.
        folder: with the files of Rudy et al.; "" looks for `pde_find` in the folder that the
            environment variable DATASSAY_DATA names, and simulates where there is none.
        seed: of noise and windows.
        progress: called after each law.

    Returns:
        Laws and their errors, beside those of S2's table.

    Raises:
        SettingError: a file of the folder is missing.

    Cost: about 15 seconds; most of it is the dictionaries.
    Source: S2 class 5, "Data-driven discovery"; Rudy et al. (2017), table 1. S2's own list
        {1, u, u², u_x, u_x², u u_x, u_xx, u_xx², u u_xx, u_x, u_xx} names u_x and u_xx twice and
        has neither u_xxx nor u_xxxx, without which two of the three laws cannot be said; ours
        has all products of {1, u, u²} and {1, u_x, …, u_xxxx}. The weak form is not in Rudy et
        al., who fit local polynomials to noisy data.
    """
    data_path = data_folder(folder)
    solutions = [
        law.simulate() if data_path is None else _load_solution(data_path, *file)
        for law, file in zip(LAWS, FILES, strict=True)
    ]
    levels = (0.0, noise)
    discovered = []
    for law, solution in zip(LAWS, solutions, strict=True):
        versions = [add_noise(solution, level, seed) for level in levels]
        weak = weak_form(law, versions, n_windows, seed)
        for dictionary in weak + [difference_form(law, version) for version in versions]:
            discovered.append(discover_law(law, dictionary, weight))
            progress("laws", len(discovered), 4 * len(LAWS))
    shape = (len(LAWS), len(FORMS), len(levels))
    return PdeDiscovery(
        data="our simulation" if data_path is None else "Rudy et al. (2017)",
        equations=tuple(law.name for law in LAWS),
        forms=FORMS,
        noise=np.array(levels),
        error=np.array([law.error for law in discovered]).reshape(shape),
        spread=np.array([law.spread for law in discovered]).reshape(shape),
        right=np.array([law.right for law in discovered]).reshape(shape),
        laws=tuple(law.text for law in discovered),
        published=np.array([law.published for law in LAWS]),
        published_spread=np.array([law.published_spread for law in LAWS]),
        fields=np.array([field_picture(s.values[..., 0], PICTURE) for s in solutions]),
    )


def pde_discovery_plots(result: PdeDiscovery) -> tuple[Plot, ...]:
    """Draw errors beside S2's table, and the data."""
    bars = error_bars(
        result.equations,
        {form: (result.error[:, index], result.right[:, index])
         for index, form in enumerate(result.forms)},
        result.published, float(result.noise[1]),
    )  # fmt: skip
    text = "Mean coefficient errors of both forms beside those of S2's table, per equation"
    fields = pictures(result.fields, result.equations, columns=3, signed=True, side=260)
    return (
        Plot("Errors of the coefficients, beside S2's table", bars, text, wide=True),
        Plot(
            "Laws found",
            law_table(_rows(result)),
            "The law found in each case, right or wrong",
            wide=True,
        ),
        Plot(f"The data: {result.data}", fields, "u over place (down) and time (right)", wide=True),
    )


def data_folder(folder: str) -> Path | None:
    """Find the folder with the files of Rudy et al.; None if it is not there."""
    # folder: named by the user, or "".
    is_named = bool(folder)
    path = Path(folder) if is_named else Path(os.environ.get("DATASSAY_DATA", "")) / "pde_find"
    missing = [name for name, *_ in FILES if not (path / name).is_file()]
    refuse_if(
        is_named and missing,
        f"folder must hold {', '.join(name for name, *_ in FILES)}; got {folder!r}, which "
        f"lacks {', '.join(missing)}.",
    )
    return None if missing else path


def _load_solution(path: Path, file: str, field: str, times: str) -> Solution:
    from scipy.io import loadmat

    # A .mat file holds plain arrays: reading it runs no code of the file.
    arrays = loadmat(str(path / file), variable_names=[field, "x", times])
    values = np.real(arrays[field]).astype(float)
    return Solution(arrays["x"].ravel(), arrays[times].ravel(), values[..., None])


def _rows(result: PdeDiscovery) -> list[tuple[str, str, bool]]:
    cases = [
        f"{equation}, {form}, {100 * level:g} %"
        for equation in result.equations
        for form in result.forms
        for level in result.noise
    ]
    rights = [bool(is_true) for is_true in result.right.ravel()]
    return list(zip(cases, result.laws, rights, strict=True))
