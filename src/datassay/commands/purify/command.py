"""`datassay purify`."""

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
    Noise,
    NoiseKind,
    Out,
    Ridge,
    Seed,
    SourceColumn,
    Target,
    Task,
    ValFraction,
)
from datassay.commands.shell import exits_clearly, finish, load_sets, with_noise


@exits_clearly
def purify(
    data: Data = None,
    data_option: DataOption = None,
    model: BlockModel = "logistic",
    out: Out = Path("purified"),
    order: Annotated[
        str,
        typer.Option(help="Influence auto, adjoint, fixed, step, retrain; rivals loss, random."),
    ] = "auto",
    stop: Annotated[
        str, typer.Option(help="Rule: auto, held_out, validation, inflection or none.")
    ] = "auto",
    ridge: Ridge = 1e-4,
    damping: Damping = 0.01,
    step: Annotated[
        int | None,
        typer.Option(
            help="Samples removed a step (default: one in a hundred, networks one in forty)."
        ),
    ] = None,
    max_fraction: Annotated[
        float, typer.Option(help="Never remove more than this, in (0, 1).")
    ] = 0.5,
    min_per_class: Annotated[int, typer.Option(help="A class is never left with fewer.")] = 10,
    beyond: Annotated[int, typer.Option(help="Steps to look at beyond the stop.")] = 5,
    rival: Annotated[
        bool, typer.Option("--rival/--no-rival", help="Remove by plain loss too, to compare.")
    ] = True,
    noise: Noise = 0.0,
    noise_kind: NoiseKind = "uniform",
    target: Target = None,
    ids: Ids = None,
    source: SourceColumn = None,
    task: Task = None,
    val_fraction: ValFraction = 0.2,
    seed: Seed = 0,
) -> None:
    """Remove the samples that do not belong to the majority, and stop when they are gone.

    Writes purified.parquet (one row a sample), keep.parquet, trace.parquet, summary.json and one
    page. A validation part that came with the data decides when to stop; without one no clean set
    is needed.

    Examples:
      datassay purify sd2 --out purified

      datassay purify digits --noise 0.3 --noise-kind pair --out noisy

      datassay purify table.parquet --target label --ids key --max-fraction 0.3
    """
    from datassay.commands.command import command_line
    from datassay.commands.purify.files import PURIFY_FILES, write_purification
    from datassay.commands.purify.job import PurifySettings, run_purify
    from datassay.commands.purify.terminal import purify_table
    from datassay.report.write import check_writable

    settings = PurifySettings(
        model=model,
        order=order,
        stop=stop,
        ridge=ridge,
        damping=damping,
        step=step,
        max_fraction=max_fraction,
        min_per_class=min_per_class,
        beyond=beyond,
        rival=rival,
        seed=seed,
        command=command_line(),
    )
    check_writable(out, PURIFY_FILES)
    train, val = load_sets(data, data_option, target, ids, source, task, val_fraction, seed)
    train = with_noise(train, noise, noise_kind, seed)
    finish(
        lambda progress: run_purify(train, val, settings, progress),
        write_purification,
        purify_table,
        out,
    )
