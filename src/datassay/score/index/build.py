"""Compute the training side of influence once, and keep it."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from datassay import ranks
from datassay.collect.engine.base import Engine
from datassay.collect.engine.processes import engine_named
from datassay.collect.fingerprint import machine_fingerprint
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.rules import at_least, require
from datassay.score.index.curvature import MOST_FITTED, load_bases
from datassay.score.index.encoding import GradientEncoding, encoding, query_rows
from datassay.score.index.identity import FORMAT, check_unique, identity, samples_digest
from datassay.score.index.opened import Index
from datassay.score.index.opening import keep_network, open_index
from datassay.score.index.segment import (
    RowWork,
    check_precision,
    encode_sample_ids,
    fill,
    note_parts,
    quantise,
    segment_manifest,
    segment_store,
)
from datassay.score.influence.exact_blocks import (
    check_curvature_memory,
    exact_rule,
    penalties,
)
from datassay.score.influence.first_order import Measure, directions, measure_of, removal_effects
from datassay.score.influence.given import given_sets
from datassay.score.influence.request import check_numbers
from datassay.score.influence.trained_network import (
    TrainedNetwork,
    trained_network,
    with_temperature,
)
from datassay.score.settings import Indexing, Influence, Queries, TrainedWeights, Training
from datassay.store.location import normal
from datassay.store.manifest import digest_of_values

# Samples that are compared, the first of them as queries; values that the queries may take.
N_SAMPLES = 256
N_QUERIES = 64
FEWEST = 20
MOST_VALUES = 2**27


def rank_correlation(
    network: TrainedNetwork, encoding: GradientEncoding, precision: str, measure: Measure, seed: int
) -> dict[str, float] | None:
    """Compute Spearman's correlation of an index's effects with those of all coordinates."""
    # The mean over queries and its 95 % interval; None of fewer than 40 samples.
    # Cost: gradients of up to 320 samples, all coordinates of the queries held at once.
    if network.n < 2 * FEWEST:
        return None
    assert network.train.subset is not None
    size = sum(block.size for block in network.per_sample.blocks)
    m = max(FEWEST // 4, min(N_QUERIES, MOST_VALUES // size, network.n // 4))
    drawn = np.random.default_rng(seed).permutation(network.n)[: m + N_SAMPLES]
    queries = network.train.subset(np.sort(drawn[:m]).tolist())
    samples = network.train.subset(np.sort(drawn[m:]).tolist())
    sampled = replace(
        network, train=samples, removed=None, n=len(drawn) - m, progress=silent, own_loss=None
    )
    bases = dict(encoding.bases)
    target = directions(network, bases, [batch for _, batch in queries], measure)
    exact = torch.cat([p.effect for p in removal_effects(sampled, bases, target, 1.0)]).numpy()
    q_rows, _ = query_rows(network, encoding, measure, queries)
    rows = torch.cat([encoding.rows(g)[0] for _, g in sampled.loss_gradients()])
    codes, scale = quantise(rows, precision)
    ours = -(torch.from_numpy(codes).float() * torch.from_numpy(scale)[:, None] @ q_rows.T).numpy()
    correlations = ranks.rank_correlation(exact.T, ours.T)
    half = 1.96 * float(correlations.std(ddof=1)) / len(correlations) ** 0.5
    mean = float(correlations.mean())
    return {
        "mean": mean,
        "low": mean - half,
        "high": min(1.0, mean + half),
        "queries": len(correlations),
        "samples": len(rows),
    }


BY_BLOCKS = ("auto", "blocks", "ekfac")
# That exact blocks may take together: minutes, since an index is made once.
MOST_OPERATIONS = 1e13


@checks_arguments
def index(
    model: nn.Module,
    train: Any,
    location: str | Path | None = None,
    *,
    loss: Any = Influence.loss,
    curvature: str = TrainedWeights.curvature,
    damping: float | str = TrainedWeights.damping,
    temperature: float | str = TrainedWeights.temperature,
    weight_decay: float = Training.weight_decay,
    parameters: str | Sequence[str] | None = None,
    share: float = Indexing.share,
    width: int = Indexing.width,
    keep: str = Indexing.keep,
    precision: str = Indexing.gradient_precision,
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
        train: n samples, as `influence` takes them; of an iterable Dataset they are held in memory.
        location: folder or fsspec URL. What an interrupted call left there is continued. None: a
            temporary folder that goes with the index, to ask one network many things.
        loss: as in `influence`, like those up to `parameters`.
        curvature: "auto", "blocks" or "ekfac"; "auto" makes more blocks exact than `influence`
            does, since an index is made once.
        damping: relative to each block's mean eigenvalue; "auto" as there.
        temperature: of the loss of classes; "auto" as in `influence`: 2 of effects, 1 of
            `self_influence`.
        weight_decay: of the training.
        parameters: which weights.
        share: of the expected mean squared effect that a row holds, where the width allows it.
        width: numbers per row, at most.
        keep: type of these numbers: "float32", "float16" or "int8", with one scale per row.
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
        DataError: ids are double, or the folder is damaged or cannot be written.
        ModelError: the model cannot be run or differentiated.

    Cost: two passes over up to 16 384 samples, drawn, for the curvature, and one over all for the
        rows, a gradient per sample each; n width numbers, and each block's eigenbasis, once.
    Source: the metric is that of `influence`. Keeping projected gradients to be asked later is
        TRAK's (Park et al., 2023) and LoGra's (Choe et al., 2024). Deviates: eigendirections by
        their part of the effects instead of random or layerwise equal ranks.
    """
    check_settings(curvature, share, width, keep, precision)
    check_numbers(damping, weight_decay, temperature)
    data, _ = given_sets(model, train, None, loss)
    network = trained_network(
        model, data, loss=loss, parameters=parameters, precision=precision, device=device,
        progress=progress,
    )  # fmt: skip
    with_temperature(network, temperature)
    if isinstance(engine, str):
        engine_used = engine_named(engine)
    else:
        engine_used = engine
    if location is None:
        path = tempfile.mkdtemp(prefix="datassay-index-")
    else:
        path = normal(location)
    digest, ids = samples_digest(network.train)
    check_unique(ids)
    if parameters is None or isinstance(parameters, str):
        names = parameters
    else:
        names = list(parameters)
    run = {
        "index": FORMAT,
        **identity(model, network.loss, network.own_loss),
        **machine_fingerprint(network.model),
        "training samples": digest,
        "curvature": curvature,
        "damping": damping,
        "weight decay": weight_decay,
        "parameters": names,
        "precision": precision,
        "seed": seed,
    }
    blocks = network.per_sample.blocks
    exact = exact_rule(curvature, min(network.n, MOST_FITTED), blocks, MOST_OPERATIONS)
    check_curvature_memory(blocks, exact)
    small = frozenset(b.name for b in blocks if exact(b))
    shift = penalties(blocks, network.n, exact, damping, weight_decay)
    with ExitStack() as if_it_fails:
        if location is None:
            if_it_fails.callback(shutil.rmtree, path, ignore_errors=True)
        bases = load_bases(path, run, network, small, shift, seed, engine_used, progress)
        encoder = encoding(bases, share, width)
        classes = ()
        if isinstance(data, SampleSet):
            classes = data.class_names
        _fill(
            path,
            run,
            network,
            encoder,
            keep,
            encode_sample_ids(ids),
            classes,
            engine_used,
            progress,
        )
        note_parts(path, digest_of_values(run))
        keep_network(path, run, model)
        opened = open_index(path, loss=network.loss.function or Influence.loss)
        if_it_fails.pop_all()
    examples = None
    if isinstance(data, SampleSet):
        examples = data.subset(np.arange(min(2, len(data))))
    opened = replace(opened, model=model, device=device, example=examples)
    if location is None:
        weakref.finalize(opened, shutil.rmtree, path, ignore_errors=True)
    return opened


