"""Open an index that was made: what it belongs to is compared, nothing is unpickled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.score.index.identity import FORMAT, check_model, objective_of
from datassay.score.index.network import kept_network
from datassay.score.index.opened import Index
from datassay.score.index.segment import Segment, segment_manifest, stored_segment
from datassay.score.settings import Influence
from datassay.store.location import normal, shown


def open_index(
    location: str | Path,
    model: nn.Module | None = None,
    *,
    loss: Any = Influence.loss,
    device: str | None = None,
) -> Index:
    """Open an index that `index` made.

    Args:
        location: path or fsspec URL.
        model: the network at the weights that it was made with; None: one of transformers is built
            again from the index, with others only what is stored can be read (`self_influence`,
            `to_table`).
        loss: the function, where the training loss was one of the user's; of others "auto": it is
            read from the index.
        device: to compute gradients on; None: where the model is.

    Returns:
        The index. Nothing of it is unpickled.

    Raises:
        DataError: there is none, it is unfinished or damaged, or a newer version made it.
        ModelError: another network, other weights or other code; each is named.
        SettingError: another loss.
    """
    place = normal(location)
    first = segment_manifest(place, 0)
    kept = None if first is None else first["free"].get("index")
    if first is None or kept is None:
        raise DataError(
            f"location must hold an index; {shown(place)} has none. Make it: index(), or datassay "
            "index."
        )
    if kept["version"] > FORMAT:
        raise DataError(
            f"the index must be of version {FORMAT} or older; {shown(place)} has version "
            f"{kept['version']}, of a newer datassay. Update it: pip install -U datassay."
        )
    model = kept_network(place) if model is None else model
    if model is not None:
        check_model(kept, model, place)
    segments = list(_segments(place, kept["of"]))
    return Index(
        location=place,
        kept=kept,
        segments=segments,
        loss=objective_of(kept["loss"], loss, place),
        chosen=first["free"]["chosen"],
        share=first["free"]["share"],
        rank_correlation=first["free"]["rank correlation"],
        model=model,
        device=device,
        like=_named(first["free"].get("class names") or ()),
    )


def _named(classes: Sequence[str]) -> SampleSet | None:
    """A sample that stands for those of the training, by the names of its classes."""
    if not classes:
        return None
    return SampleSet(np.zeros((1, 1)), np.zeros(1, np.int64), np.arange(1), tuple(classes))


def _segments(place: str, of: str) -> Iterator[Segment]:
    number = 0
    while (manifest := segment_manifest(place, number)) is not None:
        if manifest["run"].get("of") != of:
            raise DataError(
                f"the rows of an index must be its own; {shown(place)}/rows-{number} is of another "
                "one. Put its own back."
            )
        store = stored_segment(place, number, manifest)
        if store.unfinished():
            if number == 0:
                raise DataError(
                    f"an index must be finished; {shown(place)} lacks {len(store.unfinished()):,} "
                    f"of {len(store.chunks):,} chunks. Run index(...) again: it goes on."
                )
            return  # an appending that was interrupted
        yield Segment(store)
        number += 1
