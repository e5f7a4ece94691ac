"""What every command shares: where it prints, how it fails, how it reads its data."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console, RenderableType

from datassay.commands.inputs import number_or as number_or
from datassay.commands.inputs import whole_auto_or_none as whole_auto_or_none
from datassay.errors import DatassayError, SettingError
from datassay.progress import Progress

if TYPE_CHECKING:
    from datassay.data.samples import SampleSet

F = TypeVar("F")  # what a command finds

# What a user named (a file, a class) prints as it is: no markup, no :emoji:, no coloured numbers.
out_console = Console(markup=False, emoji=False, highlight=False)
err_console = Console(markup=False, emoji=False, highlight=False, stderr=True)


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


def finish(
    compute: Callable[[Progress], F],
    write: Callable[[F, Path], Path],
    table: Callable[[F], Iterable[RenderableType]],
    out: Path,
) -> None:
    """Compute with progress shown, write the files, print a short table and where the page is."""
    from datassay.commands.terminal import ProgressDisplay

    with ProgressDisplay(err_console) as progress:
        findings = compute(progress)
        page = write(findings, out)
    out_console.print(*table(findings), sep="\n")
    out_console.print(str(page), soft_wrap=True)


def load_sets(
    data: str | None,
    data_option: str | None,
    target: str | None,
    ids: str | None,
    sources: str | None,
    task: str | None,
    val_fraction: float,
    seed: int,
) -> tuple[SampleSet, SampleSet]:
    """The training and the validation set that the options name.

    Args:
        data: the argument.
        data_option: the option of the same meaning.
        target: label column of a table.
        ids: id column of a table.
        sources: column of a table that says where each row came from.
        task: "classification", "regression" or None.
        val_fraction: split off where there is no validation part.
        seed: of the split.

    Returns:
        (train, val).

    Raises:
        SettingError: the data are given twice or not at all.
        DataError: they cannot be used.
    """
    from datassay.data.load import load

    if (data is None) == (data_option is None):
        raise SettingError("DATA must be given once, as an argument or as --data; see --help.")
    given = data_option if data is None else data
    settings = {"target": target, "ids": ids, "source": sources, "task": task}
    return load(given, **settings, val_fraction=val_fraction, seed=seed)


def with_noise(train: SampleSet, noise: float, kind: str, seed: int) -> SampleSet:
    """The samples with labels flipped on purpose, where that is asked for.

    Args:
        train: the samples.
        noise: fraction of labels to flip.
        kind: "uniform" or "pair".
        seed: of the draw.

    Returns:
        The same set for a fraction of 0.

    Raises:
        SettingError: the kind is unknown.
        DataError: the fraction is outside [0, 1], or there are no classes.
    """
    from datassay.data.corrupt.label_noise import add_label_noise

    if kind not in {"uniform", "pair"}:
        raise SettingError(f"noise-kind must be 'uniform' or 'pair'; got {kind!r}.")
    if noise == 0:
        return train
    return add_label_noise(train, noise, kind=kind, seed=seed)
