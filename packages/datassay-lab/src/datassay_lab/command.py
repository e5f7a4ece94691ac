"""`datassay lab`: lists the experiments, or runs some."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from datassay.commands import Command, out_console
from datassay.setting import setting

if TYPE_CHECKING:
    from rich.table import Table

    from datassay.report import Page


@dataclass(frozen=True)
class LabSettings:
    """What the job can be told; `out` also keeps finished experiments."""

    names: tuple[str, ...] = setting(
        (), "Experiments to run, or all; none: list them.", argument=True
    )
    parameters: tuple[str, ...] = setting(
        (), "NAME=VALUE, a parameter that --json lists; may be repeated.", name="set"
    )
    seed: int = setting(0, "Of every draw.")
    fresh: bool = setting(False, "Run again what this folder already holds.")
    as_json: bool = setting(False, "List, or report, as JSON on standard output.", name="json")
    out: Path = Path("lab")
    overwrite: bool = False
    command: str = ""


class Lab(Command):
    """Lists without a name, reports as JSON if asked, and ends with 1 where a statement broke."""

    def start(self, user_input: Mapping[str, Any], out: Path) -> None:
        """List the experiments, or run some."""
        if user_input["names"]:
            super().start({**user_input, "out": out}, out)
        elif user_input["as_json"]:
            out_console.print(_catalog_json(), soft_wrap=True)
        else:
            hint = "Run one: datassay lab NAME --out DIR; all on one page: datassay lab all"
            out_console.print(_catalog_table(), "", hint, sep="\n", highlight=False)

    def show(
        self, results: Any, settings: Any, page: "Page", path: Path, *, verbose: bool = False
    ) -> None:
        """Print a short table and the page in short, or the records as JSON."""
        from datassay.commands import rows_table
        from datassay.report import standard_json
        from datassay_lab.page import terminal_rows
        from datassay_lab.record import summary

        records = results.records
        if settings.as_json:
            out_console.print(standard_json([summary(r) for r in records]).rstrip(), soft_wrap=True)
        else:
            out_console.print(rows_table(*terminal_rows(records)))
            super().show(results, settings, page, path, verbose=verbose)
        if not all(r.holds or r.problem for r in records):
            raise typer.Exit(1)


def _catalog_table() -> "Table":
    """Return a table of all experiments with their statements, by chapter."""
    from rich.table import Table
    from rich.text import Text

    from datassay_lab.catalog import CHAPTERS

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for chapter, experiments in CHAPTERS.items():
        table.add_row(Text(chapter, style="bold"), "")
        for e in experiments:
            table.add_row(Text(f"  {e.name}"), Text(e.statement))
    return table


def _catalog_json() -> str:
    """Return all experiments with their texts and parameters, as JSON."""
    from datassay.report import standard_json
    from datassay_lab.catalog import experiments
    from datassay_lab.experiment import kind_of

    return standard_json([
        {
            "name": e.name,
            "chapter": chapter,
            "statement": e.statement,
            "formula": e.formula,
            "look_for": e.look_for,
            "question": e.question,
            "what_if": e.what_if,
            "expected": e.expected,
            "exercise": e.exercise,
            "source": e.source,
            "parameters": [
                {"name": n, "default": v, "takes": kind_of(v)} for n, v in e.defaults.items()
            ],
        }
        for chapter, e in experiments()
    ]).rstrip()


COMMAND = Lab(
    name="lab",
    help="""Run the course's experiments: each plots a statement and checks it by one number.

    Without a name it lists them. Finished experiments are stored in the folder, so a stopped run
    goes on where it was. Ends with status 1 where a statement did not hold.

    Examples:
      datassay lab
      datassay lab weight-decay --out decay --set alphas=0.01,0.3 --seed 4
      datassay lab all --out gallery
      datassay lab --json
    """,
    settings=LabSettings,
    inputs=(),
    out="lab",
    order=80,
)
