"""The command that runs the course."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from datassay.commands.shell import err_console, exits_clearly, out_console

if TYPE_CHECKING:
    from datassay.lab.record import Record

Names = Annotated[
    list[str] | None,
    typer.Argument(help="Experiments to run, or all; none: list them.", show_default=False),
]


@exits_clearly
def lab(
    names: Names = None,
    out: Annotated[
        Path, typer.Option(help="Folder for page and results; made if it does not exist.")
    ] = Path("lab"),
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE, a parameter that --json lists; may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of every draw.")] = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Run again what this folder already holds.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="List, or report, as JSON on standard output.")
    ] = False,
) -> None:
    """Run the course's experiments: each plots a statement and checks it by one number.

    Without a name it lists them. Finished experiments are kept in the folder, so a stopped run
    goes on where it was. Ends with status 1 where a statement did not hold.

    Examples:
      datassay lab

      datassay lab weight-decay --out decay --set alphas=0.01,0.3 --seed 4

      datassay lab all --out gallery

      datassay lab --json
    """
    from datassay.commands.command import command_line
    from datassay.commands.lab.terminal import catalog_json, catalog_table, lab_json, lab_table
    from datassay.commands.terminal import ProgressDisplay
    from datassay.lab.gallery import GALLERY_FILES, write_gallery
    from datassay.lab.run import chosen, lab_facts, run_lab
    from datassay.report.write import check_writable

    if not names:
        out_console.print(catalog_json() if as_json else catalog_table(), soft_wrap=as_json)
        return
    asked = chosen(names, set_ or [], seed)
    check_writable(out, GALLERY_FILES)
    with ProgressDisplay(err_console) as progress:
        records = list(run_lab(asked, out, fresh=fresh, progress=progress))
    page = write_gallery(records, lab_facts(records, command_line()), out)
    if as_json:
        out_console.print(lab_json(records), soft_wrap=True)
    else:
        out_console.print(*lab_table(records), sep="\n")
        out_console.print(str(page), soft_wrap=True)
    _judge(records)


def _judge(records: Sequence[Record]) -> None:
    """Status 1 where a statement did not hold."""
    if not all(r.holds or r.problem for r in records):
        raise typer.Exit(1)
