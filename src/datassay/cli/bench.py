"""The command that measures the library's claims on this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datassay.cli.options import Out
from datassay.cli.shell import exits_clearly, finish

if TYPE_CHECKING:
    from datassay.jobs.bench import BenchFindings

BENCH_FILES = ("bench.parquet", "summary.json")


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
    from datassay.cli.terminal_bench import bench_table
    from datassay.data.settings import check_seed
    from datassay.jobs.bench import bench as job
    from datassay.jobs.run import command_line
    from datassay.report.write import check_writable

    check_seed(seed)
    check_writable(out, BENCH_FILES)
    finish(
        lambda progress: job(cases or (), seed, command_line(), progress), write_bench, bench_table,
        out,
    )  # fmt: skip


def write_bench(findings: BenchFindings, out: Path) -> Path:
    """Write BENCH_FILES into a folder, both or none.

    Args:
        findings: what was measured.
        out: the folder; made where it does not exist.

    Returns:
        The path of the table.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    import pyarrow as pa

    from datassay.report.summary import standard_json
    from datassay.report.write import write_pages

    rows = [
        {"case": name, **asdict(found), "ratio": found.ratio}
        for name, found in findings.cases.items()
    ]
    text = standard_json({"facts": findings.facts, "cases": rows})
    write_pages(dict(zip(BENCH_FILES, (pa.Table.from_pylist(rows), text), strict=True)), out)
    return out / BENCH_FILES[0]
