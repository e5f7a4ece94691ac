"""What `datassay apply` can be told."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from datassay.data.settings import Loading
from datassay.setting import setting

AS_RUN = "as the run had it"


@dataclass(frozen=True)
class ApplySettings:
    """Which data, which decisions, and how the data are read."""

    data: str = setting(
        MISSING, "The data that were reviewed: a path, or a built-in name.", argument=True
    )
    decisions: Path = setting(
        MISSING,
        "What datassay view or a page wrote (.parquet, .json), or Label Studio's export (.json).",
        argument=True,
    )
    target: str | None = setting(
        Loading.target, f"Label column of a table (default: {AS_RUN}, else the last)."
    )
    ids: str | None = setting(
        Loading.ids, f"Id column of a table (default: {AS_RUN}, else row numbers)."
    )
    source: str | None = setting(
        Loading.source, f"Column that says where each row came from (default: {AS_RUN})."
    )
    task: str | None = setting(
        Loading.task, f"classification or regression (default: {AS_RUN}, else by y)."
    )
    copy: bool = setting(
        False, "Copy files that do not change; else they are second names of the same files."
    )
