"""`datassay partition`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datassay.commands.old_options import (
    BlockModel,
    Damping,
    Data,
    DataOption,
    Ids,
    Out,
    Ridge,
    Seed,
    SourceColumn,
    Target,
    Task,
    ValFraction,
)
from datassay.commands.shell import exits_clearly, finish, load_sets


@exits_clearly
def partition(
    data: Data = None,
    data_option: DataOption = None,
    model: BlockModel = "logistic",
    out: Out = Path("blocks"),
    blocks: Annotated[
        int | None, typer.Option(help="How many (default: by held-out likelihood).")
    ] = None,
    max_blocks: Annotated[int, typer.Option(help="Most to try where --blocks is not given.")] = 4,
    gate: Annotated[
        str, typer.Option(help="Blocks depend on the input: on, off, or auto by what predicts.")
    ] = "auto",
    ridge: Ridge = 1e-4,
    damping: Damping = 0.01,
    restarts: Annotated[int, typer.Option(help="Random starts of each mixture.")] = 8,
    target: Target = None,
    ids: Ids = None,
    source: SourceColumn = None,
    task: Task = None,
    val_fraction: ValFraction = 0.2,
    seed: Seed = 0,
) -> None:
    """Divide mixed samples into blocks that one linear model each explains.

    Writes blocks.parquet (one row a sample), summary.json and one page.

    Examples:
      datassay partition routable --out blocks

      datassay partition sd2 --blocks 2

      datassay partition table.parquet --target label --source clinic --max-blocks 3
    """
    from datassay.commands.command import command_line
    from datassay.commands.partition.files import PARTITION_FILES, write_partition
    from datassay.commands.partition.job import PartitionSettings, run_partition
    from datassay.commands.partition.terminal import partition_table
    from datassay.report.write import check_writable

    settings = PartitionSettings(
        model=model,
        blocks=blocks,
        max_blocks=max_blocks,
        gate=gate,
        ridge=ridge,
        damping=damping,
        restarts=restarts,
        seed=seed,
        command=command_line(),
    )
    check_writable(out, PARTITION_FILES)
    train, val = load_sets(data, data_option, target, ids, source, task, val_fraction, seed)
    finish(
        lambda progress: run_partition(train, val, settings, progress),
        write_partition,
        partition_table,
        out,
    )
