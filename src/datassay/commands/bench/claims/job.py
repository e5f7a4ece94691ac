"""The job of `datassay bench`: the library's claims, measured where it is installed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

import torch

from datassay.commands.bench.claims.cases import CASES, Measured
from datassay.commands.bench.settings import ClaimSettings
from datassay.data.settings import check_seed
from datassay.errors import SettingError
from datassay.machine import machine_name, matrix_rate
from datassay.progress import Progress, silent

LIBRARIES = ("datassay", "torch", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True, slots=True)
class BenchFindings:
    """What was measured, and on what.

    Attributes:
        cases: name → what was measured, in the order they ran.
        facts: machine, threads, rates of matrix products, versions, seed, command.
    """

    cases: dict[str, Measured]
    facts: dict[str, str]


def run(settings: ClaimSettings, progress: Progress = silent) -> BenchFindings:
    """Measure cases one after the other."""
    check_seed(settings.seed)
    unknown = [name for name in settings.case if name not in CASES]
    if unknown:
        raise SettingError(
            f"a case must be one of {', '.join(CASES)}; got {', '.join(map(repr, unknown))}."
        )
    chosen, cases = list(dict.fromkeys(settings.case or CASES)), {}
    for done, name in enumerate(chosen):
        progress("measure", done, len(chosen))
        cases[name] = CASES[name](settings.seed)
    progress("measure", len(chosen), len(chosen))
    rates = {name: matrix_rate(getattr(torch, name)) for name in ("float32", "float64")}
    facts = {
        "Machine": machine_name(),
        "Threads": str(torch.get_num_threads()),
        "Matrix products": ", ".join(f"{rate / 1e9:.0f} GF/s {k}" for k, rate in rates.items()),
        "Versions": ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
        "Seed": str(settings.seed),
        "Command": settings.command,
    }
    return BenchFindings(cases, facts)
