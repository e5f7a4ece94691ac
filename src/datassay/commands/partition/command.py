"""`datassay partition`."""

from __future__ import annotations

from datassay.commands.command import Command
from datassay.commands.partition.settings import PartitionSettings

COMMAND = Command(
    name="partition",
    help="""Divide mixed samples into blocks that one linear model each explains.

    Writes blocks.parquet (one row a sample), summary.json and one page.

    Examples:
      datassay partition routable --out blocks

      datassay partition sd2 --blocks 2

      datassay partition table.parquet --target label --source clinic --max-blocks 3
    """,
    settings=PartitionSettings,
    home="datassay.commands.partition",
    out="blocks",
    order=30,
)
