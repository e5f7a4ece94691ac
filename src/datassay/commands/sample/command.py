"""`datassay sample`."""

from __future__ import annotations

from datassay.commands.command import Command
from datassay.commands.sample.settings import SampleSettings

COMMAND = Command(
    name="sample",
    help="""Sample a function where it changes most (Taylor-based sampling).

    Writes samples.parquet, samples.npz (x and y, for every other command), summary.json and one
    page, which asks whether a small network learns more from these points than from uniform ones.

    Examples:
      datassay sample runge --n-initial 8 --n-new 8 --initial grid --out sampled

      datassay sample bateman --n-initial 2000 --n-new 2000 --components 10 --epsilon 0.0005

      datassay sample simulator:drag --domain 0:1,-5:5 --derivatives finite --compare 0
    """,
    settings=SampleSettings,
    inputs=(),
    home="datassay.commands.sample",
    out="sampled",
    order=50,
)
