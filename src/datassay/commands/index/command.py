"""`datassay index`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datassay.commands.command import Command, read
from datassay.commands.index.settings import IndexSettings
from datassay.commands.inputs import DataInputs, PlanInputs
from datassay.commands.shell import err_console, out_console


class _Index(Command):
    """Writes an index, and no page; `--out` may be a URL."""

    def start(self, given: Mapping[str, Any], out: Path) -> None:
        """Check, load, compute, print; of a plan print only."""
        from datassay.commands.index import answer, job
        from datassay.commands.terminal import ProgressDisplay

        settings = read(self.settings, given)
        job.check_settings(settings, only_plan=given["plan"])
        train, other = self.sets({**given, "queries": settings.append})
        if given["plan"]:
            from datassay.commands.index import plan

            planned = job.planned(train, settings)
            is_trained = settings.weights is not None
            out_console.print(*plan.lines(planned, is_trained=is_trained), sep="\n")
            return
        with ProgressDisplay(err_console) as progress:
            built = job.run(train, other, settings, progress)
        out_console.print(*answer.lines(built), sep="\n", soft_wrap=True)


COMMAND = _Index(
    name="index",
    help="""Compute the training side of `explain` once, and keep it to answer later.

    Keeps each training sample's gradient in few numbers, with the curvature, the ids and digests of
    the network, its code and its loss. The same command goes on where it was interrupted.

    Examples:
      datassay index train.csv --target label --model my.py:network --weights my.pt --out ix

      datassay explain train.csv --target label --model my.py:network --weights my.pt --index ix
      --queries new.csv

      datassay index train.csv --target label --model my.py:network --weights my.pt --out ix
      --append more.csv

      datassay index mnist/ --model cnn --weights my.safetensors --out s3://bucket/ix

      datassay index mnist/ --model cnn --weights my.safetensors --plan
    """,
    settings=IndexSettings,
    inputs=(DataInputs, PlanInputs),
    home="datassay.commands.index",
    out="index",
    order=14,
    scores_all=True,
    has_out=False,
)
