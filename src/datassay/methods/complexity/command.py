"""`datassay complexity`: for data, or for teacher networks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datassay.commands.command import Command, refuse_others
from datassay.commands.inputs import MODEL, MODEL_HELP, SEED_HELP, DataInputs
from datassay.errors import SettingError
from datassay.methods.complexity.settings import Curve, Recovery
from datassay.rules import at_least, in_interval
from datassay.setting import setting

HOME = "datassay.methods.complexity"
DIGITS = 15
MOST_NUMBERS = 1000
MOST_REPEATS = 10_000
STORE_HELP = "Folder that keeps finished sizes, so that a second call goes on."


def whole_numbers(text: str, name: str) -> tuple[int, ...]:
    """Return the numbers that a text names, ascending.

    "5,10,20" lists them, "5:40:5" gives first, last and step, and "5:40" takes at most 8,
    evenly spaced.

    Raises:
        SettingError: it is none of these.
    """
    rule = f"{name} must be whole numbers from 1, as 5,10,20 or 5:40 or 5:40:5; got {text[:60]!r}."
    ends = text.split(":")
    if len(ends) == 1:
        words = text.split(",")
    else:
        words = ends
    are_valid = (
        len(word) <= DIGITS and word.strip().isdecimal() and int(word) > 0 for word in words
    )
    if not all(are_valid) or len(ends) > 3:
        raise SettingError(rule)
    numbers = [int(word) for word in words]
    if len(ends) == 1:
        return tuple(sorted(set(numbers)))
    low, high = numbers[:2]
    if high < low:
        raise SettingError(rule)
    if len(ends) == 3 and (high - low) // numbers[2] >= MOST_NUMBERS:
        raise SettingError(f"{name} must be at most {MOST_NUMBERS:,} numbers; got {text}.")
    if len(ends) == 3:
        return tuple(range(low, high + 1, numbers[2]))
    intervals = max(1, min(7, high - low))
    return tuple(sorted({round(low + k * (high - low) / intervals) for k in range(intervals + 1)}))


@dataclass(frozen=True)
class CurveSettings:
    """Settings of the job; the defaults are those of `datassay complexity DATA`."""

    model: str = setting(MODEL, f"{MODEL_HELP} Here also an estimator, sklearn.svm:SVC.")
    accuracy: tuple[float, ...] = setting(
        (), "Wanted (of a regression: R²); may be repeated.", show="half the present error"
    )
    sizes: tuple[int, ...] | None = setting(
        Curve.sizes,
        "Training samples to fit to, as 50,100,200,400.",
        read=lambda text: whole_numbers(text, "sizes"),
        show="eight, up to all",
    )
    repeats: int = setting(10, "Fits a size.")
    store: str | None = setting(Curve.store, STORE_HELP)
    seed: int = setting(Curve.seed, SEED_HELP)
    command: str = ""

    def refuse(self, *, only_plan: bool = False) -> None:
        """Raise if a setting is out of range, before anything heavy is imported."""
        for score in self.accuracy:
            in_interval("accuracy", score, 0, 1, "()", why=", as 0.95 for 95 %")
        in_interval("repeats", self.repeats, 2, MOST_REPEATS, why=", so that the noise is known")


@dataclass(frozen=True)
class TeacherSettings:
    """Settings of the job; the defaults are those of `datassay complexity --inputs …`."""

    inputs: tuple[int, ...] = setting(
        (5,),
        "Input dimensions d of teacher networks: 5:40 (eight values), 5:40:1 or 5,10,20.",
        read=lambda text: whole_numbers(text, "inputs"),
        show="",
    )
    width: tuple[int, ...] = setting(
        (5,),
        "Their widths m, written as --inputs; every d goes with every m.",
        read=lambda text: whole_numbers(text, "width"),
    )
    teachers: int = setting(Recovery.n_teachers, "Teachers a size.")
    students: int = setting(20, "Students a teacher and sample size.")
    depth: int = setting(Recovery.depth, "Bisections after doubling.")
    max_samples: int = setting(Recovery.max_samples, "Largest sample size tried.")
    store: str | None = setting(Curve.store, STORE_HELP)
    seed: int = setting(Recovery.seed, SEED_HELP)
    command: str = ""

    def refuse(self, *, only_plan: bool = False) -> None:
        """Raise if a setting is out of range, before anything heavy is imported."""
        for name in ("teachers", "students", "max_samples"):
            at_least(name.replace("_", "-"), getattr(self, name), 1)
        at_least("depth", self.depth, 0)


class Complexity(Command):
    """A command about teacher networks with --inputs or --width, else about data."""

    def start(self, user_input: Mapping[str, Any], out: Path) -> None:
        """Start the teachers' job if --inputs or --width is given, else the data's.

        An option of the other job is an error, which says what that option needs.
        """
        if "inputs" in user_input or "width" in user_input:
            why = "does not go with --inputs or --width"
            refuse_others(user_input, DataInputs, shared_with=(TeacherSettings,), why=why)
            why = "needs DATA, which --inputs and --width do not go with"
            refuse_others(user_input, CurveSettings, shared_with=(TeacherSettings,), why=why)
            TEACHERS.start(user_input, out)
        else:
            why = "needs --inputs or --width, which no data go with"
            refuse_others(user_input, TeacherSettings, shared_with=(CurveSettings,), why=why)
            CURVE.start(user_input, out)


COMMAND = Complexity(
    name="complexity",
    common="target val_fraction model accuracy sizes repeats inputs width seed",
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
    out="complexity",
    order=70,
)
CURVE = Command(
    name=COMMAND.name, help="", settings=CurveSettings, home=f"{HOME}.curve", out=COMMAND.out
)
TEACHERS = replace(CURVE, settings=TeacherSettings, home=f"{HOME}.teachers", inputs=())