def _fill(
    location: str,
    run: Mapping[str, Any],
    network: TrainedNetwork,
    encoder: GradientEncoding,
    keep: str,
    ids: np.ndarray,
    classes: tuple[str, ...],
    engine: Engine,
    progress: Progress,
) -> None:
    """Store the rows of the first samples."""
    run_digest = digest_of_values(run)
    extra = {}
    rows_run = {
        "of": run_digest,
        "number": 0,
        "training samples": run["training samples"],
        "share": encoder.share,
        "width": encoder.width,
        "keep": keep,
    }
    if (manifest := segment_manifest(location, 0)) is not None:
        extra = manifest["free"]
    else:  # what the first rows say of the whole index
        measure = measure_of(Queries.measure, network.loss, has_several=network.has_several)
        blocks = {"direct": sorted(network.per_sample.direct)}
        extra = {
            "index": {**run, **blocks, "version": FORMAT, "of": run_digest, "keep": keep},
            "class names": list(classes),
            "chosen": {name: position.tolist() for name, position in encoder.coordinates.items()},
            "share": encoder.share,
            "rank correlation": rank_correlation(network, encoder, keep, measure, run["seed"]),
        }
    store = segment_store(location, 0, rows_run, network.n, encoder.width, keep, ids, extra)
    work = RowWork(replace(network, progress=silent), network.train, encoder, keep, ids)
    fill(store, work.arrays, engine, progress, "keep gradients")


def check_settings(curvature: str, share: float, width: int, keep: str, precision: str) -> None:
    """Refuse a setting of an index that is unknown or out of range."""
    if curvature not in BY_BLOCKS:
        names = ", ".join(map(repr, BY_BLOCKS))
        raise SettingError(f"curvature must be one of {names} in an index; got {curvature!r}.")
    require(0 < share <= 1, "share", "be above 0 and at most 1", share)
    at_least("width", width, 1)
    if precision not in {"float32", "float64"}:
        raise SettingError(f"precision must be 'float32' or 'float64'; got {precision!r}.")
    check_precision(keep)
