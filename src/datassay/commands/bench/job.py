"""The job of `datassay bench`: the library's claims, measured where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import torch

from datassay.commands.bench.cases import CASES
from datassay.commands.bench.findings import BenchFindings
from datassay.errors import SettingError
from datassay.machine import machine_name, matrix_rate
from datassay.progress import Progress, silent

LIBRARIES = ("datassay", "torch", "numpy", "scipy", "scikit-learn")


def bench(
    names: Sequence[str] = (), seed: int = 0, command: str = "", progress: Progress = silent
) -> BenchFindings:
    """Measure cases one after the other.

    Args:
        names: of cases, in the order to run them; none is all.
        seed: of data, networks and noise.
        command: what to keep as the command to repeat this.
        progress: called with (step, cases done, cases in all).

    Returns:
        The figures.

    Raises:
        SettingError: a case is unknown.

    Cost: all cases about 15 s on two cores.
    """
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise SettingError(
            f"a case must be one of {', '.join(CASES)}; got {', '.join(map(repr, unknown))}."
        )
    chosen, cases = list(dict.fromkeys(names or CASES)), {}
    for done, name in enumerate(chosen):
        progress("measure", done, len(chosen))
        cases[name] = CASES[name](seed)
    progress("measure", len(chosen), len(chosen))
    rates = {name: matrix_rate(getattr(torch, name)) for name in ("float32", "float64")}
    facts = {
        "Machine": machine_name(),
        "Threads": str(torch.get_num_threads()),
        "Matrix products": ", ".join(f"{rate / 1e9:.0f} GF/s {k}" for k, rate in rates.items()),
        "Versions": ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
        "Seed": str(seed),
        "Command": command,
    }
    return BenchFindings(cases, facts)
