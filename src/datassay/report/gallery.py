"""What the cards of every gallery say of a sample."""

from __future__ import annotations

from typing import Any, SupportsIndex

from datassay.data.samples import SampleSet
from datassay.report.wording import label_text


def sample_texts(samples: SampleSet, position: SupportsIndex) -> dict[str, Any]:
    """Fields of a Card that are the sample's own: id, label, truth ("" if right), class_index."""
    given = label_text(samples.class_names, samples.y[position])
    truth = given
    if samples.true_y is not None:
        truth = label_text(samples.class_names, samples.true_y[position])
    return {
        "id": str(samples.ids[position]),
        "label": given,
        "truth": truth if truth != given else "",
        "class_index": int(samples.y[position]) if samples.is_classification else -1,
    }
