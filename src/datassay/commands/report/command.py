"""The command that compares what several runs said of the same samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datassay.commands.old_options import Out
from datassay.commands.shell import exits_clearly, finish

Folders = Annotated[
    list[Path],
    typer.Argument(help="Two or more, each the --out of a run or score.", show_default=False),
]


@exits_clearly
def report(folders: Folders, out: Out = Path("compared")) -> None:
    """Compare runs: other seeds, other networks, or before and after labels were mended.

    Joins their scores by id: do they agree, which labels do all of them suspect, which samples
    changed most. Writes consensus.parquet, summary.json and one page; computes nothing anew.

    Examples:
      datassay score digits --seed 0 --out seed0

      datassay score digits --seed 1 --out seed1

      datassay report seed0 seed1 --out compared
    """
    from datassay.commands.command import command_line
    from datassay.commands.report.files import CONSENSUS_FILES, write_consensus
    from datassay.commands.report.job import run_report
    from datassay.commands.report.terminal import consensus_table
    from datassay.report.write import check_writable

    check_writable(out, CONSENSUS_FILES)
    finish(lambda _: run_report(folders, command_line()), write_consensus, consensus_table, out)
