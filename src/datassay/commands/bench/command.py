"""`datassay bench`."""

from __future__ import annotations

from datassay.commands.bench.settings import BenchSettings
from datassay.commands.command import Command

COMMAND = Command(
    name="bench",
    help="""Measure what the library claims, here: against the plain way, answers compared.

    Every case does the same work twice on data that comes along, and says how far both answers
    agree. About 15 seconds on two cores. Writes bench.parquet, summary.json and one page.

    Examples:
      datassay bench

      datassay bench leave-one-out labels --seed 1 --out measured
    """,
    settings=BenchSettings,
    inputs=(),
    home="datassay.commands.bench",
    out="bench",
    order=100,
)
