"""What `datassay export` can be told."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from datassay.setting import setting

TARGETS = ("datalab", "label-studio", "embedding-atlas", "fiftyone", "spotlight", "croissant")


@dataclass(frozen=True)
class ExportSettings:
    """What the job can be told."""

    run: Path = setting(MISSING, "The --out of a run or score.", argument=True)
    to: str = setting(MISSING, f"Which tool: {', '.join(TARGETS)}.")
    data: str | None = setting(None, "Where the run's data are now (default: where they were).")
    top: int | None = setting(
        None, "Tasks for Label Studio, the most suspect first (default: the suspects)."
    )
