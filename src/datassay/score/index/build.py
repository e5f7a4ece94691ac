"""Compute the training side of influence once, and keep it."""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from datassay.collect.engine.base import Engine
from datassay.collect.engine.processes import engine_named
from datassay.collect.fingerprint import machine_fingerprint
from datassay.collect.gradients.blocks import Block
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.rules import at_least
from datassay.score.index.curvature import MOST_FITTED, load_bases
from datassay.score.index.encoding import (
    GradientEncoding,
    check_gradients,
    choose_sketch,
    encode_by,
)
from datassay.score.index.fidelity import fidelity
from datassay.score.index.identity import FORMAT, check_unique, identity, samples_digest
from datassay.score.index.opened import Index
from datassay.score.index.opening import keep_network, read_index
from datassay.score.index.segment import (
    RowWork,
    encode_sample_ids,
    fill,
    note_parts,
    segment_manifest,
    segment_store,
)
from datassay.score.influence.exact_blocks import check_curvature_memory, exact_rule, penalties
from datassay.score.influence.first_order import measure_of
from datassay.score.influence.given import given_sets
from datassay.score.influence.request import check_numbers
from datassay.score.influence.trained_network import TrainedNetwork, soften_loss, trained_network
from datassay.score.settings import Indexing, Influence, Queries, TrainedWeights, Training
from datassay.store.digests import digest_of_values
from datassay.store.location import normal

CURVATURES = ("auto", "blocks", "ekfac")
# Operations that exact blocks may take together, for each sample that curvature is fitted to.
# Minutes for MOST_FITTED, since an index is made once; for few samples no more than the rest takes.
OPERATIONS_PER_SAMPLE = 6e8


