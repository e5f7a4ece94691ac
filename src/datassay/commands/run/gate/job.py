"""The job of `datassay check`: score the samples, then judge the conditions."""

from dataclasses import replace
from typing import Any

from datassay.commands.run import job
from datassay.commands.run.findings import Findings
from datassay.commands.run.gate.conditions import judge, read_baseline, read_condition
from datassay.commands.run.gate.quantities import quantities
from datassay.commands.run.gate.settings import CheckSettings
from datassay.commands.run.job import plan_lines as plan_lines
from datassay.optional import map_optional


def run(*, settings: CheckSettings, **arguments: Any) -> Findings:
    """Return the findings of `datassay score` with the outcomes of the conditions.

    Args:
        settings: what to compute, the conditions and the baseline.
        arguments: further ones of the run's job.

    Raises:
        DatassayError: what the run raises.
    """
    findings = job.run(**arguments, settings=settings)
    origin = findings.origin and findings.origin.to_dict()
    summary = {"checks": quantities(findings), "origin": origin}
    baseline = map_optional(read_baseline, settings.baseline)
    outcomes = judge(map(read_condition, settings.fail_on), summary, baseline)
    return replace(findings, outcomes=outcomes)
