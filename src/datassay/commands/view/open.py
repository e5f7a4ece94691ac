"""A run's review, ready to be served."""

from __future__ import annotations

from pathlib import Path

from datassay.commands.command import PAGE
from datassay.commands.finished import finished_run
from datassay.commands.view.read import reviewed_run
from datassay.commands.view.server import ReviewServer, ServedPage
from datassay.commands.view.session import Session
from datassay.data.source import reading


def opened(folder: Path, data: str | None = None, port: int = 0) -> ReviewServer:
    """The server of a run's review; it does not serve yet.

    Args:
        folder: of the run.
        data: where its data are now; None: where they were.
        port: 0: any that is free.

    Returns:
        The server, with its session.

    Raises:
        DataError: the run's files or its data are gone, damaged or others.
        SettingError: the port is taken, or none.
    """
    run = finished_run(folder)
    path = run.folder / PAGE
    with reading(path):
        page = ServedPage(path.read_text(encoding="utf-8"), str(path))
    session = Session(*reviewed_run(run, data), run.folder)
    return ReviewServer(session, page, port)
