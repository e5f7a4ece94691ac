"""The command that says how much each training sample should count."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datassay.commands.options import (
    Data,
    DataOption,
    Ids,
    Model,
    Noise,
    NoiseKind,
    Out,
    Seed,
    SourceColumn,
    Target,
    Task,
    ValFraction,
)
from datassay.commands.shell import exits_clearly, finish, load_sets, with_noise


@exits_clearly
def weigh(
    data: Data = None,
    data_option: DataOption = None,
    model: Model = "mlp",
    out: Out = Path("weights"),
    method: Annotated[
        str, typer.Option(help="local_variance, class_balanced, self_paced or active_bias.")
    ] = "local_variance",
    features: Annotated[
        str,
        typer.Option(
            help="Where neighbours are searched: inputs, model (what enters the network's last "
            "layer), or auto: inputs for rows of at most 50 columns."
        ),
    ] = "auto",
    neighbors: Annotated[
        int, typer.Option(help="k, the sample itself among them: at least 2.")
    ] = 20,
    max_ratio: Annotated[
        float, typer.Option(help="m, the heaviest weight over the lightest possible.")
    ] = 40,
    search: Annotated[str, typer.Option(help="Neighbours: exact, approximate or auto.")] = "auto",
    density: Annotated[
        bool, typer.Option("--density", help="Divide by the density of the samples.")
    ] = False,
    tune: Annotated[
        int, typer.Option(help="Trials of a search of k and m (needs datassay[tune]); 0: none.")
    ] = 0,
    seeds: Annotated[
        int, typer.Option(help="Trainings with and without the weights; 0 does not try them.")
    ] = 10,
    weights: Annotated[
        Path | None,
        typer.Option(help=".safetensors or state dict of the trained network (default: train it)."),
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
    """Weigh the training samples, and see whether that helps a network.

    Writes weights.parquet (one row a sample, sample_weight with mean 1), summary.json and one page.

    Examples:
      datassay weigh moons --out weights

      datassay weigh table.parquet --target label --ids key --neighbors 30 --max-ratio 20

      datassay weigh photos/ --model lenet5 --weights trained.safetensors

      datassay weigh digits --method active_bias --out uncertain
    """
    from datassay.commands.command import command_line
    from datassay.commands.weigh.files import WEIGH_FILES, write_weights
    from datassay.commands.weigh.job import run_weigh
    from datassay.commands.weigh.settings import WeighSettings
    from datassay.commands.weigh.terminal import weigh_table
    from datassay.report.write import check_writable

    settings = WeighSettings(
        method=method,
        features=features,
        model=model,
        weights=weights,
        n_neighbors=neighbors,
        max_ratio=max_ratio,
        search=search,
        density=density,
        tune=tune,
        seeds=seeds,
        seed=seed,
        command=command_line(),
    )
    check_writable(out, WEIGH_FILES)
    train, val = load_sets(data, data_option, target, ids, source, task, val_fraction, seed)
    train = with_noise(train, noise, noise_kind, seed)
    finish(
        lambda progress: run_weigh(train, val, settings, progress), write_weights, weigh_table, out
    )
