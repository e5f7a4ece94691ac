"""The command that measures the library's claims on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datassay.commands.old_options import Out
from datassay.commands.shell import exits_clearly, finish


@exits_clearly
def bench(
    cases: Annotated[
        list[str] | None,
        typer.Argument(
            help="leave-one-out, retraining, fidelity, labels, weights, polynomial (default: all).",
            show_default=False,
        ),
    ] = None,
    out: Out = Path("bench"),
    seed: Annotated[int, typer.Option(help="Of data, networks and noise.")] = 0,
) -> None:
    """Measure what the library claims, here: against the plain way, answers compared.

    Every case does the same work twice on data that comes along, and says how far both answers
    agree. About 15 seconds on two cores. Writes bench.parquet and summary.json.

    Examples:
      datassay bench

      datassay bench leave-one-out labels --seed 1 --out measured
    """
    from datassay.commands.bench.files import BENCH_FILES, write_bench
    from datassay.commands.bench.job import bench as job
    from datassay.commands.bench.terminal import bench_table
    from datassay.commands.command import command_line
    from datassay.data.settings import check_seed
    from datassay.report.write import check_writable

    check_seed(seed)
    check_writable(out, BENCH_FILES)
    finish(
        lambda progress: job(cases or (), seed, command_line(), progress), write_bench, bench_table,
        out,
    )  # fmt: skip
