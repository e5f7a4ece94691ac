"""`datassay apply`."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from datassay.commands.command import Command, settings_from
from datassay.commands.shell import out_console
from datassay.data.settings import Loading
from datassay.setting import setting

AS_RUN = "as the run had it"


@dataclass(frozen=True)
class ApplySettings:
    """The data, the decisions, and how the data are read."""

    data: str = setting(
        MISSING, "The data that were reviewed: a path, or a built-in name.", argument=True
    )
    decisions: Path = setting(
        MISSING,
        "The folder of the run, or a file: of datassay view, a page or Label Studio.",
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
    accept_suggested: float | None = setting(
        None,
        "Relabel also what is not decided, where the run's probability is at least this.",
    )
    drop_copies: bool = setting(
        False, "Remove also what is not decided and repeats an earlier sample, equally or nearly."
    )
    majority: bool = setting(
        False, "Where reviewers disagree, do what most decided; in a tie the sample stays as it is."
    )
    copy: bool = setting(
        False, "Copy files that do not change; else they are second names of the same files."
    )


class _Apply(Command):
    """A command that writes data, and no page."""

    def start(self, user_input: Mapping[str, Any], out: Path) -> None:
        """Check the options, read the data, write them as decided, and print what was done."""
        lines = self.module("job").run(
            settings_from(ApplySettings, user_input), out, overwrite=user_input["overwrite"]
        )
        out_console.print(*lines, sep="\n", soft_wrap=True)


COMMAND = _Apply(
    name="apply",
    has_page=False,
    help="""Give the data back as decided: labels corrected, samples removed, nothing else changed.

    --out becomes a folder with a file of the same kind and name, or with the same folders, and
    changelog.csv. The data themselves stay as they are. Samples to be kept, and those nobody was
    sure of, stay with their labels.

    Examples:
      datassay apply reviews.csv report --out clean
      datassay apply reviews.csv report --accept-suggested 0.9 --out clean
      datassay apply people.csv report --drop-copies --out clean
      datassay apply photos/ decisions.json --out clean --copy
      datassay run clean --before report --out after
    """,
    settings=ApplySettings,
    inputs=(),
    out="clean",
    order=22,
)
