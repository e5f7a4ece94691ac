"""`datassay report`."""

from dataclasses import MISSING, dataclass
from pathlib import Path

from datassay.commands.command import Command
from datassay.errors import DataError
from datassay.setting import setting


@dataclass(frozen=True)
class ReportSettings:
    """Settings of the job."""

    folders: tuple[Path, ...] = setting(
        MISSING, "Two or more, each the --out of a run or score.", argument=True
    )
    command: str = ""

    def refuse(self, *, only_plan: bool) -> None:
        """Raise unless the folders are two or more different runs."""
        from datassay.commands.finished import check_run

        if len({folder.resolve() for folder in self.folders}) < max(2, len(self.folders)):
            raise DataError(
                "two or more different folders are needed to compare; got "
                f"{', '.join(map(str, self.folders)) or 'none'}. Name the folders that runs wrote "
                "to."
            )
        for folder in self.folders:
            check_run(folder)


COMMAND = Command(
    name="report",
    help="""Compare runs: other seeds, other networks, or before and after labels were corrected.

    Joins their scores by id: do they agree, which labels do all of them suspect, which samples
    changed most. Writes consensus.parquet, summary.json and one page; computes nothing anew.

    Examples:
      datassay score digits --seed 0 --out seed0
      datassay score digits --seed 1 --out seed1
      datassay report seed0 seed1 --out compared
    """,
    settings=ReportSettings,
    inputs=(),
    out="compared",
    order=90,
)
