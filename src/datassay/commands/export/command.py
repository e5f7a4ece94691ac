"""`datassay export`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from datassay.commands.command import Command, read
from datassay.commands.export.settings import TARGETS, ExportSettings
from datassay.commands.shell import out_console
from datassay.errors import SettingError


class _Export(Command):
    """Files and no page; a module for each tool."""

    def start(self, given: Mapping[str, Any], out: Path) -> None:
        """Check, read the run, write, say how the tool opens it."""
        from datassay.commands.export.material import Material
        from datassay.commands.finished import finished_run
        from datassay.report.write import check_outputs, check_writable, write_pages

        settings: ExportSettings = read(self.settings, given)
        if settings.to not in TARGETS:
            raise SettingError(f"to must be {', '.join(TARGETS)}; got {settings.to[:60]!r}.")
        tool = settings.to.replace("-", "_")
        folders = [settings.run, *([] if settings.data is None else [settings.data])]
        check_outputs(out, (), (), folders)
        check_writable(out, (), overwrite=given["overwrite"])
        run = finished_run(settings.run)
        module = import_module(f"{self.home}.{tool}")
        made = module.export(Material(run, out, settings.data, settings.top))
        write_pages(made.parts, out, overwrite=given["overwrite"])
        out_console.print(made.opening, soft_wrap=True)
        out_console.print(str(out / next(iter(made.parts))), soft_wrap=True)


COMMAND = _Export(
    name="export",
    help="""Write a finished run as files that another tool opens.

    datalab (the columns of cleanlab's Datalab), label-studio (tasks with the suggested labels; its
    export goes back with datassay apply), embedding-atlas, fiftyone, spotlight, croissant. Needs
    none of them. Parquet columns say unit and sign in their metadata.

    Examples:
      datassay export report --to label-studio --out tasks

      datassay export report --to embedding-atlas --out atlas

      datassay export report --to spotlight --data moved/photos --out spot
    """,
    settings=ExportSettings,
    inputs=(),
    home="datassay.commands.export",
    out="exports",
    order=24,
)
