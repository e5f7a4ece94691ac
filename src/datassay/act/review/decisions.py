"""Decisions about samples, one row per sample decided on, in a file that says of which data.

`datassay view` writes Parquet. A page without a server downloads JSON: {"datassay.decisions":
{"digest", "name", "class_names", "inputs", "integer_ids"}, "decisions": [one object per row, "when"
in ISO]}.

| column | meaning |
|---|---|
| id | of the sample |
| decision | "relabel", "keep", "remove" or "unsure" |
| label | the new label, in the words of the class names (a number as text; of several targets the
  names of those that are 1, joined by " + ", or "none"); null unless "relabel" |
| given | the label that was seen, in the same words |
| when | UTC |
| seen_score | probability that the given label is wrong, as it was shown; null where none was |
| reviewer | who decided; null where no name was given, and not in older files |

While `datassay view` runs, `decisions.parquet.journal` holds what is not yet in the file. A
reviewer with a name has a file of their own, see `reviewers`.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from datassay.data.source import reading
from datassay.data.tables.numerals import numeral
from datassay.errors import DataError
from datassay.optional import map_optional
from datassay.results import result
from datassay.store.journal import read_journal

FILE = "decisions.parquet"
JOINED, NONE = " + ", "none"  # words of several labels, and of a sample that has none of them
RELABEL, KEEP, REMOVE, UNSURE = KINDS = ("relabel", "keep", "remove", "unsure")
METADATA = b"datassay.decisions"
LARGEST = 500_000_000  # bytes of JSON that are read
ABOUT = ("digest", "name", "class_names", "inputs")  # metadata: fields that identify the data
COLUMNS = ("id", "decision", "label", "given", "when", "seen_score")
REVIEWER = "reviewer"  # a column that older files lack
NO_DECISIONS = (
    "must hold decisions: Parquet of datassay view, or JSON of a page or Label Studio; it does "
    "not. Give such a file, or the folder of the run."
)


@result
class Decision:
    """What was decided about one sample.

    Attributes:
        id: of the sample, as the data has it.
        decision: one of KINDS.
        given: the label that was seen.
        label: the new one; empty unless "relabel".
        when: UTC.
        seen_score: probability that the given label is wrong, as shown; None where none was.
        reviewer: who decided; empty: no name was given.
    """

    id: str | int
    decision: str
    given: str
    label: str
    when: datetime
    seen_score: float | None = None
    reviewer: str = ""


@result
class Decisions:
    """All decisions about one data set, at most one per sample.

    Attributes:
        decisions: in the order in which they were made.
        digest: of the data that was looked at, from `source_digest`; empty: not known.
        name: of the data.
        class_names: the classes that a label may name; empty: numbers.
        inputs: how ids and labels were read, as in `Origin.inputs`; empty: not known.
    """

    decisions: tuple[Decision, ...]
    digest: str = ""
    name: str = ""
    class_names: tuple[str, ...] = ()
    inputs: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.decisions)

    def to_table(self) -> pa.Table:
        """Return a table with one row per decision; its metadata identify the data."""
        rows = self.decisions
        ids = pa.array([row.id for row in rows]) if rows else pa.array([], pa.string())
        metadata = {name: getattr(self, name) for name in ABOUT}
        return pa.table({
            "id": ids,
            "decision": pa.array([row.decision for row in rows], pa.string()),
            "label": pa.array([row.label or None for row in rows], pa.string()),
            "given": pa.array([row.given for row in rows], pa.string()),
            "when": pa.array([row.when for row in rows], pa.timestamp("us", "UTC")),
            "seen_score": pa.array([row.seen_score for row in rows], pa.float64()),
            REVIEWER: pa.array([row.reviewer or None for row in rows], pa.string()),
        }).replace_schema_metadata({METADATA: json.dumps(metadata).encode()})


def label_word(class_names: tuple[str, ...], label: Any) -> str:
    """Format a label as decisions store it: its class name, or its number as text."""
    if class_names:
        return class_names[int(label)]
    return numeral(label)


def set_word(names: Sequence[str], values: Any) -> str:
    """Format several labels, each 0 or 1, as decisions store them: names of those that are 1."""
    pairs = zip(names, np.asarray(values).tolist(), strict=True)
    return JOINED.join(name for name, value in pairs if value == 1) or NONE


def read_set(names: Sequence[str], word: str) -> list[float] | None:
    """Return the labels, each 0 or 1, that a word of `set_word` names; None where it names none."""
    target_set = set(word.split(JOINED))
    values = [float(name in target_set) for name in names]
    if set_word(names, values) == word:
        return values
    return None


def read_decisions(path: str | Path) -> Decisions:
    """Return the decisions stored in a file, updated by the journal beside it."""
    path = Path(path)
    if not path.exists():
        raise DataError(
            f"{path} must be a file of decisions; there is none. Decide in datassay view, take the "
            "suggestions with --accept-suggested 0.9, or check the path."
        )
    with reading(path):
        lines, fits_file = read_journal(path)  # before the file
    if path.suffix.lower() == ".json":
        rows, metadata = _read_json(path)
    else:
        rows, metadata = _read_parquet(path)
    by_id = {row[0]: _make_decision(path, *row) for row in rows}
    if len(by_id) < len(rows):
        repeat = Counter(row[0] for row in rows).most_common(1)[0][0]
        raise DataError(f"{path} must decide once about a sample; {repeat} occurs more than once.")
    file_decisions = []
    if not fits_file:  # the journal was begun with another state of the file
        file_decisions = list(map(astuple, by_id.values()))
    try:
        for row in chain.from_iterable(lines):
            by_id.pop(row["id"], None)  # the newest decision comes last
            if row["decision"] is not None:
                row["when"] = datetime.fromisoformat(row["when"])
                by_id[row["id"]] = _make_decision(
                    path, *(row[name] for name in COLUMNS), reviewer=row.get(REVIEWER)
                )
    except (LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"{path.name}.journal must be as datassay view wrote it; it is not ({error!r}). "
            f"Correct it; without it {path.name} has only the earlier decisions."
        ) from error
    if not fits_file and list(map(astuple, by_id.values())) != file_decisions:
        raise DataError(
            f"{path} must be the file that {path.name}.journal was begun with; it is another, "
            "and the journal has other decisions. Put that file back, or delete the journal."
        )
    digest, name, classes, inputs = (metadata.get(key) for key in ABOUT)
    if not isinstance(classes or [], list) or not isinstance(inputs or {}, dict):
        raise DataError(
            f"{path} must say of which data it is, class_names as a list and inputs as an object; "
            f"got {classes!r:.40} and {inputs!r:.40}. Give the file as it was written."
        )
    return Decisions(
        tuple(by_id.values()), str(digest or ""), str(name or ""), tuple(map(str, classes or ())),
        inputs or {},
    )  # fmt: skip


def journal_line(changes: Iterable[tuple[str | int, Decision | None]]) -> list[dict[str, Any]]:
    """Return JSON objects of (sample id, decision) pairs; decision None: withdrawn."""
    return [
        {"id": key, "decision": None} if row is None else {**asdict(row), "when": str(row.when)}
        for key, row in changes
    ]


def _read_parquet(path: Path) -> tuple[list[tuple], dict[str, Any]]:
    """Return a table's decisions, as tuples of COLUMNS and reviewer, and its metadata."""
    with reading(path), path.open("rb") as file:
        if file.read(4) != b"PAR1":
            raise DataError(f"{path} {NO_DECISIONS}")
        table = pq.ParquetFile(file).read()
        metadata = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise DataError(
            f"{path} must have the columns {', '.join(COLUMNS)}; it lacks {', '.join(missing)}. "
            "Give the file that datassay view wrote."
        )
    columns: dict[str, Any] = {}
    when = table["when"]
    if pt.is_timestamp(when.type):  # to_pydict would take long
        times = when.cast(pa.timestamp("us")).to_numpy().tolist()
        table = table.drop_columns("when")
        columns["when"] = [time and time.replace(tzinfo=UTC) for time in times]
    columns |= table.to_pydict()
    reviewers = columns.get(REVIEWER) or [None] * table.num_rows
    rows = zip(*(columns[name] for name in COLUMNS), reviewers, strict=True)
    return list(rows), metadata if isinstance(metadata, dict) else {}


