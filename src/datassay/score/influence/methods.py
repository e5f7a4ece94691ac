"""Influence functions: what removing each sample changes at trained weights, by several methods."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from datassay.collect.collection import check_sets, network_targets
from datassay.collect.curvature.hessian import inputs, loss_at, outputs_at
from datassay.collect.curvature.output_loss import task_loss
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.optional import as_tuple, coalesce
from datassay.progress import Progress, silent
from datassay.rules import require
from datassay.score.effects import Attribution, OutputChanges, effects_of, gather, outcome
from datassay.score.influence.checkpoints import with_checkpoints
from datassay.score.influence.first_order import average_effects
from datassay.score.influence.given import given_sets
from datassay.score.influence.gradient_methods import TAKES_CHECKPOINTS, by_gradients
from datassay.score.influence.replay.network import OwnRun, by_replay
from datassay.score.influence.request import METHODS, Request, check_request
from datassay.score.influence.trainers import from_trainer, is_trainer
from datassay.score.influence.whole.gauss_newton import changes_on_arrays
from datassay.score.influence.whole.solvers import Problem, conjugate_gradients, exact, lissa
from datassay.score.settings import Influence, Queries, TrainedWeights, Training
from datassay.train.retrain import check_removed

# A new method is a function from a problem and its settings to output changes, and one line here.
ON_ARRAYS: dict[str, Callable[..., Iterator[OutputChanges]]] = {
    "gauss_newton": changes_on_arrays,
    "exact": exact,
    "cg": conjugate_gradients,
    "lissa": lissa,
}


@checks_arguments
def influence(
    model: Any,
    train: Any = None,
    val: Any = None,
    *,
    method: str = TrainedWeights.method,
    curvature: str = TrainedWeights.curvature,
    response: str = TrainedWeights.response,
    loss: Any = Influence.loss,
    measure: Any = Queries.measure,
    damping: float | str = TrainedWeights.damping,
    temperature: float | str = TrainedWeights.temperature,
    weight_decay: float = Training.weight_decay,
    parameters: str | Sequence[str] | None = None,
    checkpoints: Any = None,
    removed: Sequence[int] | np.ndarray | None = None,
    top: int | None = Queries.top,
    precision: str | None = None,
    device: str | None = None,
    seed: int = 0,
    progress: Progress = silent,
    **settings: object,
) -> Attribution:
    """Compute the effect of each training sample on each query, at the trained weights.

    w − w₋ᵢ ≈ −(1/n) (H + (damping + weight_decay) I)⁻¹ ∇ℓ_i(w), H the Hessian of the mean loss

    Args:
        model: at weights trained on `train`; run in evaluation mode. Several, trained from other
            seeds (further ones may be weights, as in `checkpoints`): their effects are averaged,
            by methods that do not go along one training run.
            Or a transformers Trainer, whose model, samples, collator and label smoothing are taken:
            influence(trainer, queries).
        train: n samples: a SampleSet, arrays (x, y), a frame; a DataLoader, a Dataset, a
            `datasets.Dataset` or a list of samples (tuples, or dictionaries with "labels"). Whole
            numbers from 0 to k − 1 are the network's outputs, whichever occur; names, and other
            numbers, are in sorted order where there are k of them. A loader stands for the samples
            that its sampler draws from, with their positions in its Dataset as ids; one that is
            drawn twice weighs two. What differs from one pass to the next is refused, or, of
            augmentation, one draw of each sample is taken and `warnings` say so.
        val: the queries, likewise, or inputs alone for measure "output"; names of classes are
            those of `train`. None takes the training samples. With a Trainer, the only samples
            given are the queries.
        method: "auto" and "gauss_newton" are one: H is the Gauss–Newton Hessian. "exact" (the whole
            Hessian, small models), "cg" (conjugate gradients: `tolerance`, `iterations`), "lissa"
            (`depth`, `scale`, `batch_size`, `repeats`), all on arrays; "tracin" (no Hessian: `lr`);
            "segments" (of a training run, with its `checkpoints`: `lr`, `steps`, the updates done
            at each, and `optimizer`, its state at each, of Adam or SGD; without it lr over 1 −
            momentum). lr="trainer" takes all of these from a Trainer's folders. "replay" (the
            derivative of the whole run: `start`, the network at its first weights, `recipe`,
            `per_query`, `check`; see `OwnRun`), on arrays; of loops of your own
            `datassay.score.replay`.
        curvature: of "gauss_newton": "blocks" (each layer's, exact), "ekfac" (each layer's in a
            Kronecker eigenbasis), "auto" (exact where a layer is small) or "whole" (all layers
            together, on arrays: small models or few samples, more with a `projection`).
        response: "first_order", or "leave_one_out": to second order by each sample's own leverage,
            with the whole curvature. It repairs the size of effects and costs some of their order.
        loss: of the training: "auto" (by the targets: labels, 0 and 1 for each of several outputs,
            or values; what could be two of these is refused), "cross_entropy" (one output: binary;
            targets may be probabilities), "mse" (½ squared error, summed over outputs), "bce",
            "next_token", a criterion of torch such as nn.CrossEntropyLoss(label_smoothing=0.1), or
            loss(model, batch) → [b], whose curvature is that of its own gradients.
        measure: of each query: "output" (of the predicted class), "margin" (of the given label),
            "loss" (also for "output" of several targets, or of a loss of your own), or
            measure(model, batch) → [b], or [b, tokens]: then each token of each query, in order, is
            a column of its own.
        damping: added to the Hessian; "auto" is a share of each block's mean eigenvalue (1 where it
            is exact, 1000/n with fewer than 1000 samples, 0.1 where it is factored), a number is
            the share. For classes and networks that are not large, "auto" here chooses 10, 1 or
            0.1, with the temperature, by training the linearised network again on halves of the
            samples. Where it does not, it adds to all blocks alike where training of classes was
            short, by what is left to learn. `method` says which and how much. Of the whole Hessian
            and other methods it is absolute, "auto" 0.01.
        temperature: T, of "gauss_newton" by blocks: classes are attributed by T ℓ(f / T) in place
            of the training loss ℓ(f), gradients and Hessian. Samples that the network fits have
            next to no gradient in the end, though it had to learn them; softened, they count.
            "auto" is 1 or 2 as chosen with "auto" damping, else 2, and 1, the loss itself, of next
            tokens, which no network fits so well, and in the gradients of `self_influence`. A
            number is both's. Losses of values (mse) and your own are never softened; `method`
            names what was.
        weight_decay: of the training, (weight_decay/2)‖w − w₀‖² added to the mean loss. By the
            whole Hessian a sample takes its share along, as in training again with the same decay:
            ∇ℓ_i − ∇L stands for ∇ℓ_i, L the mean loss of all. By blocks, in an index and along a
            run it does not: the effects on a query differ by one number, their order does not.
        parameters: a part of the names of the weights to attribute to, or a pattern with *, or
            several; None: all that train.
        checkpoints: of one training run, instead of the model: networks, state dicts, files of
            weights ("weights.pt::ema" names one of several in a file; without a name `warnings`
            says which was taken), or folders (transformers', peft's, or a run's). Averaged;
            with "tracin" added, with "segments" in the order of the run, the trained network last.
        removed: positions of the samples to remove, one at a time; None: all.
        top: keep only this many samples per query and direction, as in `attribution`.
        precision: of the network and its gradients, "float32" or "float64"; None is float32 by
            blocks and "tracin", else float64. Linear algebra of size p × p is always in float64.
        device: of the network and its gradients; None: the model's own.
        seed: of draws of outputs, of the batches of "lissa" and of the run that "replay" repeats,
            and of a projection; each further model takes the next.
        progress: called with (step, units done, units in all).
        settings: the method's own.

    Returns:
        The effects, in the form of `attribution`; `method` names curvature and damping.
        `self_influence` ranks wrong labels and rare samples, by the loss itself where temperature
        is "auto": (1/n) ∇ℓ_iᵀ P ∇ℓ_i of ℓ(f), P of the effects.

    Raises:
        SettingError: a setting is unknown or out of range, a Hessian with damping is not positive
            definite or too large for memory, the outcome does not suit the task, or a recursion
            diverges.
        DataError: too few samples, or train and val do not belong together.
        ModelError: outputs do not fit the targets or are not finite, samples of a batch are mixed,
            or a layer cannot be vectorised.

    Cost: a gradient per sample and a query, 2 n m p operations for their products; the curvature is
        that of `block_bases`. n m values, or 4 m top. Several models are held together. "auto"
        damping of classes: k gradients of some samples, together 2²² to 2²⁴ values at most, and up
        to 500 products by these, some seconds.
    Source: Koh and Liang (2017), with the Gauss–Newton Hessian of Martens (2010) by blocks as in
        Grosse et al. (2023). Of many samples (of ten classes 375 on) the Hessian in the outputs is
        exact for each sample's likeliest classes, at least two, and drawn for the rest, about 3000
        gradients in all or 3 a sample. Exact to first order in 1/n at a minimum with a positive
        definite Hessian and temperature 1; elsewhere damping decides. Margins and losses are
        differentiated too. The temperature is ours: at 2 the samples that a classifier fits keep a
        gradient.
    """
    if curvature == "auto" and (response == "leave_one_out" or "projection" in settings):
        curvature = "whole"
    trainer = from_trainer(model, train, val, loss) if is_trainer(model) else None
    if trainer is not None:
        model = trainer.model
        train = trainer.train
        val = trainer.queries
        loss = trainer.loss
    models: Any = [*as_tuple(model)]
    request = Request(
        models, method, curvature, response, loss, measure, damping, weight_decay, parameters,
        removed, top, precision, device, seed, progress, settings, temperature,
        None if trainer is None else trainer.clip,
    )  # fmt: skip
    request = prepare_request(request, checkpoints)
    result = _attribute(request, train, val)
    notes = trainer.notes if trainer is not None else ()
    if trainer is not None and request.settings.get("optimizer") is None:
        notes = (*trainer.decay_notes, *notes)
    return replace(result, warnings=(*notes, *result.warnings))


def prepare_request(request: Request, checkpoints: Any) -> Request:
    """Return the request checked, with its method in place of "auto" and its networks loaded."""
    if request.method not in METHODS:
        names = ", ".join(repr(name) for name in METHODS)
        raise SettingError(f"method must be one of {names}; got {request.method!r}.")
    if request.method == "auto":
        request = replace(request, method="gauss_newton")
    functions = TAKES_CHECKPOINTS if request.takes_gradients else ON_ARRAYS
    function = functions.get(request.method)  # whose parameters are the method's settings
    if request.method == "replay":
        function = OwnRun
        is_alone = checkpoints is None and len(request.models) == 1
        rule = "hold the trained network alone where method is 'replay', without checkpoints"
        require(is_alone, "model", rule, "more", remedy="start= takes the weights at first.")
    check_request(request, function)
    return with_checkpoints(request, checkpoints)


def _attribute(request: Request, train: Any, val: Any) -> Attribution:
    """Return effects by the request's method: by gradients of batches, or on whole arrays."""
    train, val = given_sets(request.models[0], train, val, request.loss)
    if request.takes_gradients:
        return by_gradients(request, train, val)
    if not (isinstance(train, SampleSet) and (val is None or isinstance(val, SampleSet))):
        raise DataError(
            f"method {request.method!r} needs arrays here: a SampleSet or (x, y). Leave method and "
            "curvature at 'auto', which take batches of anything."
        )
    check_sets(train, val)
    if request.method == "replay":
        return by_replay(request, train, val)
    damping = request.damping
    absolute = Influence.damping if isinstance(damping, str) else float(damping)
    return _attribute_arrays(request, train, val, absolute)


def _attribute_arrays(
    request: Request, train: SampleSet, val: SampleSet | None, damping: float
) -> Attribution:
    """Return effects by a method of ON_ARRAYS, averaged over networks; damping is absolute."""
    loss = task_loss(train, request.loss)
    method = request.method
    precision = request.precision or "float64"
    removed = request.removed
    idx = tuple(check_removed(removed, len(train))) if removed is not None else None
    settings = dict(request.settings)
    if method == "gauss_newton":
        settings["response"] = request.response
    problems = []
    for index, model in enumerate(request.models):
        progress = request.progress_of(index, len(request.models))
        if request.device is not None:
            model = frozen_copy(model, getattr(torch, precision)).to(request.device)
        mean_loss = loss_at(model, train, loss, precision)
        x = mean_loss.x if val is None else inputs(mean_loss.template, val)
        decay = float(request.weight_decay)
        seed = request.seed + index
        problems.append(
            Problem(model, train, val, mean_loss, x, damping, decay, precision, idx, seed, progress)
        )
    outputs = [outputs_at(p.mean_loss, p.queries).double().cpu() for p in problems]
    # One outcome for all models: the predicted class is that of their mean output.
    mean_output = torch.stack(outputs).mean(0)
    queries = coalesce(val, train)
    targets = network_targets(queries, mean_output.shape[1])
    is_class = queries.is_classification
    measure = outcome(request.measure, loss, mean_output, targets, is_classification=is_class)
    is_linear = request.response == "first_order"
    streams = [
        effects_of(ON_ARRAYS[method](problem, **settings), f, measure, is_first_order=is_linear)
        for problem, f in zip(problems, outputs, strict=True)
    ]
    values = torch.stack([measure(f) for f in outputs]).mean(0)
    name = f"{method}, damping {damping:g}"
    removed_idx = np.arange(len(train)) if idx is None else np.array(idx)
    ids = train.ids[removed_idx]
    own_idx = removed_idx if val is None else None
    effects = average_effects(streams, 1 / len(streams))
    result = gather(effects, values, request.measure, ids, name, request.top, own_idx)
    warnings = dict.fromkeys((*request.notes, *(w for p in problems for w in p.warnings)))
    return replace(result, warnings=tuple(warnings))
