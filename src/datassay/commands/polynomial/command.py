"""The command that fits a polynomial and says what it weighs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datassay.commands.old_options import (
    Data,
    DataOption,
    Ids,
    Noise,
    NoiseKind,
    Out,
    Seed,
    SourceColumn,
    Target,
    Task,
    ValFraction,
)
from datassay.commands.shell import (
    exits_clearly,
    finish,
    load_sets,
    number_or,
    whole_auto_or_none,
    with_noise,
)


@exits_clearly
def polynomial(
    data: Data = None,
    data_option: DataOption = None,
    out: Out = Path("polynomial"),
    degree: Annotated[int, typer.Option(help="Most inputs in a product.")] = 2,
    window: Annotated[
        str,
        typer.Option(
            help="Side of the square that covers the pixels of a product, odd; none for all "
            "products; auto: 3 for grey images, none for others."
        ),
    ] = "auto",
    solver: Annotated[
        str, typer.Option(help="exact, or batched: the average of fits to random batches.")
    ] = "exact",
    ridge: Annotated[
        str, typer.Option(help="Of the exact fit, or auto: smallest leave-one-out error.")
    ] = "auto",
    n_batches: Annotated[int, typer.Option(help="Of the batched fit.")] = 60,
    batch_size: Annotated[int, typer.Option(help="Of the batched fit, samples.")] = 2000,
    precision: Annotated[
        str, typer.Option(help="Of the sums: auto, float32, float64, or bfloat16 (exact fit only).")
    ] = "auto",
    store: Annotated[
        Path | None, typer.Option(help="Folder that lets an interrupted exact fit go on.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="polynomial.safetensors to score instead of fitting.", metavar="FILE"),
    ] = None,
    noise: Noise = 0.0,
    noise_kind: NoiseKind = "uniform",
    target: Target = None,
    ids: Ids = None,
    source: SourceColumn = None,
    task: Task = None,
    val_fraction: ValFraction = 0.2,
    seed: Seed = 0,
) -> None:
    """Fit a polynomial whose weights can be read, and take its predictions apart.

    Writes predictions.parquet (one row a validation sample), coefficients.parquet,
    polynomial.safetensors (the fit), summary.json and one page.

    Examples:
      datassay polynomial digits --out readable

      datassay polynomial mnist/ --solver batched --n-batches 60 --batch-size 2000

      datassay polynomial table.parquet --target price --degree 3 --ridge 10

      datassay polynomial mnist/ --store sums      # goes on where it was interrupted

      datassay polynomial usps/ --model readable/polynomial.safetensors
    """
    from datassay.commands.command import command_line
    from datassay.commands.polynomial.files import POLYNOMIAL_FILES, write_polynomial
    from datassay.commands.polynomial.job import run_polynomial
    from datassay.commands.polynomial.settings import PolynomialSettings
    from datassay.commands.polynomial.terminal import polynomial_table
    from datassay.report.write import check_writable

    settings = PolynomialSettings(
        degree=degree,
        window=whole_auto_or_none(window, "window", "an odd number"),
        solver=solver,
        ridge=number_or(ridge, "auto", "ridge"),
        n_batches=n_batches,
        batch_size=batch_size,
        precision=precision,
        store=store,
        model=model,
        seed=seed,
        command=command_line(),
    )
    check_writable(out, POLYNOMIAL_FILES)
    train, val = load_sets(data, data_option, target, ids, source, task, val_fraction, seed)
    train = with_noise(train, noise, noise_kind, seed)
    finish(
        lambda progress: run_polynomial(train, val, settings, progress),
        write_polynomial,
        polynomial_table,
        out,
    )
