"""`datassay purify`."""

from __future__ import annotations

from datassay.commands.command import Command
from datassay.commands.inputs import DataInputs, NoiseInputs
from datassay.commands.purify.settings import PurifySettings

COMMAND = Command(
    name="purify",
    help="""Remove the samples that do not belong to the majority, and stop when they are gone.

    Writes purified.parquet (one row a sample), keep.parquet, trace.parquet, summary.json and one
    page. A validation part that came with the data decides when to stop; without one no clean set
    is needed.

    Examples:
      datassay purify sd2 --out purified

      datassay purify digits --noise 0.3 --noise-kind pair --out noisy

      datassay purify table.parquet --target label --ids key --max-fraction 0.3
    """,
    settings=PurifySettings,
    inputs=(NoiseInputs, DataInputs),
    home="datassay.commands.purify",
    out="purified",
    order=20,
)
