"""`datassay lab`: lists the experiments, or runs some."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from datassay.commands import Command, out_console
from datassay_lab.settings import LabSettings

if TYPE_CHECKING:
    from datassay.report import Page


class Lab(Command):
    """Lists without a name, reports as JSON if asked, and ends with 1 where a statement broke."""

    def start(self, given: Mapping[str, Any], out: Path) -> None:
        """List, or run."""
        from datassay_lab.listing import catalog_json, catalog_table

        if given["names"]:
            super().start({**given, "out": out}, out)
        elif given["as_json"]:
            out_console.print(catalog_json(), soft_wrap=True)
        else:
            out_console.print(catalog_table())

    def show(self, findings: Any, settings: Any, page: Page, path: Path) -> None:
        """Print a short table and the page in short, or the records as JSON."""
        from datassay.commands import rows_table
        from datassay.report import standard_json
        from datassay_lab.page import terminal_rows
        from datassay_lab.record import summary

        records = findings.records
        if settings.as_json:
            out_console.print(standard_json([summary(r) for r in records]).rstrip(), soft_wrap=True)
        else:
            out_console.print(rows_table(*terminal_rows(records)))
            super().show(findings, settings, page, path)
        if not all(r.holds or r.problem for r in records):
            raise typer.Exit(1)


COMMAND = Lab(
    name="lab",
    help="""Run the course's experiments: each plots a statement and checks it by one number.

    Without a name it lists them. Finished experiments are kept in the folder, so a stopped run
    goes on where it was. Ends with status 1 where a statement did not hold.

    Examples:
      datassay lab

      datassay lab weight-decay --out decay --set alphas=0.01,0.3 --seed 4

      datassay lab all --out gallery

      datassay lab --json
    """,
    settings=LabSettings,
    inputs=(),
    home="datassay_lab",
    out="lab",
    order=80,
)
