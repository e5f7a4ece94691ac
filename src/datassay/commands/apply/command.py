"""`datassay apply`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datassay.commands.apply.settings import ApplySettings
from datassay.commands.command import Command, read
from datassay.commands.shell import out_console


class _Apply(Command):
    """Writes data, and no page."""

    def start(self, given: Mapping[str, Any], out: Path) -> None:
        """Check, read, write, print."""
        from datassay.commands.apply.job import run

        lines = run(read(ApplySettings, given), out, overwrite=given["overwrite"])
        out_console.print(*lines, sep="\n", soft_wrap=True)


COMMAND = _Apply(
    name="apply",
    help="""Give the data back as decided: labels mended, samples removed, nothing else changed.

    --out becomes a folder with a file of the same kind and name, or with the same folders, and
    changelog.csv. The data themselves stay as they are. Samples to be kept, and those nobody was
    sure of, stay with their labels.

    Examples:
      datassay apply reviews.csv report/decisions.parquet --out clean

      datassay apply photos/ decisions.json --out clean --copy

      datassay run clean --before report --out after
    """,
    settings=ApplySettings,
    inputs=(),
    home="datassay.commands.apply",
    out="clean",
    order=22,
)
