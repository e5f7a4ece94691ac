"""Decisions about samples, one row per sample decided on, in a file that says of which data.

`datassay view` writes Parquet. A page without a server downloads JSON: {"datassay.decisions":
{"digest", "name", "class_names", "inputs", "integer_ids"}, "decisions": [one object per row, "when"
in ISO]}.

| column | meaning |
|---|---|
| id | of the sample |
| decision | "relabel", "keep", "remove" or "unsure" |
| label | the new label, in the words of the class names (a number as text); null unless "relabel" |
| given | the label that was seen, in the same words |
| when | UTC |
| seen_score | probability that the given label is wrong, as it was shown; null where none was |
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datassay.data.source import reading
from datassay.errors import DataError
from datassay.results import result

FILE = "decisions.parquet"
RELABEL, KEEP, REMOVE, UNSURE = KINDS = ("relabel", "keep", "remove", "unsure")
METADATA = b"datassay.decisions"
LARGEST = 500_000_000  # bytes of JSON that are read
ABOUT = ("digest", "name", "class_names", "inputs")  # what the file says of the data
COLUMNS = ("id", "decision", "label", "given", "when", "seen_score")


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
    """

    id: str | int
    decision: str
    given: str
    label: str
    when: datetime
    seen_score: float | None = None


@result
class Decisions:
    """All decisions about one data set, at most one per sample.

    Attributes:
        decisions: in the order in which they were made.
        digest: of the data that was looked at, from `source_digest`; empty: not known.
        name: of the data.
        class_names: the classes that a label may name; empty: numbers.
        inputs: how ids and labels were read, as `Origin.inputs` has it; empty: not known.
    """

    decisions: tuple[Decision, ...]
    digest: str = ""
    name: str = ""
    class_names: tuple[str, ...] = ()
    inputs: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.decisions)

    def to_table(self) -> pa.Table:
        """One row per decision; the schema's metadata say of which data."""
        rows = self.decisions
        ids = pa.array([row.id for row in rows]) if rows else pa.array([], pa.string())
        about = {name: getattr(self, name) for name in ABOUT}
        return pa.table({
            "id": ids,
            "decision": pa.array([row.decision for row in rows], pa.string()),
            "label": pa.array([row.label or None for row in rows], pa.string()),
            "given": pa.array([row.given for row in rows], pa.string()),
            "when": pa.array([row.when for row in rows], pa.timestamp("us", "UTC")),
            "seen_score": pa.array([row.seen_score for row in rows], pa.float64()),
        }).replace_schema_metadata({METADATA: json.dumps(about).encode()})


def label_word(class_names: tuple[str, ...], label: Any) -> str:
    """A label as decisions have it."""
    return class_names[int(label)] if class_names else f"{float(label):.12g}"


def read_decisions(path: str | Path) -> Decisions:
    """Decisions from a file."""
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path} must be a file of decisions; there is none. Check the path.")
    rows, about = _of_json(path) if path.suffix.lower() == ".json" else _of_parquet(path)
    decisions = tuple(_decision(row, path) for row in rows)
    ids = Counter(decision.id for decision in decisions)
    if twice := [one for one, times in ids.items() if times > 1]:
        raise DataError(
            f"{path} must decide once about a sample; {twice[0]} occurs more than once."
        )
    return Decisions(
        decisions,
        digest=str(about.get("digest", "")),
        name=str(about.get("name", "")),
        class_names=tuple(map(str, about.get("class_names") or ())),
        inputs=about.get("inputs") or {},
    )


def _of_parquet(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    with reading(path), pq.ParquetFile(path) as file:
        table = file.read()
        about = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
    if missing := [name for name in COLUMNS if name not in table.column_names]:
        raise DataError(
            f"{path} must have the columns {', '.join(COLUMNS)}; it lacks {', '.join(missing)}. "
            "Give the file that datassay view wrote."
        )
    return table.to_pylist(), about if isinstance(about, dict) else {}


def _of_json(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    if path.stat().st_size > LARGEST:
        raise DataError(f"{path} must be a file of decisions; it is larger than one can be.")
    try:
        with reading(path):
            whole = json.loads(path.read_text(encoding="utf-8"))
        about = whole[METADATA.decode()]
        whole_ids = bool(about.get("integer_ids"))  # as texts: JavaScript rounds beyond 2^53
        return [
            {
                **row,
                "id": int(row["id"]) if whole_ids else str(row["id"]),
                "label": row["label"] and str(row["label"]),
                "given": str(row["given"]),
                "seen_score": None if row["seen_score"] is None else float(row["seen_score"]),
                "when": datetime.fromisoformat(row["when"]).astimezone(UTC),
            }
            for row in whole["decisions"]
        ], about
    except DataError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} must be a file of decisions, as a page of datassay run downloads it; it is "
            "another. Give the file that the page or datassay view wrote."
        ) from error


def _decision(row: dict[str, Any], path: Path) -> Decision:
    kind, label, when = row["decision"], row["label"] or "", row["when"]
    if kind not in KINDS or (kind == RELABEL) != bool(label):
        raise DataError(
            f"{path} must decide {', '.join(KINDS)}, with a label where it is {RELABEL}; for id "
            f"{row['id']} it has {kind!r} and {label!r}. Correct that row."
        )
    if not isinstance(row["id"], str | int) or not isinstance(when, datetime):
        raise DataError(
            f"{path} must say of each decision which id and when; got {row['id']!r} and {when!r}. "
            "Correct that row."
        )
    return Decision(row["id"], kind, row["given"] or "", label, when, row["seen_score"])
