"""What can be given, as tables in Markdown: `PYTHONPATH=src:tests python -m kinds.page`.

Each entry is a combination that the test compares with brute force.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kinds import given
from kinds.cells import AUTO, ORDERS, SAMPLERS
from kinds.judge import N, is_possible
from kinds.rules import FITS, LABELLED, LABELS, UNLABELLED, Cell, expected

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "what-can-be-given.md"
START, END = "<!-- tables -->\n", "\n<!-- /tables -->"
SAID = {"works": "works", "warns": "warns", "refuses": "refuses", "either": "not said"}
IMPOSSIBLE = "–"


@dataclass(frozen=True)
class Table:
    """One table: a combination of each row and column, or None."""

    title: str
    corner: str
    rows: Sequence[str]
    columns: Sequence[str]
    cell: Callable[[str, str], Cell | None]

    def cells(self) -> list[Cell]:
        results = [self.cell(row, column) for row in self.rows for column in self.columns]
        return [cell for cell in results if cell is not None and is_possible(cell)]

    def markdown(self) -> str:
        lines = [f"| {self.corner} | {' | '.join(self.columns)} |",
                 "|---" * (len(self.columns) + 1) + "|"]  # fmt: skip
        for row in self.rows:
            cells = [self.cell(row, column) for column in self.columns]
            lines.append(f"| {row} | {' | '.join(map(_predictions, cells))} |")
        return f"## {self.title}\n\n" + "\n".join(lines)


def _predictions(cell: Cell | None) -> str:
    if cell is None or not is_possible(cell):
        return IMPOSSIBLE
    return SAID[expected(cell, N).outcome]


def _of_sampler(row: str, column: str) -> Cell | None:
    if row in SAMPLERS:
        if column == "training samples":
            return Cell("own Dataset", row, AUTO, "a class missing", "some", measure="margin")
        return Cell("arrays", "", AUTO, "every class", "all", "a loader", row)
    order = row.removeprefix("IterableDataset ")
    return Cell("IterableDataset", order, AUTO) if column == "training samples" else None


def _of_train(row: str, column: str) -> Cell:
    kind, sampler = ("own Dataset", "in order") if row == "DataLoader" else (row, "")
    return Cell(kind, sampler, AUTO, column, "some", measure="loss", temperature=2.0)


BESIDE = {
    "with arrays": ("arrays", "", "every class", "some"),
    "with names": ("arrays", "", "names", "some"),
    "numbers with names": ("arrays", "", "names", "indices"),
    "with a loader": ("own Dataset", "shuffle=True", "every class", "some"),
    "a class nobody has": ("arrays", "", "every class", "unknown"),
}
WITHOUT = {"'output'": "output", "'loss'": "loss"}


def _of_queries(row: str, column: str) -> Cell | None:
    kind, sampler, targets, wanted = BESIDE[column]
    if row == "the training samples" and wanted != "some":
        return None
    return Cell(kind, sampler, AUTO, targets, wanted, row)


def _without_labels(row: str, column: str) -> Cell:
    return Cell("arrays", "", AUTO, queries=row, measure=WITHOUT[column])


def _of_loss(row: str, column: str) -> Cell | None:
    fit = FITS[row]
    ours = [t for t in fit.targets if COLUMNS[column](t)]
    if not ours:
        return None
    return Cell("arrays", "", row, ours[0], measure=fit.measures[0], temperature=2.0)


COLUMNS: dict[str, Callable[[str], bool]] = {
    "classes": lambda t: t == "every class" or t == "classes of one output",
    "labels to ignore": lambda t: t == "some to ignore",
    "rows of probabilities": lambda t: t == "probabilities",
    "one-hot rows": lambda t: t == "one-hot",
    "several labels": lambda t: t == "several labels",
    "numbers": lambda t: t == "one value",
}
TABLES = (
    Table("Training samples and their labels", "given as", (*given.KINDS, "DataLoader"),
          tuple(LABELS), _of_train),
    Table("Samplers of a loader", "sampler", (*SAMPLERS, *(f"IterableDataset {o}" for o in ORDERS)),
          ("training samples", "queries"), _of_sampler),
    Table("Queries that lack classes", "given as", LABELLED, tuple(BESIDE), _of_queries),
    Table("Queries without labels, by measure", "given as", UNLABELLED, tuple(WITHOUT),
          _without_labels),
    Table("Losses and targets", "loss", tuple(FITS), tuple(COLUMNS), _of_loss),
)  # fmt: skip


def tables() -> str:
    return "\n\n".join(table.markdown() for table in TABLES)


def written(text: str) -> str:
    """The page with its tables made anew."""
    before, rest = text.split(START)
    return f"{before}{START}\n{tables()}\n{END}" + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
