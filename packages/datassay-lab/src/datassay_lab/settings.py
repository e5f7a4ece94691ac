"""What `datassay lab` can be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from datassay.setting import setting


@dataclass(frozen=True)
class LabSettings:
    """What the job can be told; `out` also keeps finished experiments."""

    names: tuple[str, ...] = setting(
        (), "Experiments to run, or all; none: list them.", argument=True
    )
    parameters: tuple[str, ...] = setting(
        (), "NAME=VALUE, a parameter that --json lists; may be repeated.", name="set"
    )
    seed: int = setting(0, "Of every draw.")
    fresh: bool = setting(False, "Run again what this folder already holds.")
    as_json: bool = setting(False, "List, or report, as JSON on standard output.", name="json")
    out: Path = Path("lab")
    overwrite: bool = False
    command: str = ""
