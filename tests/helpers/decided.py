"""Decisions made by hand, as a review would have written them."""

from datetime import UTC, datetime

import pyarrow.parquet as pq

from datassay.act.review.decisions import Decision, Decisions
from datassay.data.back.origin import source_digest

WHEN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def decided(data, path, rows, **inputs):
    """A file of decisions about data: rows of (id, decision, given, label)."""
    made = tuple(Decision(i, kind, given, label, WHEN, 0.9) for i, kind, given, label in rows)
    about = Decisions(made, source_digest(data), "data", inputs=inputs)
    pq.write_table(about.to_table(), path)
    return path
