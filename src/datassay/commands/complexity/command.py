"""`datassay complexity`: for data, or for teacher networks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datassay.commands.command import Command, refuse_others
from datassay.commands.complexity.settings import CurveSettings, TeacherSettings
from datassay.commands.inputs import DataInputs

HOME = "datassay.commands.complexity"


class Complexity(Command):
    """--inputs or --width ask about teacher networks; without them it is about data."""

    def start(self, given: Mapping[str, Any], out: Path) -> None:
        """Choose by the options, and refuse those of the other mode."""
        if "inputs" in given or "width" in given:
            refuse_others(
                given, DataInputs, (TeacherSettings,), "does not go with --inputs or --width"
            )
            why = "needs DATA, which --inputs and --width do not go with"
            refuse_others(given, CurveSettings, (TeacherSettings,), why)
            TEACHERS.start(given, out)
        else:
            why = "needs --inputs or --width, which no data go with"
            refuse_others(given, TeacherSettings, (CurveSettings,), why)
            CURVE.start(given, out)


COMMAND = Complexity(
    name="complexity",
    help="""How many samples does a network need: for your data, or as a law of its size.

    With DATA: fits the model to growing parts, draws its learning curve and extrapolates it to the
    accuracy wanted. With --inputs or --width: how many samples recover a random teacher network,
    and the law. Writes one table (fits.parquet or trials.parquet), summary.json and one page.

    Examples:
      datassay complexity digits --model mlp --accuracy 0.98

      datassay complexity table.csv --target label --model sklearn.ensemble:RandomForestClassifier

      datassay complexity --inputs 5:40 --width 5 --store trials
    """,
    settings=CurveSettings,
    inputs=(TeacherSettings, DataInputs),
    home=HOME,
    out="complexity",
    order=70,
)
CURVE = Command(
    name=COMMAND.name, help="", settings=CurveSettings, home=f"{HOME}.curve", out=COMMAND.out
)
TEACHERS = Command(
    name=COMMAND.name, help="", settings=TeacherSettings, home=f"{HOME}.teachers", out=COMMAND.out,
    inputs=(),
)  # fmt: skip
