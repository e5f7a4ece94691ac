"""What `datassay report` can be told."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from datassay.setting import setting


@dataclass(frozen=True)
class ReportSettings:
    """What the job can be told."""

    folders: tuple[Path, ...] = setting(
        MISSING, "Two or more, each the --out of a run or score.", argument=True
    )
    command: str = ""
