"""What was changed in data that were given back, beside them: for people and for programs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np

from datassay.data.source import reading
from datassay.errors import DataError
from datassay.results import result

TABLE, RECORD = FILES = ("changelog.csv", "changelog.json")
COLUMNS = ("id", "decision", "given", "label", "when", "new_id")
MADE_BY = "datassay apply"
# What a spreadsheet takes as the start of a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@result
class Changelog:
    """What was decided about samples, and what became of their ids.

    Attributes:
        rows: one a decision: id, decision, given, label (of what is relabelled, else empty), when
            (UTC, ISO 8601), new_id (empty: removed).
        digest: of the data before, from `source_digest`.
        digest_after: of the data given back.
        is_numbered: whether ids are places in the data, so that samples behind a removed one have
            moved up; else all that are not in `rows` kept their ids.
    """

    rows: tuple[dict[str, str], ...]
    digest: str
    digest_after: str
    is_numbered: bool

    def new_ids(self, ids: np.ndarray) -> list[str]:
        """The ids that samples of the data before have now, as text; empty where they are gone.

        Args:
            ids: [n], of samples before.

        Returns:
            [n].
        """
        known = {row["id"]: row["new_id"] for row in self.rows}
        if not self.is_numbered:
            return [known.get(str(name), str(name)) for name in ids.tolist()]
        gone = np.sort([int(name) for name, new in known.items() if not new])
        places = ids - np.searchsorted(gone, ids)
        return [
            "" if known.get(str(name)) == "" else str(place)
            for name, place in zip(ids.tolist(), places.tolist(), strict=True)
        ]

    def texts(self) -> dict[str, str]:
        """File name → text: a table for people, safe to open in a spreadsheet, and a record."""
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([_safe(row[name]) for name in COLUMNS] for row in self.rows)
        record = {
            "made_by": MADE_BY,
            "digest": self.digest,
            "digest_after": self.digest_after,
            "is_numbered": self.is_numbered,
            "rows": self.rows,
        }
        return {
            TABLE: table.getvalue(),
            RECORD: json.dumps(record, indent=1, ensure_ascii=False) + "\n",
        }


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA) else text


def read_changelog(data: Path) -> Changelog | None:
    """The changelog beside data, in its folder; None where there is none of ours."""
    path = (data if data.is_dir() else data.parent) / RECORD
    if not path.is_file():
        return None
    try:
        with reading(path):
            record = json.loads(path.read_text(encoding="utf-8"))
        if record.get("made_by") != MADE_BY:
            return None
        rows = tuple({name: str(row[name]) for name in COLUMNS} for row in record["rows"])
        digests = str(record["digest"]), str(record["digest_after"])
        return Changelog(rows, *digests, bool(record["is_numbered"]))
    except (LookupError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path} must be as datassay apply wrote it; it was changed. Apply the decisions again."
        ) from error


def given_back_file(folder: Path) -> Path | None:
    """The one file of data in a folder that `datassay apply` made.

    Args:
        folder: any.

    Returns:
        The file beside the changelog; None where there is no changelog of ours, or folders or
        several files beside it.
    """
    if not (folder / RECORD).is_file():
        return None
    inside = [p for p in folder.iterdir() if not p.name.startswith(".") and p.name not in FILES]
    return inside[0] if len(inside) == 1 and inside[0].is_file() else None
