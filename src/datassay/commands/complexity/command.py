"""The command that says how many samples a network needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datassay.commands.old_options import (
    MODEL_HELP,
    Data,
    DataOption,
    Ids,
    Out,
    Seed,
    SourceColumn,
    Target,
    Task,
    ValFraction,
)
from datassay.commands.shell import exits_clearly, finish, load_sets

# Options of one mode; None tells that they were not given.
OF_DATA = ("model", "accuracy", "sizes", "repeats")
OF_TEACHERS = ("inputs", "width", "teachers", "students", "depth", "max_samples")


@exits_clearly
def complexity(
    data: Data = None,
    data_option: DataOption = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            help="Input dimensions d of teacher networks: 5:40 (eight values), 5:40:1 or 5,10,20.",
            show_default=False,
        ),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(help="Their widths m, written as --inputs. [default: 5]", show_default=False),
    ] = None,
    teachers: Annotated[
        int | None, typer.Option(help="Teachers a size. [default: 10]", show_default=False)
    ] = None,
    students: Annotated[
        int | None,
        typer.Option(help="Students a teacher and sample size. [default: 20]", show_default=False),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(help="Bisections after doubling. [default: 4]", show_default=False),
    ] = None,
    max_samples: Annotated[
        int | None,
        typer.Option(help="Largest sample size tried. [default: 4096]", show_default=False),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help=f"{MODEL_HELP} Here also an estimator, sklearn.svm:SVC. [default: mlp]",
            show_default=False,
        ),
    ] = None,
    accuracy: Annotated[
        list[float] | None,
        typer.Option(
            help="Wanted (of a regression: R²); may be repeated. [default: half the present error]",
            show_default=False,
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Training samples to fit to, as 50,100,200,400. [default: eight, up to all]",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="Fits a size. [default: 10]", show_default=False)
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps finished sizes, so that a second call goes on."),
    ] = None,
    out: Out = Path("complexity"),
    target: Target = None,
    ids: Ids = None,
    source: SourceColumn = None,
    task: Task = None,
    val_fraction: ValFraction = 0.2,
    seed: Seed = 0,
) -> None:
    """How many samples does a network need: for your data, or as a law of its size.

    With DATA: fits the model to growing parts, draws its learning curve and extrapolates it to the
    accuracy wanted. With --inputs or --width: how many samples recover a random teacher network,
    and the law. Writes one table (fits.parquet or trials.parquet), summary.json and one page.

    Examples:
      datassay complexity digits --model mlp --accuracy 0.98

      datassay complexity table.csv --target label --model sklearn.ensemble:RandomForestClassifier

      datassay complexity --inputs 5:40 --width 5 --store trials
    """
    given = locals()
    if inputs is None and width is None:
        _refuse(given, OF_TEACHERS, "needs --inputs or --width, which no data go with")
        sets = (data, data_option, target, ids, source, task, val_fraction, seed)
        _of_data(sets, model, accuracy, sizes, repeats, store, out, seed)
        return
    _refuse(given, ("data", "data_option"), "does not go with --inputs or --width")
    _refuse(given, OF_DATA, "needs DATA, which --inputs and --width do not go with")
    _of_teachers(inputs, width, teachers, students, depth, max_samples, store, out, seed)


def _refuse(given: dict, names: tuple[str, ...], why: str) -> None:
    from datassay.errors import SettingError

    for name in names:
        if given[name] is not None and given[name] != []:
            raise SettingError(
                f"{name.replace('_', '-')} {why}; got {given[name]}. See complexity --help."
            )


def _of_data(sets, model, accuracy, sizes, repeats, store, out: Path, seed: int) -> None:
    from datassay.commands.command import command_line
    from datassay.commands.complexity.curve.files import CURVE_FILES, write_curve
    from datassay.commands.complexity.curve.job import CurveSettings, run_curve
    from datassay.commands.complexity.curve.terminal import curve_table
    from datassay.report.write import check_writable

    settings = CurveSettings(
        model="mlp" if model is None else model,
        accuracy=tuple(accuracy or ()),
        sizes=None if sizes is None else whole_numbers(sizes, "sizes"),
        repeats=10 if repeats is None else repeats,
        store=store,
        seed=seed,
        command=command_line(),
    )
    check_writable(out, CURVE_FILES)
    train, val = load_sets(*sets)
    finish(
        lambda progress: run_curve(train, val, settings, progress), write_curve, curve_table, out
    )


def _of_teachers(
    inputs, width, teachers, students, depth, max_samples, store, out: Path, seed: int
) -> None:
    from datassay.commands.command import command_line
    from datassay.commands.complexity.teachers.files import TEACHER_FILES, write_teachers
    from datassay.commands.complexity.teachers.job import TeacherSettings, run_teachers
    from datassay.commands.complexity.teachers.terminal import teacher_table
    from datassay.report.write import check_writable

    numbers = {
        "teachers": teachers, "students": students, "depth": depth, "max_samples": max_samples
    }  # fmt: skip
    settings = TeacherSettings(
        inputs=(5,) if inputs is None else whole_numbers(inputs, "inputs"),
        width=(5,) if width is None else whole_numbers(width, "width"),
        store=store,
        seed=seed,
        command=command_line(),
        **{name: value for name, value in numbers.items() if value is not None},
    )
    check_writable(out, TEACHER_FILES)
    finish(lambda progress: run_teachers(settings, progress), write_teachers, teacher_table, out)


def whole_numbers(text: str, name: str, most: int = 8) -> tuple[int, ...]:
    """An option that is a list or a range of positive whole numbers.

    Args:
        text: "5,10,20", "5:40:5", or "5:40", which is at most so many values, evenly spaced.
        name: of the option.
        most: values of a range without a step.

    Returns:
        The numbers, ascending, each once.

    Raises:
        SettingError: it is neither, or a number is not positive.
    """
    import numpy as np

    from datassay.errors import SettingError

    rule = f"{name} must be whole numbers from 1, as 5,10,20 or 5:40 or 5:40:5; got {text!r}."
    ends = text.split(":")
    parts = text.split(",") if len(ends) == 1 else ends
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts) or len(ends) > 3:
        raise SettingError(rule)
    numbers = [int(part) for part in parts]
    if len(ends) == 1:
        return tuple(sorted(set(numbers)))
    if numbers[1] < numbers[0]:
        raise SettingError(rule)
    if len(ends) == 3:
        return tuple(range(numbers[0], numbers[1] + 1, numbers[2]))
    spaced = np.linspace(numbers[0], numbers[1], min(most, numbers[1] - numbers[0] + 1))
    return tuple(int(v) for v in np.unique(spaced.round()))
