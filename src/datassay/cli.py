"""The command line: check, call, keep. Everything it does is a function of the library."""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler

from datassay.errors import DatassayError, SettingError

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
# What a user named (a file, a class) prints as it is: no markup, no :emoji:, no coloured numbers.
out_console = Console(markup=False, emoji=False, highlight=False)
err_console = Console(markup=False, emoji=False, highlight=False, stderr=True)

DATA_HELP = (
    "digits, breast_cancer, wine, iris, diabetes, moons, or a path: .npz, .csv, .parquet, a folder "
    "of MNIST-style IDX files, a folder of class-named image folders."
)
MODEL_HELP = (
    "mlp, mlp:width=1024,depth=2, linear, logistic, cnn, lenet5, or package.module:factory."
)
KEPT_FILES = ("keep.parquet", "keep.json")
Data = Annotated[str | None, typer.Argument(help=DATA_HELP, show_default=False)]
DataOption = Annotated[
    str | None, typer.Option("--data", help="The same as DATA.", show_default=False)
]
Out = Annotated[Path, typer.Option(help="Folder for the results; made if it does not exist.")]
Seed = Annotated[int, typer.Option(help="Of split, noise, weights, projection and batches.")]
Target = Annotated[str | None, typer.Option(help="Label column of a table (default: the last).")]
Ids = Annotated[str | None, typer.Option(help="Id column of a table (default: row numbers).")]
Task = Annotated[str | None, typer.Option(help="classification or regression (default: by y).")]
ValFraction = Annotated[float, typer.Option(help="Split off where there is no validation part.")]
Noise = Annotated[float, typer.Option(help="Fraction of training labels to flip, truth kept.")]
NoiseKind = Annotated[str, typer.Option(help="uniform, or pair (each class to the next).")]
Model = Annotated[str, typer.Option(help=MODEL_HELP)]
Weights = Annotated[
    Path | None, typer.Option(help=".safetensors or state dict, trained on OTHER data.")
]
AllowTrained = Annotated[
    bool, typer.Option("--allow-trained", help="Accept weights that have seen these labels.")
]
Lr = Annotated[str, typer.Option(help="Learning rate, or auto: 0.5/λ_max of the kernel.")]
Steps = Annotated[int, typer.Option(help="Training steps of the linearised network.")]
WeightDecay = Annotated[float, typer.Option(help="Penalty towards the initial weights.")]
Reduction = Annotated[str, typer.Option(help="sum or mean loss: what lr and decay refer to.")]
Dynamics = Annotated[str, typer.Option(help="flow, descent or converged.")]
Projection = Annotated[str, typer.Option(help="auto, none (exact), or features a tensor.")]
Outputs = Annotated[str, typer.Option(help="auto, joint or averaged kernel over the outputs.")]
Memory = Annotated[float | None, typer.Option(help="GB to stay within (default: what is free).")]
CurveSeeds = Annotated[int, typer.Option(help="Networks retrained a point; 0 skips retraining.")]


