"""`datassay view`: the page of a run with a server behind it, which saves decisions."""

from __future__ import annotations

import os
import shlex
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datassay.commands.command import Command, read
from datassay.commands.shell import out_console
from datassay.commands.view.settings import ViewSettings

if TYPE_CHECKING:
    from datassay.commands.view.session import Session


class _View(Command):
    """Writes no results: it serves until it is stopped."""

    def start(self, given: Mapping[str, Any], out: Path) -> None:
        """Read the run and its data, serve, and say at the end where the decisions are."""
        from datassay.commands.view.open import opened

        settings = read(ViewSettings, given)
        with opened(Path(settings.folder), settings.data, settings.port) as server:
            session = server.session
            out_console.print(*_beginning(session), server.url, sep="\n", soft_wrap=True)
            if settings.browser and _has_screen():
                webbrowser.open(server.url)
            try:
                server.serve_forever()
            except KeyboardInterrupt:  # Ctrl-C, or a signal that asks to stop
                out_console.print(*_end(session, settings), sep="\n", soft_wrap=True)


def _beginning(session: Session) -> list[str]:
    reviewed = session.reviewed
    n, n_suspects = len(reviewed.samples), int(reviewed.is_issue.sum())
    saved = f"Decisions are saved in {session.path}; {len(session):,} are there. Ctrl-C ends."
    if session.unwritable:
        saved = (
            f"{session.path.parent} cannot be written ({session.unwritable}): the browser keeps "
            "the decisions, and the page downloads them. Ctrl-C ends."
        )
    return [f"{reviewed.samples.name}: {n_suspects:,} suspects of {n:,} samples.", saved]


def _end(session: Session, settings: ViewSettings) -> list[str]:
    count = session.finish()
    if not count:
        return ["", "No decisions were saved."]
    data = settings.data or session.reviewed.inputs["data"]
    following = shlex.join(["datassay", "apply", str(data), str(session.path), "--out", "CLEAN"])
    return ["", f"{count:,} decisions lie in {session.path}.", f"Next: {following}"]


def _has_screen() -> bool:
    """Whether a browser with windows can open; others would take the terminal."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in {"darwin", "win32"} or any(os.environ.get(name) for name in screens)


COMMAND = _View(
    name="view",
    help="""Review the suspected labels of a run in the browser, by keys.

    Serves the run's page on this machine only, and saves every decision in decisions.parquet in
    the run's folder. Coming back goes on where it was. `datassay apply` then writes the data with
    the decisions carried out.

    Examples:
      datassay view report

      datassay view report --data moved/table.csv --port 8800 --no-browser
    """,
    settings=ViewSettings,
    inputs=(),
    home="datassay.commands.view",
    out=".",
    order=13,
    has_out=False,
)
