"""`datassay explain`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datassay.commands.command import Command, read
from datassay.commands.explain.settings import ExplainSettings
from datassay.commands.inputs import DataInputs, PlanInputs
from datassay.commands.shell import out_console
from datassay.errors import SettingError


class _Explain(Command):
    """Weights must be given, but for `--plan`, which only counts the work."""

    def start(self, given: Mapping[str, Any], out: Path) -> None:
        """Check, load, compute, write, print; of a plan print only."""
        from datassay.commands.explain import job, plan

        settings = read(self.settings, given)
        job.check_settings(settings, only_plan=given["plan"])
        if not given["plan"]:
            return super().start(given, out)
        if settings.index is not None:
            raise SettingError(
                "plan counts what is computed without an index; with one a query takes a gradient. "
                "Leave out --plan or --index."
            )
        train, val = self.sets(given)
        planned = job.planned(train, val, settings)
        out_console.print(*plan.lines(planned, is_trained=bool(settings.weights)), sep="\n")


COMMAND = _Explain(
    name="explain",
    help="""Explain a trained network's predictions by its training samples.

    Writes one page, effects.parquet (the samples that raised and lowered each query's measure),
    samples.parquet (self-influence, large for wrong labels) and summary.json.

    Examples:
      datassay explain digits --model mlp:width=32 --weights my.safetensors

      datassay explain photos/ --model own.networks:resnet --weights a.pt --weights b.pt

      datassay explain train.csv --target label --weights my.pt --queries new.csv --measure loss

      datassay explain tokens.npz --model my.py:bert --weights bert.safetensors --parameters lora_

      datassay explain mnist/ --model cnn --weights my.safetensors --curvature ekfac --plan

      datassay explain mnist/ --model cnn --weights my.safetensors --index ix --queries new.npz
    """,
    settings=ExplainSettings,
    inputs=(DataInputs, PlanInputs),
    home="datassay.commands.explain",
    out="explained",
    order=15,
    scores_all=True,
)