def exits_clearly(command: Callable[..., None]) -> Callable[..., None]:
    """Bad input: one line and status 2. Interruption: one line and status 130. No traceback."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except DatassayError as error:
            err_console.print(f"Error: {error}", style="red", soft_wrap=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as stop:
            err_console.print("Interrupted. Earlier results are as they were.")
            raise typer.Exit(130) from stop

    return guarded


@app.callback()
def _configure() -> None:
    handler = RichHandler(console=err_console, show_time=False, show_path=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])


@app.command()
@exits_clearly
def run(
    data: Data = None,
    data_option: DataOption = None,
    model: Model = "mlp",
    out: Out = Path("report"),
    noise: Noise = 0.0,
    noise_kind: NoiseKind = "uniform",
    lr: Lr = "auto",
    steps: Steps = 2000,
    weight_decay: WeightDecay = 0.0,
    dynamics: Dynamics = "flow",
    reduction: Reduction = "sum",
    weights: Weights = None,
    allow_trained: AllowTrained = False,
    projection: Projection = "auto",
    outputs: Outputs = "auto",
    memory: Memory = None,
    curve_seeds: CurveSeeds = 5,
    target: Target = None,
    ids: Ids = None,
    task: Task = None,
    val_fraction: ValFraction = 0.2,
    seed: Seed = 0,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show sizes and seconds, then exit.")
    ] = False,
) -> None:
    """Score every training sample and write one page, one table and one summary.

    Examples:
      datassay run digits --out report

      datassay run digits --noise 0.1 --noise-kind pair --out noisy

      datassay run reviews.csv --target sentiment --ids review_id --model mlp:width=256

      datassay run mnist/ --model cnn --plan
    """
    from datassay.report.write import check_writable, write_results
    from datassay.run import RunSettings, command_line
    from datassay.run import run as run_job
    from datassay.terminal import ProgressDisplay, results_table

    settings = RunSettings(
        model=model,
        weights=weights,
        allow_trained=allow_trained,
        lr=_number_or(lr, "auto", "lr"),
        steps=steps,
        weight_decay=weight_decay,
        reduction=reduction,
        dynamics=dynamics,
        projection=_projection(projection),
        outputs=outputs,
        memory=None if memory is None else memory * 1e9,
        curve_seeds=curve_seeds,
        seed=seed,
        command=command_line(),
    )
    if not plan:
        check_writable(out)
    train, val = _load(data, data_option, target, ids, task, val_fraction, seed)
    train = _with_noise(train, noise, noise_kind, seed)
    if plan:
        _print_plan(train, val, settings)
        return
    with ProgressDisplay(err_console) as progress:
        findings = run_job(train, val, settings, progress)
        page = write_results(findings, out)
    out_console.print(*results_table(findings), sep="\n")
    out_console.print(str(page), soft_wrap=True)


@app.command()
@exits_clearly
def score(
    data: Data = None,
    data_option: DataOption = None,
    model: Model = "mlp",
    out: Out = Path("scores"),
    noise: Noise = 0.0,
    noise_kind: NoiseKind = "uniform",
    lr: Lr = "auto",
    steps: Steps = 2000,
    weight_decay: WeightDecay = 0.0,
    dynamics: Dynamics = "flow",
    reduction: Reduction = "sum",
    weights: Weights = None,
    allow_trained: AllowTrained = False,
    projection: Projection = "auto",
    outputs: Outputs = "auto",
    memory: Memory = None,
    target: Target = None,
    ids: Ids = None,
    task: Task = None,
    val_fraction: ValFraction = 0.2,
    seed: Seed = 0,
) -> None:
    """Score every sample without retraining any network, in seconds.

    Examples:
      datassay score digits --out scores

      datassay score table.parquet --target label --dynamics converged --weight-decay 0.1
    """
    run(
        data=data,
        data_option=data_option,
        model=model,
        out=out,
        noise=noise,
        noise_kind=noise_kind,
        lr=lr,
        steps=steps,
        weight_decay=weight_decay,
        dynamics=dynamics,
        reduction=reduction,
        weights=weights,
        allow_trained=allow_trained,
        projection=projection,
        outputs=outputs,
        memory=memory,
        curve_seeds=0,
        target=target,
        ids=ids,
        task=task,
        val_fraction=val_fraction,
        seed=seed,
    )


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
    import pyarrow.parquet as pq

    from datassay.report.write import check_writable, write_files
    from datassay.run import RunSettings, command_line, keep_set
    from datassay.terminal import ProgressDisplay, kept_table

    settings = RunSettings(
        model=model,
        weights=weights,
        allow_trained=allow_trained,
        lr=_number_or(lr, "auto", "lr"),
        steps=steps,
        weight_decay=weight_decay,
        reduction=reduction,
        dynamics=dynamics,
        memory=None if memory is None else memory * 1e9,
        seed=seed,
        command=command_line(),
    )
    check_writable(out, KEPT_FILES)
    train, val = _load(data, data_option, target, ids, task, val_fraction, seed)
    with ProgressDisplay(err_console) as progress:
        kept, facts = keep_set(
            train, val, settings, fraction, iterative, drop_suspects, progress=progress
        )
    table, text = kept.to_table(), json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    writers = (lambda to: pq.write_table(table, to), lambda to: to.write_text(text, "utf-8"))
    write_files(dict(zip(KEPT_FILES, writers, strict=True)), out)
    out_console.print(*kept_table(train, kept, facts["warnings"]), sep="\n")
    out_console.print(str(out / KEPT_FILES[0]), soft_wrap=True)


def _load(data, data_option, target, ids, task, val_fraction, seed):
    from datassay.data.load import load

    if (data is None) == (data_option is None):
        raise SettingError("DATA must be given once, as an argument or as --data; see --help.")
    source = data_option if data is None else data
    settings = {"target": target, "ids": ids, "task": task}
    return load(source, **settings, val_fraction=val_fraction, seed=seed)


def _with_noise(train, noise: float, kind: str, seed: int):
    from datassay.data.noise import add_label_noise

    if kind not in {"uniform", "pair"}:
        raise SettingError(f"noise-kind must be 'uniform' or 'pair'; got {kind!r}.")
    if noise == 0:
        return train
    return add_label_noise(train, noise, kind=kind, seed=seed)


def _print_plan(train, val, settings) -> None:
    from datassay.plan import plan
    from datassay.terminal import plan_table

    out_console.print(*plan_table(plan(train, val, settings)), sep="\n")


def _number_or(text: str, word: str, name: str) -> float | str:
    if text == word:
        return word
    try:
        return float(text)
    except ValueError as error:
        raise SettingError(f"{name} must be a number or {word!r}; got {text!r}.") from error


def _projection(text: str) -> int | str | None:
    if text in {"auto", "none"}:
        return None if text == "none" else "auto"
    if not text.isdecimal():
        raise SettingError(f"projection must be 'auto', 'none' or a whole number; got {text!r}.")
    return int(text)


def main() -> None:
    """Run the command line: what libraries warn about is theirs to see, unless asked for."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    app()