def index_exact_rule(curvature: str, n: int, blocks: list[Block]) -> Callable[[Block], bool]:
    """Return the rule that says which Hessians of an index are exact; n: samples fitted to."""
    return exact_rule(curvature, n, blocks, OPERATIONS_PER_SAMPLE * n)


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
    bytes_per_sample: int = Indexing.bytes_per_sample,
    precision: str = Indexing.gradient_precision,
    device: str | None = None,
    engine: str | Engine = "in_process",
    seed: int = 0,
    progress: Progress = silent,
) -> Index:
    """Keep each training sample's loss gradient in few bytes, to be asked about new inputs later.

    They are a sketch of its coordinates in the eigenbases of the blocks' damped Hessians, scaled so
    that inner products are effects; see `GradientEncoding`.

    Args:
        model: at its trained weights; run in evaluation mode.
        train: n samples, as `influence` takes them; of an iterable Dataset they are held in memory.
        location: folder or fsspec URL. What an interrupted call left there is continued. None: a
            temporary folder that goes with the index, to ask one network many things.
        loss: as in `influence`, like those up to `parameters`.
        curvature: "auto", "blocks" or "ekfac"; "auto" makes more blocks exact than `influence`
            does where samples are thousands, since an index is made once, and fewer of a hundred.
        damping: relative to each block's mean eigenvalue; "auto" as there where none is chosen by
            training again: an index chooses none.
        temperature: of the loss of classes; "auto" is 2 of effects, 1 of `self_influence`.
        weight_decay: of the training.
        parameters: which weights.
        bytes_per_sample: of a row, at most, and 4 of its scale: 1 to 8 bits a number, or float32
            where 4 bytes a weight fit. `index_plan` says what sizes would keep.
        precision: of the gradients, "float32" or "float64".
        device: of the gradients; None: where the model is.
        engine: where chunks are computed: "in_process", "processes", "ray" or an engine; the bits
            are the same on each.
        seed: of draws.
        progress: called with (step, samples or parts done, in all).

    Returns:
        The index; `.fidelity` says how far its effects follow those of exact rows.

    Raises:
        SettingError: a setting is unknown or out of range, or the folder holds the index of another
            network, loss or setting, each named.
        DataError: ids are double, or the folder is damaged or cannot be written.
        ModelError: the model cannot be run or differentiated.

    Cost: two passes over up to 16 384 samples, drawn, for the curvature, and one over all for the
        rows, a gradient per sample each; the rows, and each block's eigenbasis, once.
    Source: the metric is that of `influence`. Keeping projected gradients to be asked later is
        TRAK's (Park et al., 2023) and LoGra's (Choe et al., 2024); rows of few bits and queries of
        floats are RaBitQ's (Gao and Long, 2024). Deviates: coordinates are chosen and weighted by
        their part of the effects.
    """
    check_settings(curvature, bytes_per_sample, precision)
    check_numbers(damping, weight_decay, temperature)
    data, _ = given_sets(model, train, None, loss)
    network = trained_network(
        model, data, loss=loss, parameters=parameters, precision=precision, device=device,
        progress=progress,
    )  # fmt: skip
    soften_loss(network, temperature)
    engine = engine_named(engine)
    path = tempfile.mkdtemp(prefix="datassay-index-") if location is None else normal(location)
    digest, ids = samples_digest(network.train)
    check_unique(ids)
    names = parameters if isinstance(parameters, str | None) else list(parameters)
    run = {
        "index": FORMAT,
        **identity(model, network.loss, network.self_influence_loss),
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
    is_exact = index_exact_rule(curvature, min(network.n, MOST_FITTED), blocks)
    check_curvature_memory(blocks, is_exact)
    exact_names = frozenset(block.name for block in blocks if is_exact(block))
    penalty_of = penalties(blocks, network.n, is_exact, damping, weight_decay)
    with ExitStack() as on_failure:
        if location is None:
            on_failure.callback(shutil.rmtree, path, ignore_errors=True)
        bases = load_bases(path, run, network, exact_names, penalty_of, seed, engine, progress)
        check_gradients(bases)
        sketch = choose_sketch(bases, bytes_per_sample, seed)
        encoder = encode_by(bases, sketch, network.dtype)
        classes = data.class_names if isinstance(data, SampleSet) else ()
        stored_ids = encode_sample_ids(ids)
        _fill_store(path, run, network, encoder, stored_ids, classes, engine, progress)
        note_parts(path, digest_of_values(run))
        keep_network(path, run, model)
        opened = read_index(path, model, network.loss, device)
        on_failure.pop_all()
    examples = None
    if isinstance(data, SampleSet):
        examples = data.subset(np.arange(min(2, len(data))))
    opened = replace(opened, example=examples)
    if location is None:
        weakref.finalize(opened, shutil.rmtree, path, ignore_errors=True)
    return opened


def _fill_store(
    location: str,
    run: Mapping[str, Any],
    network: TrainedNetwork,
    encoder: GradientEncoding,
    ids: np.ndarray,
    classes: tuple[str, ...],
    engine: Engine,
    progress: Progress,
) -> None:
    """Write the first samples' gradient rows and the index's manifest to the store."""
    run_digest = digest_of_values(run)
    sketch = encoder.sketch
    sizes = {"coordinates": sketch.n_coordinates, "width": sketch.width, "bits": sketch.bits}
    rows_run = {
        "of": run_digest,
        "number": 0,
        "training samples": run["training samples"],
        "sketch": sizes,
    }
    manifest = segment_manifest(location, 0)
    if manifest is not None:  # of a call that was interrupted
        extra = manifest["free"]
    else:
        measure = measure_of(Queries.measure, network.loss, has_several=network.has_several)
        blocks = {"direct": sorted(network.per_sample.direct), "blocks": list(encoder.bases)}
        fidelities = fidelity(network, [encoder], measure, run["seed"])
        extra = {
            "index": {**run, **blocks, "version": FORMAT, "of": run_digest},
            "class names": list(classes),
            "sketch": sizes,
            "fidelity": None if fidelities is None else fidelities[0],
        }
    store = segment_store(location, 0, rows_run, network.n, sketch.n_bytes, ids, extra)
    work = RowWork(replace(network, progress=silent), network.train, encoder, ids)
    fill(store, work.arrays, engine, progress, "keep gradients")


def check_settings(curvature: str, bytes_per_sample: int, precision: str) -> None:
    """Raise if a setting of an index is unknown or out of range."""
    if curvature not in CURVATURES:
        names = ", ".join(map(repr, CURVATURES))
        raise SettingError(f"curvature must be one of {names} in an index; got {curvature!r}.")
    at_least("bytes_per_sample", bytes_per_sample, 1)
    if precision not in {"float32", "float64"}:
        raise SettingError(f"precision must be 'float32' or 'float64'; got {precision!r}.")
