"""Compute the training side of influence once, and keep it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from datassay.collect.engine.base import Engine
from datassay.collect.engine.choose import engine_named
from datassay.collect.gradients.batches import samples_or_batches
from datassay.collect.store.fingerprint import digest_of_values, machine_fingerprint
from datassay.collect.store.location import normal
from datassay.data.arguments import checks_arguments
from datassay.errors import DataError, SettingError
from datassay.progress import Progress, silent
from datassay.score.index.curvature import kept_bases
from datassay.score.index.encoding import Encoding, encoding
from datassay.score.index.identity import FORMAT, identity, samples_digest
from datassay.score.index.opened import Index, open_index
from datassay.score.index.pieces import fill
from datassay.score.index.quality import rank_correlation
from datassay.score.index.segment import RowWork, as_kept, check_precision, segment_store
from datassay.score.influence.gradient_methods import DAMPING, check_curvature_memory, exact_rule
from datassay.score.influence.measure import measure_of
from datassay.score.influence.trained_network import trained_network
from datassay.score.settings import Indexing, Influence, Queries, TrainedWeights, Training

BY_BLOCKS = ("auto", "blocks", "ekfac")


@checks_arguments
def index(
    model: nn.Module,
    train: Any,
    location: str | Path,
    *,
    loss: Any = Influence.loss,
    curvature: str = TrainedWeights.curvature,
    damping: float | str = TrainedWeights.damping,
    temperature: float = TrainedWeights.temperature,
    weight_decay: float = Training.weight_decay,
    parameters: str | Sequence[str] | None = None,
    share: float = Indexing.share,
    width: int = Indexing.width,
    keep: str = Indexing.keep,
    precision: str = "float32",
    device: str | None = None,
    engine: str | Engine = "in_process",
    seed: int = 0,
    progress: Progress = silent,
) -> Index:
    """Keep each training sample's loss gradient in few numbers, to be asked about new inputs later.

    The numbers are its coordinates in the eigenbasis of each block's damped Hessian, scaled so that
    inner products are effects; see `Encoding`.

    Args:
        model: at its trained weights; run in evaluation mode.
        train: n samples, as `influence` takes them; they must have positions (no iterable Dataset).
        location: folder or fsspec URL. What an interrupted call left there is gone on with.
        loss: as in `influence`, like those up to `parameters`.
        curvature: "auto", "blocks" or "ekfac".
        damping: relative to each block's mean eigenvalue; "auto" as there.
        temperature: of the loss of classes.
        weight_decay: of the training.
        parameters: which weights.
        share: of the expected mean squared effect that a row holds, where the width allows it.
        width: numbers a row, at most.
        keep: type of these numbers: "float32", "float16" or "int8", with one scale a row.
        precision: of the gradients, "float32" or "float64".
        device: of the gradients; None: where the model is.
        engine: where chunks are computed: "in_process", "processes", "ray" or an engine; the bits
            are the same on each.
        seed: of draws.
        progress: called with (step, samples or parts done, in all).

    Returns:
        The index; `.rank_correlation` says how far its effects follow those of all coordinates.

    Raises:
        SettingError: a setting is unknown or out of range, or the folder holds the index of another
            network, loss or setting, each named.
        DataError: the samples have no positions or ids are double, or the folder is damaged or
            cannot be written.
        ModelError: the model cannot be run or differentiated.

    Cost: two passes for the curvature and one for the rows, a gradient a sample each; n width
        numbers, and each block's eigenbasis, once.
    Source: the metric is that of `influence`. Keeping projected gradients to be asked later is
        TRAK's (Park et al., 2023) and LoGra's (Choe et al., 2024). Deviates: eigendirections by
        their part of the effects instead of random or layerwise equal ranks.
    """
    _check(curvature, share, width, keep, precision)
    network = trained_network(
        model, samples_or_batches(train, "train"), loss=loss, parameters=parameters,
        precision=precision, device=device, progress=progress,
    )  # fmt: skip
    if network.train.subset is None:
        raise DataError(
            "train must be samples that have positions; these are iterated. Give a list, a "
            "Dataset or arrays."
        )
    network.loss = replace(network.loss, temperature=temperature)
    by = engine_named(engine) if isinstance(engine, str) else engine
    place = normal(location)
    digest, ids = samples_digest(network.train)
    _check_ids(ids)
    run = {
        "index": FORMAT,
        **identity(model, network.loss),
        **machine_fingerprint(network.model),
        "training samples": digest,
        "curvature": curvature,
        "damping": damping,
        "weight decay": weight_decay,
        "parameters": parameters
        if parameters is None or isinstance(parameters, str)
        else list(parameters),
        "precision": precision,
        "seed": seed,
    }
    exact = exact_rule(curvature, network.n, network.per_sample.blocks)
    check_curvature_memory(network.per_sample.blocks, exact)
    small = frozenset(b.name for b in network.per_sample.blocks if exact(b))
    shift = {
        b.name: (DAMPING[exact(b)] if isinstance(damping, str) else float(damping), weight_decay)
        for b in network.per_sample.blocks
    }
    bases = kept_bases(place, run, network, small, shift, seed, by, progress)
    found = encoding(bases, share, width)
    _fill(place, run, network, found, keep, as_kept(ids), seed, by, progress)
    opened = open_index(place, loss=network.loss.function)
    opened.model, opened.device = model, device
    return opened


def _fill(place, run, network, found: Encoding, keep, ids, seed, by, progress) -> None:
    """The rows of the first samples."""
    of = digest_of_values({**run, "share": found.share, "width": found.width, "keep": keep})
    free = {
        "index": {
            **{k: v for k, v in run.items() if k != "training samples"},
            "version": FORMAT,
            "of": of,
            "keep": keep,
        },
        "chosen": {name: at.tolist() for name, at in found.kept.items()},
        "share": found.share,
        "rank correlation": rank_correlation(
            network, found, keep, measure_of(Queries.measure, network.loss), seed
        ),
    }
    own = {"of": of, "number": 0, "training samples": run["training samples"]}
    store = segment_store(place, 0, own, network.n, found.width, keep, ids, free)
    work = RowWork(replace(network, progress=silent), network.train, found, keep, ids)
    fill(store, work.arrays, by, progress, "keep gradients")


def _check(curvature: str, share: float, width: int, keep: str, precision: str) -> None:
    if curvature not in BY_BLOCKS:
        names = ", ".join(map(repr, BY_BLOCKS))
        raise SettingError(f"curvature must be one of {names} in an index; got {curvature!r}.")
    if not 0 < share <= 1:
        raise SettingError(f"share must be above 0 and at most 1; got {share}.")
    if width < 1:
        raise SettingError(f"width must be at least 1; got {width}.")
    if precision not in {"float32", "float64"}:
        raise SettingError(f"precision must be 'float32' or 'float64'; got {precision!r}.")
    check_precision(keep)


def _check_ids(ids: np.ndarray) -> None:
    values, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        which = ", ".join(map(repr, values[counts > 1][:3].tolist()))
        raise DataError(f"ids must be unique; {which} occurs more than once.")
