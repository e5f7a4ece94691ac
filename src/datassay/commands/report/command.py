"""`datassay report`."""

from __future__ import annotations

from datassay.commands.command import Command
from datassay.commands.report.settings import ReportSettings

COMMAND = Command(
    name="report",
    help="""Compare runs: other seeds, other networks, or before and after labels were mended.

    Joins their scores by id: do they agree, which labels do all of them suspect, which samples
    changed most. Writes consensus.parquet, summary.json and one page; computes nothing anew.

    Examples:
      datassay score digits --seed 0 --out seed0

      datassay score digits --seed 1 --out seed1

      datassay report seed0 seed1 --out compared
    """,
    settings=ReportSettings,
    inputs=(),
    home="datassay.commands.report",
    out="compared",
    order=90,
)
