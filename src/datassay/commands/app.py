"""The command line: check, call, keep. Everything it does is a function of the library."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import warnings
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.logging import RichHandler

import datassay
from datassay.commands.bench.command import COMMAND as BENCH
from datassay.commands.complexity.command import COMMAND as COMPLEXITY
from datassay.commands.lab.command import COMMAND as LAB
from datassay.commands.old_options import (
    Address,
    Adversarial,
    AllowTrained,
    Attribution,
    AttributionAt,
    BatchSize,
    Check,
    CurveSeeds,
    Data,
    DataOption,
    Device,
    Dynamics,
    Engine,
    Epsilon,
    Ids,
    Lr,
    Memory,
    Model,
    Noise,
    NoiseKind,
    Out,
    Outputs,
    Products,
    Projection,
    RankCorrelation,
    Reduction,
    Seed,
    Sigma,
    Smoothing,
    SourceColumn,
    Steps,
    Store,
    Subsets,
    Target,
    Task,
    Top,
    ValFraction,
    WeightDecay,
    Weights,
    Workers,
)
from datassay.commands.options import add_command
from datassay.commands.partition.command import partition
from datassay.commands.polynomial.command import polynomial
from datassay.commands.purify.command import purify
from datassay.commands.report.command import COMMAND as REPORT
from datassay.commands.sample.command import sample
from datassay.commands.shell import (
    err_console,
    exits_clearly,
    finish,
    load_sets,
    number_or,
    out_console,
    whole_auto_or_none,
    with_noise,
)
from datassay.commands.weigh.command import COMMAND as WEIGH

if TYPE_CHECKING:
    from datassay.commands.run.settings import RunSettings

# Retraining is many small parallel regions. Where another process wants the cores, threads spinning
# at their barriers make it 20 times slower; sleeping ones cost nothing measurable when alone. The
# runtime reads this once, when torch is first imported, so it stands here and yields to the user's.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = typer.Typer(
    name="datassay",
    help="Which training samples matter, and what to do about it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
KEPT_FILES = ("keep.parquet", "keep.json")


def _show_version(wanted: bool) -> bool:
    if wanted:
        out_console.print(f"datassay {datassay.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _configure(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    handler = RichHandler(console=err_console, show_time=False, show_path=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    logging.getLogger("datassay").setLevel(logging.INFO)


@app.command()
@exits_clearly
def run(
    data: Data = None,
    data_option: DataOption = None,
    model: Model = "mlp",
    out: Out = Path("report"),
    noise: Noise = 0.0,
    noise_kind: NoiseKind = "uniform",
    adversarial: Adversarial = 0.0,
    epsilon: Epsilon = 0.01,
    lr: Lr = "auto",
    steps: Steps = 2000,
    weight_decay: WeightDecay = 0.0,
    dynamics: Dynamics = "flow",
    reduction: Reduction = "sum",
    weights: Weights = None,
    allow_trained: AllowTrained = False,
    smoothing: Smoothing = "functional",
    sigma: Sigma = 1.0,
    batch_size: BatchSize = None,
    attribution: Attribution = "auto",
    attribution_at: AttributionAt = "start",
    top: Top = 5,
    subsets: Subsets = 0,
    projection: Projection = "auto",
    outputs: Outputs = "auto",
    rank_correlation: RankCorrelation = None,
    products: Products = "auto",
    device: Device = "cpu",
    memory: Memory = None,
    curve_seeds: CurveSeeds = 5,
    check: Check = 0,
    target: Target = None,
    ids: Ids = None,
    source: SourceColumn = None,
    task: Task = None,
    val_fraction: ValFraction = 0.2,
    seed: Seed = 0,
    store: Store = None,
    engine: Engine = "in_process",
    address: Address = None,
    workers: Workers = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show sizes and seconds, then exit.")
    ] = False,
) -> None:
    """Score every training sample and write one page, two tables and one summary.

    Examples:
      datassay run digits --out report

      datassay run digits --noise 0.1 --noise-kind pair --out noisy

      datassay run digits --adversarial 0.1 --epsilon 0.05 --out fooled

      datassay run reviews.csv --target sentiment --ids review_id --source shop

      datassay run digits --model mlp:width=32,depth=2 --attribution-at trained

      datassay run digits --model mlp:width=256 --check 20 --store kept

      datassay run mnist/ --model cnn --store kept

      datassay run mnist/ --model cnn --plan
    """
    settings = _settings(locals())  # at this point locals() are the options above, no more
    from datassay.commands.run.files import WRITERS, write_results
    from datassay.commands.run.job import run as run_job
    from datassay.commands.terminal import results_table
    from datassay.report.write import check_writable

    if not plan:
        check_writable(out, WRITERS)
    train, val = load_sets(data, data_option, target, ids, source, task, val_fraction, seed)
    noisy = with_noise(train, noise, noise_kind, seed)
    if plan:
        return _print_plan(noisy, val, settings)

    def compute(progress):
        given, fooled = _fooled(train, noisy, settings, adversarial, epsilon, progress)
        return run_job(given, val, settings, progress, adversarial=fooled)

    finish(compute, write_results, results_table, out)


@app.command()
@exits_clearly
def score(
    data: Data = None,
    data_option: DataOption = None,
    model: Model = "mlp",
    out: Out = Path("scores"),
    noise: Noise = 0.0,
    noise_kind: NoiseKind = "uniform",
    adversarial: Adversarial = 0.0,
    epsilon: Epsilon = 0.01,
    lr: Lr = "auto",
    steps: Steps = 2000,
    weight_decay: WeightDecay = 0.0,
    dynamics: Dynamics = "flow",
    reduction: Reduction = "sum",
    weights: Weights = None,
    allow_trained: AllowTrained = False,
    smoothing: Smoothing = "functional",
    sigma: Sigma = 1.0,
    batch_size: BatchSize = None,
    attribution: Attribution = "auto",
    top: Top = 5,
    subsets: Subsets = 0,
    projection: Projection = "auto",
    outputs: Outputs = "auto",
    rank_correlation: RankCorrelation = None,
    products: Products = "auto",
    device: Device = "cpu",
    memory: Memory = None,
    target: Target = None,
    ids: Ids = None,
    source: SourceColumn = None,
    task: Task = None,
    val_fraction: ValFraction = 0.2,
    seed: Seed = 0,
    store: Store = None,
    engine: Engine = "in_process",
    address: Address = None,
    workers: Workers = None,
) -> None:
    """Score every sample without retraining any network, in seconds.

    Takes what `run` takes and writes the same files.

    Examples:
      datassay score digits --out scores

      datassay score table.parquet --target label --source clinic --attribution loss --top 20

      datassay score table.csv --target label --subsets 10

      datassay score digits --smoothing sgd --batch-size 64 --lr 0.0005 --weight-decay 0.01
    """
    run(**locals(), curve_seeds=0)  # at this point locals() are the options above, no more


@app.command()
@exits_clearly
def summarize(
    data: Data = None,
    data_option: DataOption = None,
    fraction: Annotated[float, typer.Option(help="Of the samples to keep, in (0, 1].")] = 0.5,
    iterative: Annotated[
        bool, typer.Option("--iterative", help="Score again after every 5 % removed.")
    ] = False,
    drop_suspects: Annotated[
        bool, typer.Option("--drop-suspects", help="Remove likely label errors first.")
    ] = False,
    model: Model = "mlp",
    out: Out = Path("summary"),
    lr: Lr = "auto",
    steps: Steps = 2000,
    weight_decay: WeightDecay = 0.0,
    dynamics: Dynamics = "flow",
    reduction: Reduction = "sum",
    weights: Weights = None,
    allow_trained: AllowTrained = False,
    memory: Memory = None,
    target: Target = None,
    ids: Ids = None,
    source: SourceColumn = None,
    task: Task = None,
    val_fraction: ValFraction = 0.2,
    seed: Seed = 0,
) -> None:
    """Choose which samples to keep, removing those of lowest information.

    Writes keep.parquet, one row a sample to keep, and keep.json.

    Examples:
      datassay summarize digits --fraction 0.5 --out half

      datassay summarize digits --fraction 0.1 --iterative --drop-suspects --out tenth
    """
    settings = _settings(locals())
    from datassay.commands.run.job import keep_set
    from datassay.commands.terminal import ProgressDisplay, kept_table
    from datassay.report.write import check_writable, write_pages

    check_writable(out, KEPT_FILES)
    train, val = load_sets(data, data_option, target, ids, source, task, val_fraction, seed)
    with ProgressDisplay(err_console) as progress:
        kept, facts = keep_set(
            train, val, settings, fraction, iterative, drop_suspects, progress=progress
        )
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    write_pages(dict(zip(KEPT_FILES, (kept.to_table(), text), strict=True)), out)
    out_console.print(*kept_table(train, kept, facts["warnings"]), sep="\n")
    out_console.print(str(out / KEPT_FILES[0]), soft_wrap=True)


def _fooled(train, noisy, settings, fraction: float, epsilon: float, progress):
    """The noisy samples with adversarial inputs; the network to fool learns the true labels."""
    from datassay.commands.run.job import with_adversarial

    if fraction == 0:
        return noisy, None
    found = with_adversarial(train, settings, fraction, epsilon, progress)
    return replace(noisy, x=found.samples.x), found


def _settings(options: dict[str, Any]) -> RunSettings:
    """The settings that options of the same names give."""
    from datassay.commands.command import command_line
    from datassay.commands.run.job import RunSettings

    named = {f.name: options[f.name] for f in fields(RunSettings) if f.name in options}
    named["lr"] = number_or(options["lr"], "auto", "lr")
    if "projection" in options:
        named["projection"] = whole_auto_or_none(options["projection"], "projection")
    if options["memory"] is not None:
        named["memory"] = options["memory"] * 1e9
    return RunSettings(**named, command=command_line())


def _print_plan(train, val, settings) -> None:
    from datassay.commands.run.steps.plan import plan
    from datassay.commands.terminal import plan_table

    out_console.print(*plan_table(plan(train, val, settings)), sep="\n")


app.command()(purify)
app.command()(partition)
add_command(app, WEIGH)
app.command()(sample)
app.command()(polynomial)
add_command(app, COMPLEXITY)
add_command(app, LAB)
add_command(app, REPORT)
add_command(app, BENCH)


def main() -> None:
    """Run the command line: what libraries warn about is theirs to see, unless asked for."""
    for stream in (sys.stdout, sys.stderr):
        # A label that the terminal's (or the pipe's) encoding lacks must not end a finished run.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    app()
