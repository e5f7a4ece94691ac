"""`datassay view`: the page of a run with a server behind it, which saves decisions."""

import os
import sys
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datassay.commands.command import Command, settings_from
from datassay.commands.shell import out_console
from datassay.setting import setting

if TYPE_CHECKING:
    from datassay.commands.view.session import Session


@dataclass(frozen=True)
class ViewSettings:
    """The run, and where it is served."""

    folder: str = setting("report", "What --out of datassay run named.", argument=True)
    data: str | None = setting(None, "Where the run's data are now (default: where they were).")
    reviewer: str = setting(
        "",
        "Your name, where several review: decisions are saved in decisions.NAME.parquet.",
        show="",
    )
    port: int = setting(0, "Of 127.0.0.1 (default: any that is free).", show="")
    browser: bool = setting(True, "Open the page.")


class _View(Command):
    """A command that writes no results: it serves until it is stopped."""

    def start(self, user_input: Mapping[str, Any], out: Path) -> None:
        """Read the run and its data, serve, and say at the end where the decisions are."""
        from datassay.commands.finished import check_run

        settings = settings_from(ViewSettings, user_input)
        check_run(Path(settings.folder))
        from datassay.commands.view.open import open_review  # slow to import

        with open_review(
            Path(settings.folder), settings.data, settings.port, settings.reviewer
        ) as server:
            session = server.session
            out_console.print(*_describe_review(session), server.url, sep="\n", soft_wrap=True)
            # Without a screen a browser would take the terminal.
            screens = ("DISPLAY", "WAYLAND_DISPLAY")
            has_screen = sys.platform in {"darwin", "win32"} or any(map(os.environ.get, screens))
            if settings.browser and has_screen:
                webbrowser.open(server.url)
            try:
                server.serve_forever()
            except KeyboardInterrupt:  # Ctrl-C, or a signal that asks to stop
                count = session.finish()
                lines = [f"{count:,} decisions lie in {session.path}."]
                lines += [f"Next: {command}" for command in server.finish.lines()[:1]]
                if not count:
                    lines = ["No decisions were saved."]
                out_console.print("", *lines, sep="\n", soft_wrap=True)


def _describe_review(session: "Session") -> list[str]:
    """Return lines: how many labels to review, and in which file decisions are saved."""
    reviewed = session.reviewed
    n = len(reviewed.samples)
    n_look = int(reviewed.worth_a_look.sum())
    message = f"{reviewed.samples.name}: {n_look:,} of {n:,} labels are to be reviewed."
    if session.probe:
        message += f" {len(session.probe)} drawn from all, doubtful ones more often, come first."
    saved = f"Decisions are saved in {session.path}; {len(session):,} are there. Ctrl-C ends."
    if session.unwritable:
        saved = (
            f"{session.path.parent} cannot be written ({session.unwritable}): the browser keeps "
            "the decisions, and the page downloads them. Ctrl-C ends."
        )
    return [message, saved]


COMMAND = _View(
    name="view",
    help="""Review the suspected labels of a run in the browser, by keys.

    Serves the run's page on this machine only, and saves every decision in decisions.parquet in
    the run's folder. Coming back goes on where it was. At the end the page writes the corrected
    data and measures what that gained, as `datassay apply` and `datassay run --before` do.

    Examples:
      datassay view report
      datassay view report --reviewer anna
      datassay view report --data moved/table.csv --port 8800 --no-browser
    """,
    settings=ViewSettings,
    inputs=(),
    out=".",
    order=13,
    has_out=False,
)
