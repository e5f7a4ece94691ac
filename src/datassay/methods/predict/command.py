"""`datassay predict`."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from datassay.commands.command import Command, settings_from
from datassay.commands.inputs import check_file
from datassay.commands.shell import err_console, out_console, say
from datassay.optional import text_if
from datassay.setting import setting

FILE = "predictions.parquet"


@dataclass(frozen=True)
class PredictSettings:
    """The rows, the model, and how blocks are weighed."""

    data: str = setting(
        MISSING, "The new rows: a path, or a built-in name. No target is needed.", argument=True
    )
    fitted: Path = setting(
        MISSING,
        "The folder that partition, weigh or polynomial wrote, or its .safetensors file.",
        argument=True,
        name="model",
        rule=check_file,
    )
    ids: str | None = setting(
        None, "Id column of a table (default: as in training, else rows are numbered)."
    )
    routing: str = setting(
        "soft",
        "Of blocks: soft weighs their models by the router, hard asks the most probable block "
        "alone.",
    )
    model: str | None = setting(
        None,
        "Your network, as package.module:factory or path/file.py:factory, where weigh had one: "
        "nothing runs because a file names it.",
        name="network",
    )


class _Predict(Command):
    """A command that writes a table, and no page."""

    def start(self, user_input: Mapping[str, Any], out: Path) -> None:
        """Read the rows and the model, predict, write the table, and print its columns."""
        from datassay.store.outputs import check_outputs, check_writable, write_pages

        settings: PredictSettings = settings_from(PredictSettings, user_input)
        check_outputs(out, (FILE,), user_input.values(), (settings.data, settings.fitted))
        check_writable(out, (FILE,), overwrite=user_input["overwrite"])
        self.check_first(user_input)
        from datassay.commands.terminal import ProgressDisplay
        from datassay.methods.predict.saved import load_model

        with ProgressDisplay(err_console):
            model = load_model(settings.fitted, model=settings.model)
            rows = model.samples(settings.data, ids=settings.ids)
            table = model.table(rows, routing=settings.routing)
        write_pages({FILE: table}, out, overwrite=user_input["overwrite"])
        for warning in rows.warnings:
            say(f"Warning: {warning}.")
        names = ", ".join(table.column_names[:6]) + text_if(table.num_columns > 6, ", ...")
        lines = (f"{len(rows):,} predictions: {names}", str(out / FILE))
        out_console.print(*lines, sep="\n", soft_wrap=True)


COMMAND = _Predict(
    name="predict",
    has_page=False,
    help="""Predict new rows by the model that partition, weigh or polynomial wrote.

    Rows are prepared as those of the training were: the same columns, medians, categories, words
    or encoder, all of which the file holds; rows with other columns are refused. Writes
    predictions.parquet: id, predicted (of numbers the target's name), block where there are
    several, and for classes the probability of each (of a polynomial its outputs).

    Examples:
      datassay predict new.csv blocks --out predicted
      datassay predict new.parquet weights/model.safetensors --ids key
      datassay predict new.csv blocks --routing hard
    """,
    settings=PredictSettings,
    inputs=(),
    out="predicted",
    order=42,
)
