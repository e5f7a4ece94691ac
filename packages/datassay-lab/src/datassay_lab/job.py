"""The job of `datassay lab`: run the experiments that were asked for."""

from __future__ import annotations

from datassay.commands import seed_facts
from datassay.progress import Progress, silent
from datassay_lab.findings import LabFindings
from datassay_lab.run import chosen, run_lab
from datassay_lab.settings import LabSettings


def run(settings: LabSettings, progress: Progress = silent) -> LabFindings:
    """Run experiments; finished ones are kept in `settings.out` and reused."""
    asked = chosen(settings.names, settings.parameters, settings.seed)
    how = {"fresh": settings.fresh, "overwrite": settings.overwrite}
    records = tuple(run_lab(asked, settings.out, **how, progress=progress))
    facts = {
        "Experiments": f"{len(records):,}",
        "Seconds": f"{sum(r.seconds for r in records):.0f}",
        **seed_facts(", ".join(sorted({str(r.parameters["seed"]) for r in records}))),
        "Command": settings.command,
    }
    return LabFindings(records, facts)
