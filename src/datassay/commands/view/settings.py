"""What `datassay view` can be told."""

from __future__ import annotations

from dataclasses import dataclass

from datassay.setting import setting


@dataclass(frozen=True)
class ViewSettings:
    """Which run, and where it is served."""

    folder: str = setting("report", "What --out of datassay run named.", argument=True)
    data: str | None = setting(None, "Where the run's data are now (default: where they were).")
    port: int = setting(0, "Of 127.0.0.1 (default: any that is free).", show="")
    browser: bool = setting(True, "Open the page.")
