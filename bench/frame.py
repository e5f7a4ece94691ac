"""What a task declares: cases, contenders, a judge, and the rows that the pages show of it.

A task is a file with TASK in it. Where contenders meet, a case makes a problem from a seed, each
contender answers it without seeing the truth, and `judge` gives the answer's figures; all of a case
meet the same seeds, so differences are paired (`run.py`). Without contenders a case measures by
itself and its figures are a line of results.jsonl.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
# Where contenders meet; those in front have quick cases.
TRUTHS = (
    *("leave_one_out", "datamodelling", "labels", "values", "removal", "selection", "purification"),
    *("subclass", "adversarial", "mixture", "weights", "actions"),
    *("review", "attribution/halves", "attribution/wrong_labels", "attribution/inserted_texts"),
    *("peers/quanda", "peers/opendataval"),
)
FOLDERS = ("truths", "attribution", "speed", "uses", "papers", "peers")


@dataclass(frozen=True)
class Case:
    """Where a contender is asked, or what is measured."""

    # seed → problem; data, noise and networks are drawn by the seed. Without contenders `Options` →
    # figures, or pairs of a line's name and its figures.
    make: Callable[..., Any]
    quick: bool = False  # whether it needs no files and seconds alone
    # whether it is measured in a process of its own, whose peak memory is recorded
    fresh: bool = False


@dataclass(frozen=True)
class Contender:
    """Who is asked."""

    ask: Callable[[Any, int], Any]  # (problem, seed) → answer, as the task's `judge` takes it
    kind: str = "baseline"  # "ours", "trivial", "baseline" or "bound": what nobody can pass
    needs: str = ""  # a package without which it is left out
    cases: str = "*"  # a pattern of the cases in which it is asked


class Row(NamedTuple):
    """One measured line of the tables.

    `bench` names the file where it is not the task's own; rows of a higher `order` stand at the end
    of their section.
    """

    what: str
    measured: str
    bench: str = ""
    order: int = 0


@dataclass(frozen=True)
class Task:
    """One question."""

    measure: str  # in words; where contenders meet, higher is better
    cases: Mapping[str, Case]  # by name
    contenders: Mapping[str, Contender] = field(default_factory=dict)  # by name
    # (problem, answer, seed) → figure → value; NaN where there is none
    judge: Callable[[Any, Any, int], dict[str, float]] | None = None
    repeats: int = 5  # seeds a cell
    # case → seeds on which a setting of a contender was chosen; never reported
    chosen_on: Mapping[str, Sequence[int]] = field(default_factory=dict)
    lines: str = ""  # what the names of its lines in results.jsonl begin with
    # what the tables show, from the newest lines by name
    rows: Callable[[dict[str, dict]], Row | list[Row]] = lambda lines: []


@dataclass(frozen=True)
class Options:
    """Options of a case without contenders."""

    work: Path  # a folder that keeps what is done
    seed: int = 0  # the first of its seeds
    repeats: int | None = None  # seeds, where the case has several
    values: Mapping[str, str] = field(default_factory=dict)  # of --set, by name

    def value(self, name: str, default: Any) -> Any:
        """An option in the type of its default; of a tuple its parts, between commas."""
        if name not in self.values:
            return default
        if isinstance(default, tuple):
            kind = type(default[0]) if default else str
            return tuple(kind(part) for part in self.values[name].split(","))
        return self.values[name] if default is None else type(default)(self.values[name])


def task_named(name: str) -> Task:
    """The task of a file: "speed/memory"; those of truths/ by their names alone."""
    return import_module(f"bench.{file_of(name).removesuffix('.py').replace('/', '.')}").TASK


def file_of(name: str) -> str:
    return f"{name}.py" if "/" in name else f"truths/{name}.py"


def every_task() -> list[str]:
    """Names, those where contenders meet first."""
    files = sorted(file for folder in FOLDERS for file in (HERE / folder).rglob("*.py"))
    names = [str(f.relative_to(HERE).with_suffix("")).removeprefix("truths/") for f in files
             if "\nTASK = " in f.read_text("utf-8")]  # fmt: skip
    return [*TRUTHS, *(name for name in names if name not in TRUTHS)]


def chosen(task: Task, patterns: Sequence[str]) -> list[str]:
    """The cases that match one of the patterns."""
    return [case for case in task.cases if any(fnmatch(case, p) for p in patterns)]
