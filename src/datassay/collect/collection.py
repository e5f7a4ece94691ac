"""The collection of outputs and kernel or features in one pass; every score uses them."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.collect.choose_form import choose_form
from datassay.collect.curvature.output_loss import check_n_outputs
from datassay.collect.engine.base import Engine
from datassay.collect.engine.processes import engine_named
from datassay.collect.form import Form, step_bytes, within_memory
from datassay.collect.jacobian.blocks import Block, map_block
from datassay.collect.jacobian.inputs import check_device, network_inputs
from datassay.collect.jacobian.kernel import kernel, landmark_positions
from datassay.collect.jacobian.per_sample import inspect_layers, typed_copy, vectorizable_layers
from datassay.collect.jacobian.projection import projector
from datassay.collect.jacobian.suitable import check_apart, check_initial_fit, probability_warning
from datassay.collect.jacobian_pass import PROJECTED, JacobianPass, add_landmarks, collect_blocks
from datassay.collect.layers import Layers
from datassay.collect.linearization import Linearization
from datassay.collect.settings import Collection, Computing
from datassay.data.arguments import check_kind, checks_arguments
from datassay.data.samples import SampleSet
from datassay.data.targets import recode_for_outputs
from datassay.errors import DataError
from datassay.machine import available_memory
from datassay.optional import coalesce
from datassay.plan import PlanStep, time_call
from datassay.progress import Progress, silent

# Samples of the batch that says how long a pass takes.
PILOT = 64
# Larger networks' Jacobians are mostly float32, so whether float64 ones work is not tried.
MOST_DOUBLE = 10**7
logger = logging.getLogger(__name__)


@checks_arguments
def collect(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None = None,
    *,
    projection: int | str | None = Collection.projection,
    outputs: str = Collection.outputs,
    projection_kind: str = "coordinates",
    memory: float | None = Collection.memory,
    precision: str = Collection.precision,
    products: str = Collection.products,
    device: str = Collection.device,
    allow_trained: bool = Collection.allow_trained,
    seed: int = Collection.seed,
    store: str | Path | None = Computing.store,
    engine: str | Engine = Computing.engine,
    progress: Progress = silent,
) -> Linearization:
    """Linearise a network at its present weights on training and validation samples.

    Args:
        model: any module mapping [n, *input_shape] to [n, k], at initial weights or at weights
            pretrained on OTHER data; copied and evaluated in evaluation mode.
        train: n samples, at least 2: a SampleSet, (x, y) arrays or a Dataset. k must be
            the number of classes (or 1 for two classes), or of regression targets; with more
            outputs, labels that are whole numbers from 0 to k − 1 are the outputs' own.
        val: m samples whose predictions the information is about; may be None.
        projection: "auto": exact where it fits and takes seconds, None: exact, int: features a
            parameter tensor, or the number of landmarks.
        outputs: "joint" keeps all n k rows; "averaged" shares one [n, n] kernel or one row of
            features per sample among the k outputs (exact at infinite width); "mixed" is that row
            of features also where n is small; "landmarks" is that kernel as `projection` of the
            samples see it (Nyström); "auto" takes joint where n k is small.
        projection_kind: of projection, "coordinates" or "sparse_sign".
        memory: bytes to stay within; None: what the machine has free.
        precision: of the Jacobians, "float64", "float32", or "auto", float64 where they take about
            a second. Kernels, decompositions and sums are float64 all the same.
        products: precision of the products over all rows of features that scoring does: "float64",
            "float32", "bfloat16" or "auto", float32 where float64 would take minutes.
        device: where Jacobians and these products are computed: "cpu", "cuda" or "cuda:1".
        allow_trained: linearise even at weights that have seen these labels; the result then
            carries a warning instead of raising.
        seed: of the projection.
        store: path or fsspec URL of a Zarr group that keeps every finished chunk, so that a second
            call with the same model, samples and settings only computes what is missing or
            damaged; "auto" settings then mean what the first call chose. None keeps nothing.
        engine: where chunks are computed, and later the parts of the scores: "in_process",
            "processes" (of this machine), "ray", or an engine from `engine_named`. Results are
            bit-identical.
        progress: called with (step, samples done, samples in all).

    Returns:
        The linearisation; `.form` says what was chosen and why, `.warnings` what to know.

    Raises:
        DataError: fewer than 2 samples, one class only, shapes or classes that differ between the
            sets, or a store that is damaged at its head, full or not writable.
        ModelError: outputs do not fit the targets, are not finite or depend on the other samples,
            a layer cannot be vectorised, the weights were trained on these labels and allow_trained
            is False, or the model's code is not that which the store was made with.
        SettingError: an unknown or impossible projection, outputs, projection_kind, precision,
            device or engine, a store of another model, other samples or settings, each difference
            named, or the memory does not hold the form.

    Cost: form.flops operations and form.peak_bytes memory, scoring included.
    Source: S1 §5 and METHODS §2. Exact unless projected; "averaged" deviates from eq. 11 by the
    off-diagonal output blocks; as features it is projected too (see `projector`).
    """
    settings = {"projection": projection, "outputs": outputs, "memory": memory}
    settings |= {"projection_kind": projection_kind, "products": products, "device": device}
    settings["precision"] = precision
    runner = engine_named(engine)
    layers, form, (train, val) = _plan(model, train, val, settings, store)
    notes = _warn_of_memory(form, memory)
    if layers.unvectorized:
        notes += (f"samples are differentiated one at a time, slowly: {layers.unvectorized}",)
    frozen = typed_copy(model, getattr(torch, form.precision)).to(form.products.device)
    sets = {"train": train}
    if val is not None:
        sets["val"] = val
    projections = projector(layers, form.projection, form.kind, seed, averaged=form.mixes_outputs)
    projections = projections.move(form.products.device)
    work = JacobianPass(frozen, layers, sets, form, projections)
    if form.landmarks:
        work = add_landmarks(work, landmark_positions(train.ids, form.landmarks, seed))
    all_targets = {split: network_targets(s, layers.n_outputs) for split, s in sets.items()}
    n = len(train)
    val_targets = all_targets.get("val")
    matrices: dict[str, Any] = dict.fromkeys(("kernel", "val_kernel", "features", "val_features"))
    with within_memory(form):
        if store is None:
            stored = None
            f0, blocks = collect_blocks(
                work, lambda _: runner.map(JacobianPass.arrays, work, work.chunks), progress
            )
        else:
            from datassay.collect.resume import StoredPass

            stored = StoredPass(store, work, model, all_targets, seed)
            f0, blocks = collect_blocks(work, lambda names: stored.arrays(names, runner), progress)
        if stored is not None and form.products.in_store:
            matrices["features"] = stored.features("train")
            matrices["val_features"] = stored.features("val")
        else:
            matrices |= _build_matrices(blocks, n, form, with_val=val is not None)
    notes += probability_warning(f0[:n], train.is_classification)
    notes += check_initial_fit(
        f0[:n],
        all_targets["train"],
        f0[n:],
        val_targets,
        is_classification=train.is_classification,
        allow_trained=allow_trained,
    )
    return Linearization(
        outputs=f0[:n],
        targets=all_targets["train"],
        ids=train.ids,
        labels=train.class_labels,
        class_names=train.class_names,
        label_type=train.label_type,
        val_outputs=None if val is None else f0[n:],
        **matrices,
        form=form,
        warnings=notes,
        val_targets=val_targets,
        engine=runner,
    )


def plan_collection(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None,
    *,
    store: str | Path | None = None,
    **settings,
) -> Form:
    """Return the form that `collect` would choose, with its checks, without collecting."""
    return _plan(model, train, val, settings, store)[1]


def collection_step(model: nn.Module, train: SampleSet, n: int, form: Form) -> PlanStep:
    """Return the planned work of collecting n samples, by counting and one timed batch."""
    layers = sample_layers(model, train)
    frozen = typed_copy(model, getattr(torch, form.precision)).to(form.products.device)
    pilot_samples = train.subset(np.arange(min(len(train), form.chunk, PILOT)))
    projections = projector(layers, form.projection, form.kind, 0, averaged=form.mixes_outputs)
    projections = projections.move(form.products.device)
    # Jacobians for landmarks are those of a kernel; the products with these are counted.
    if form.landmarks:
        kind = "kernel"
    else:
        kind = form.representation
    pilot_form = replace(form, chunk=len(pilot_samples), representation=kind, landmarks=0)
    batch = JacobianPass(frozen, layers, {"train": pilot_samples}, pilot_form, projections)
    first_seconds, _ = time_call(lambda: batch.arrays(batch.chunks[0]))
    later_seconds, _ = time_call(lambda: batch.arrays(batch.chunks[0]))
    return PlanStep(
        "collect", f"{form.summary}; {form.chunk} samples a call",
        step_bytes(form)["collect"], {"float64": form.kernel_flops},
        pilot=first_seconds + n / len(pilot_samples) * later_seconds, counted=form.jacobian_flops,
    )  # fmt: skip


def _plan(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None,
    settings: dict,
    store: str | Path | None = None,
) -> tuple[Layers, Form, tuple[SampleSet, SampleSet | None]]:
    """Return the layers, the chosen form, and both sets with labels as output indices."""
    device = check_device(settings.get("device", "cpu"))
    checked: dict[str, Any] = settings | {"device": device}
    check_sets(train, val)
    layers = sample_layers(model, train)
    # Of networks with more outputs than classes seen; others are refused with the targets.
    train = recode_for_outputs(train, layers.n_outputs, is_own=True)
    if val is not None:
        val = recode_for_outputs(val, layers.n_outputs, is_own=True)
    check_n_outputs(train, layers.n_outputs)
    sizes = (len(train), len(val or ()), layers.n_outputs)
    form = choose_form(layers, sizes, is_table=train.preparation is not None, **checked)
    if store is not None:
        from datassay.collect.resume import stored_form

        # The store says what was collected, this call how to score it.
        form = replace(stored_form(store, settings) or form, products=form.products)
        memory = form.products.memory
        if memory is None:
            free_bytes = available_memory()
        else:
            free_bytes = memory
        in_store = form.representation == "features" and form.peak_bytes > free_bytes
        form = replace(form, products=replace(form.products, in_store=in_store))
    return layers, form, (train, val)


def check_sets(train: SampleSet, val: SampleSet | None) -> None:
    """Raise DataError if the sets are too small, or their classes or inputs do not match."""
    for name, samples in (("train", train), ("val", coalesce(val, train))):
        check_kind(name, samples, SampleSet)
    if len(train) < 2:
        raise DataError(f"train must hold at least 2 samples; got {len(train)}. Add samples.")
    if train.is_classification and len(np.unique(train.y)) < 2:
        word = train.class_names[train.y[0]]
        raise DataError(f"train must hold at least 2 classes; every label is {word!r}. Add others.")
    if val is None:
        return
    if len(val) == 0:
        raise DataError("val must hold at least 1 sample; got 0. Pass val=None to do without.")
    if val.class_names != train.class_names:
        names = (", ".join(s.class_names) or "none (regression)" for s in (train, val))
        raise DataError(
            f"train and val must have the same classes; got {' and '.join(names)}. Load both the "
            "same way."
        )
    if val.input_shape != train.input_shape:
        raise DataError(
            f"train and val must have inputs of one shape; got {list(train.input_shape)} and "
            f"{list(val.input_shape)}. Load both the same way."
        )


def sample_layers(model: nn.Module, samples: SampleSet) -> Layers:
    """Return the layers whose Jacobians can be collected, tried on the first samples."""
    probe = typed_copy(model, torch.float32)
    x = network_inputs(samples.x[:4], probe, torch.float32)
    layers = inspect_layers(probe, x[:1])
    check_apart(probe, x)
    layers = vectorizable_layers(probe, layers, x)
    if layers.n_parameters > MOST_DOUBLE:
        return layers
    # In float64 too, for some kernels of torch take one type alone.
    x_double = x if layers.takes_integers else x.double()
    return vectorizable_layers(typed_copy(model, torch.float64), layers, x_double)


def network_targets(samples: SampleSet, n_outputs: int) -> Float[Tensor, "n k"]:
    """Return targets [n, k] in float64: numbers, one-hot classes, or 0/1 for one output."""
    samples = recode_for_outputs(samples, n_outputs, is_own=True)  # maybe more outputs than classes
    check_n_outputs(samples, n_outputs)
    y = torch.as_tensor(samples.y)
    if not samples.is_classification:
        return y.double().reshape(len(samples), -1)
    if n_outputs == 1 and samples.n_classes == 2:
        return y.double()[:, None]
    return torch.nn.functional.one_hot(y.long(), n_outputs).double()


def _warn_of_memory(form: Form, memory: float | None) -> tuple[str, ...]:
    """Return (and log) warnings if memory limited the form, or is still too small for it."""
    if memory is None:
        memory = available_memory()
    results = []
    if form.passed_over:
        settings = ", ".join(f"{name} {value or 'none'}" for name, value in form.options.items())
        results.append(
            f"the memory decided what is collected: {form.summary} instead of {form.passed_over}. "
            "Scores by another form rank samples otherwise, so a run with more or less memory free "
            f"may differ; {settings} gives this form again."
        )
    if form.peak_bytes > memory:
        results.append(
            f"this needs about {form.peak_bytes / 1e9:.1f} GB and {memory / 1e9:.1f} GB are free; "
            "set a smaller projection, or outputs='averaged', or use fewer samples."
        )
    for message in results:
        logger.warning(message)
    return tuple(results)


def _build_matrices(blocks: dict[str, Block], n: int, form: Form, with_val: bool) -> dict[str, Any]:
    """Return {field of Linearization: kernel or features}; the first n samples are training."""
    matrices: dict[str, Any] = {}
    train = {name: map_block(b, lambda t: t[:n]) for name, b in blocks.items()}
    blocks_by_prefix = {"": train}
    if with_val:
        val = {name: map_block(b, lambda t: t[n:]) for name, b in blocks.items()}
        blocks_by_prefix["val_"] = val
    for prefix, rows in blocks_by_prefix.items():
        if form.representation == "kernel":
            device = form.products.device
            matrices[f"{prefix}kernel"] = kernel(rows, train, form.outputs, device=device)
        else:
            projected = rows[PROJECTED]
            assert isinstance(projected, Tensor)
            matrices[f"{prefix}features"] = projected.flatten(0, 1)
    return matrices
