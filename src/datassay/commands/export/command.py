"""`datassay export`."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from datassay.commands.command import Command, settings_from
from datassay.commands.shell import out_console
from datassay.errors import SettingError
from datassay.optional import drop_none
from datassay.plugins import checked_plugins, plugin_names
from datassay.setting import setting

if TYPE_CHECKING:
    from datassay.commands.export.material import Export

MODULES = {m.name for m in iter_modules([str(Path(__file__).parent)])}
OWN = sorted(MODULES - {"command", "material"})
ELSEWHERE = "Embedding Atlas, FiftyOne, Spotlight and Croissant come with datassay-exports: "
ELSEWHERE += "in a clone of the repository, pip install ./packages/datassay-exports"


@dataclass(frozen=True)
class ExportSettings:
    """Settings of the job."""

    run: Path = setting(MISSING, "The --out of a run or score.", argument=True)
    to: str = setting(
        MISSING,
        f"Which tool: {', '.join(OWN).replace('_', '-')}, or one that another package adds.",
    )
    data: str | None = setting(None, "Where the run's data are now (default: where they were).")
    top: int | None = setting(
        None,
        "Tasks for Label Studio, the most suspect first (default: those to review).",
        needs="!to=datalab|embedding-atlas|fiftyone|spotlight|croissant",
    )


def exports() -> "dict[str, Export]":
    """Return the tools by name: a module of this folder each, then those of other packages."""
    from datassay.commands.export.material import Export

    modules = (import_module(f"{__package__}.{name}") for name in OWN)
    ours = {module.EXPORT.name: module.EXPORT for module in modules}
    return ours | {export.name: export for export in checked_plugins("exports", Export, ours)}


class _Export(Command):
    """A command that writes files and no page, by a module for each tool."""

    def epilog(self) -> str:
        """Return a line of the tools that other packages add."""
        names = plugin_names("exports")
        if not names:
            return ""
        return f"From other packages: {', '.join(names)}."

    def start(self, user_input: Mapping[str, Any], out: Path) -> None:
        """Read the run, write the files, and say how the tool opens them."""
        from datassay.commands.finished import check_run, finished_run
        from datassay.store.outputs import check_outputs, check_writable, write_pages

        settings: ExportSettings = settings_from(self.settings, user_input)
        folders = [settings.run, *drop_none(settings.data)]
        check_outputs(out, (), (), folders)
        check_writable(out, (), overwrite=user_input["overwrite"])
        check_run(settings.run)
        from datassay.commands.export.material import Material  # slow to import

        tools = exports()
        if settings.to not in tools:
            raise SettingError(
                f"to must be {', '.join(tools)}; got {settings.to[:60]!r}. {ELSEWHERE}."
            )
        run = finished_run(settings.run)
        exported = tools[settings.to].export(Material(run, out, settings.data, settings.top))
        write_pages(exported.parts, out, overwrite=user_input["overwrite"])
        out_console.print(exported.opening, soft_wrap=True)
        out_console.print(str(out / next(iter(exported.parts))), soft_wrap=True)


COMMAND = _Export(
    name="export",
    has_page=False,
    help="""Write a finished run as files that another tool opens.

    datalab (the columns of cleanlab's Datalab), label-studio (tasks with the suggested labels; its
    export goes back with datassay apply), and with the package datassay-exports embedding-atlas,
    fiftyone, spotlight, croissant. Needs none of them. Parquet columns say unit and sign in their
    metadata.

    Examples:
      datassay export report --to label-studio --out tasks
      datassay export report --to datalab --out issues
      datassay export report --to spotlight --data moved/photos --out spot
    """,
    settings=ExportSettings,
    inputs=(),
    out="exports",
    order=24,
)