def _read_json(path: Path) -> tuple[list[tuple], dict[str, Any]]:
    """Return a JSON file's decisions, as tuples of COLUMNS and reviewer, and its metadata."""
    if path.stat().st_size > LARGEST:
        raise DataError(f"{path} must be a file of decisions; it is larger than one can be.")
    try:
        with reading(path):
            document = json.loads(path.read_text(encoding="utf-8"))
        metadata = document[METADATA.decode()]
        are_integers = bool(metadata.get("integer_ids"))  # as texts: JavaScript rounds beyond 2^53
        return [
            (
                int(row["id"]) if are_integers else str(row["id"]),
                row["decision"],
                row["label"] and str(row["label"]),
                str(row["given"]),
                datetime.fromisoformat(row["when"]).astimezone(UTC),
                map_optional(float, row["seen_score"]),
                row.get(REVIEWER) and str(row[REVIEWER]),
            )
            for row in document["decisions"]
        ], metadata
    except DataError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path} {NO_DECISIONS}") from error


def _make_decision(
    path: Path, sample_id: Any, kind: Any, label: Any, seen_label: Any, when: Any, score: Any,
    reviewer: Any = None,
) -> Decision:  # fmt: skip
    """Return the decision of one row of a file; raise if its fields are not as they must be."""
    label = label or ""
    seen_label = seen_label or ""
    reviewer = reviewer or ""
    if score != score:  # NaN, which pandas has for None
        score = None
    if kind not in KINDS or not isinstance(label, str) or (kind == RELABEL) != bool(label):
        raise DataError(
            f"{path} must decide {', '.join(KINDS)}, with a label where it is {RELABEL}; "
            f"for id {sample_id} it has {kind!r} and {label!r}. Correct that row."
        )
    is_probability = score is None or (type(score) in (int, float) and 0 <= score <= 1)
    is_id = type(sample_id) in (str, int)  # a bool is none
    are_texts = isinstance(seen_label, str) and isinstance(reviewer, str)
    if not (is_id and isinstance(when, datetime) and are_texts and is_probability):
        raise DataError(
            f"{path} must say of each decision which id, when, which label was given, how likely "
            f"wrong, and who decided; got {sample_id!r}, {when!r}, {seen_label!r}, {score!r} and "
            f"{reviewer!r}. Correct that row."
        )
    return Decision(sample_id, kind, seen_label, label, when, score, reviewer)
