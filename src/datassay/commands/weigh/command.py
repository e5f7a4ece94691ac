"""`datassay weigh`."""

from __future__ import annotations

from datassay.commands.command import Command
from datassay.commands.inputs import DataInputs, NoiseInputs
from datassay.commands.weigh.settings import WeighSettings

COMMAND = Command(
    name="weigh",
    help="""Weigh the training samples, and see whether that helps a network.

    Writes weights.parquet (one row a sample, sample_weight with mean 1), summary.json and one page.

    Examples:
      datassay weigh moons --out weights

      datassay weigh table.parquet --target label --ids key --neighbors 30 --max-ratio 20

      datassay weigh photos/ --model lenet5 --weights trained.safetensors

      datassay weigh digits --method active_bias --out uncertain
    """,
    settings=WeighSettings,
    inputs=(NoiseInputs, DataInputs),
    home="datassay.commands.weigh",
    out="weights",
    order=40,
)
