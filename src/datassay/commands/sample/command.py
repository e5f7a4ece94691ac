"""The command that adds points where a function changes most."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datassay.commands.old_options import Out, Seed
from datassay.commands.shell import exits_clearly, finish

Function = Annotated[
    str,
    typer.Argument(
        help="runge, tanh, bateman, bateman:M, or package.module:function of [n, d] points.",
        show_default=False,
    ),
]


@exits_clearly
def sample(
    function: Function,
    domain: Annotated[
        str | None,
        typer.Option(help="low:high of each input, as 0:1,0:10 (default: the problem's own)."),
    ] = None,
    n_initial: Annotated[int, typer.Option(help="Points to look at first.")] = 100,
    n_new: Annotated[int, typer.Option(help="Points to add.")] = 100,
    order: Annotated[int, typer.Option(help="Highest order of derivatives.")] = 2,
    epsilon: Annotated[
        float, typer.Option(help="Weighs the orders: a variance, in input units squared.")
    ] = 1e-3,
    components: Annotated[int, typer.Option(help="Gaussians in the density.")] = 3,
    initial: Annotated[str, typer.Option(help="First points: uniform, or grid.")] = "uniform",
    derivatives: Annotated[
        str, typer.Option(help="auto, autograd (torch), or finite (differences of a black box).")
    ] = "auto",
    compare: Annotated[
        int, typer.Option(help="Networks trained on each design, to see if it helps; 0: none.")
    ] = 10,
    out: Out = Path("sampled"),
    seed: Seed = 0,
) -> None:
    """Sample a function where it changes most (Taylor-based sampling).

    Writes samples.parquet, samples.npz (x and y, for every other command), summary.json and one
    page, which asks whether a small network learns more from these points than from uniform ones.

    Examples:
      datassay sample runge --n-initial 8 --n-new 8 --initial grid --out sampled

      datassay sample bateman --n-initial 2000 --n-new 2000 --components 10 --epsilon 0.0005

      datassay sample simulator:drag --domain 0:1,-5:5 --derivatives finite --compare 0
    """
    from datassay.commands.command import command_line
    from datassay.commands.sample.files import SAMPLING_FILES, write_sampling
    from datassay.commands.sample.job import SampleSettings, run_sample
    from datassay.commands.sample.terminal import sampling_table
    from datassay.report.write import check_writable

    settings = SampleSettings(
        function=function,
        domain=domain,
        n_initial=n_initial,
        n_new=n_new,
        order=order,
        epsilon=epsilon,
        components=components,
        initial=initial,
        derivatives=derivatives,
        compare=compare,
        seed=seed,
        command=command_line(),
    )
    check_writable(out, SAMPLING_FILES)
    finish(lambda progress: run_sample(settings, progress), write_sampling, sampling_table, out)
