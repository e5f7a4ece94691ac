"""What every sample of a review says before it is drawn."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from jaxtyping import Int

from datassay.act.review.decisions import label_word
from datassay.report.review.labels import Reviewed
from datassay.report.wording import label_text, labels_given


def listing(reviewed: Reviewed, rows: Int[np.ndarray, " m"]) -> dict[str, Any]:
    """What every sample of a review says before it is drawn; plain values, one entry a row.

    Args:
        reviewed: all samples.
        rows: positions of those on the page.

    Returns:
        Columns by name; given and suggested are class indices, or texts; `order` holds places among
        the rows, the most suspect first.
    """
    samples, wrong = reviewed.samples, reviewed.probability[rows]
    rank = np.empty(len(samples), np.int64)
    rank[reviewed.order] = np.arange(len(samples))
    columns: dict[str, Any] = {
        "id": [str(one) for one in samples.ids[rows].tolist()],
        "given": label_values(reviewed, samples.y[rows], 12),
        "suggested": label_values(reviewed, reviewed.suggested[rows], 6),
        "wrong": [None if np.isnan(p) else round(p, 4) for p in wrong.tolist()],
        "suspect": reviewed.is_issue[rows].astype(int).tolist(),
        "order": np.argsort(rank[rows], kind="stable").tolist(),
        "source": None,
        "sources": [],
    }
    if samples.source is not None:
        sources, codes = np.unique(samples.source[rows].astype(str), return_inverse=True)
        columns |= {"source": codes.tolist(), "sources": sources.tolist()}
    return columns | {
        "name": samples.name,
        "digest": reviewed.digest,
        "inputs": dict(reviewed.inputs),
        "key": _key(reviewed),
        "kind": samples.kind,
        "classes": list(samples.class_names),
        "relabels": reviewed.relabels,
        "integer_ids": samples.ids.dtype.kind in "iu",
    }


def label_values(reviewed: Reviewed, values: np.ndarray, digits: int) -> list[Any]:
    """Labels as a page has them: class indices, or texts.

    Args:
        reviewed: all samples.
        values: [m] or [m, k] labels.
        digits: of numbers.

    Returns:
        [m] plain values.
    """
    samples = reviewed.samples
    if samples.is_classification:
        return values.tolist()
    if values.ndim == 1:
        return [label_word((), float(f"{v:.{digits}g}")) for v in values.tolist()]
    text = labels_given if samples.has_several_labels else lambda one: label_text((), one)
    return [text(one) for one in values]


def _key(reviewed: Reviewed) -> str:
    """Under which a browser keeps the decisions: of these samples and labels, and no others."""
    whole = hashlib.sha256(reviewed.digest.encode())
    whole.update(str(reviewed.samples.ids.tolist()).encode())
    whole.update(np.ascontiguousarray(reviewed.samples.y).tobytes())
    return whole.hexdigest()
