"""`datassay partition`."""

from dataclasses import dataclass
from functools import partial

from datassay.commands.command import Command
from datassay.commands.inputs import (
    BLOCK_MODEL_HELP,
    DAMPING_HELP,
    MODEL,
    RIDGE_HELP,
    SEED_HELP,
)
from datassay.methods.partition.settings import Division
from datassay.rules import at_least
from datassay.setting import setting


@dataclass(frozen=True)
class PartitionSettings:
    """Settings of the job; the defaults are those of `datassay partition DATA`."""

    model: str = setting(MODEL, BLOCK_MODEL_HELP)
    blocks: int | None = setting(
        Division.n_blocks,
        "How many (default: by held-out likelihood).",
        rule=partial(at_least, minimum=1),
    )
    max_blocks: int = setting(
        Division.max_blocks, "Most to try where --blocks is not given.", needs="!blocks"
    )
    gate: str = setting(
        Division.gate, "Blocks depend on the input: on, off, or auto by what predicts."
    )
    ridge: float = setting(Division.ridge, RIDGE_HELP)
    damping: float = setting(Division.damping, DAMPING_HELP)
    restarts: int = setting(Division.restarts, "Random starts of each mixture.")
    seed: int = setting(Division.seed, SEED_HELP)
    command: str = ""


COMMAND = Command(
    name="partition",
    common="target ids val_fraction noise model blocks gate seed",
    help="""Divide mixed samples into blocks that one linear model each explains.

    Writes blocks.parquet (one row per sample), summary.json and one page.

    Examples:
      datassay partition routable --out blocks
      datassay partition sd2 --blocks 2
      datassay partition table.parquet --target label --source clinic --max-blocks 3
    """,
    settings=PartitionSettings,
    home="datassay.methods.partition.division",
    out="blocks",
    order=30,
)
