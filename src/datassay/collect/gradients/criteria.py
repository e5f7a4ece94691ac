"""The loss of a task from what the user calls it: a name, a criterion of torch, or a function."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from datassay.collect.gradients.autograd import evaluate
from datassay.collect.gradients.batches import IGNORED, outputs_of, targets_of
from datassay.collect.gradients.objective import Objective
from datassay.collect.loss import Loss, losses
from datassay.collect.settings import LOSSES
from datassay.errors import DataError, ModelError, SettingError

CAUSAL = ("CausalLM", "LMHead")  # in the names of language models' classes
# What transformers' configurations call a task, once the model has seen its labels.
PROBLEMS = {
    "regression": "mse",
    "single_label_classification": "cross_entropy",
    "multi_label_classification": "bce",
}
# Torch's functions, for the criteria that they are.
FUNCTIONS: dict[Any, Callable[[], nn.Module]] = {
    functional.cross_entropy: nn.CrossEntropyLoss,
    functional.nll_loss: nn.NLLLoss,
    functional.mse_loss: nn.MSELoss,
    functional.huber_loss: nn.HuberLoss,
    functional.smooth_l1_loss: nn.SmoothL1Loss,
    functional.l1_loss: nn.L1Loss,
    functional.binary_cross_entropy_with_logits: nn.BCEWithLogitsLoss,
}
SUMS_TO_ONE = 1e-4


def objective(
    loss: Any,
    model: nn.Module,
    batch: Any,
    task: str | None = None,
    further_targets: Sequence[Tensor] = (),
) -> Objective:
    """Return the Objective for a loss's name, "auto", a criterion of torch, or a function."""
    # A criterion's settings are read from it. 'auto', also as an Objective's name, stands for
    # `task`; without a task the targets of the batch, and `further_targets`, decide.
    if isinstance(loss, Objective):
        name = loss.name
        if name == "auto":
            name = task or _infer_loss(model, batch, further_targets)
        return _find_class_axis(replace(loss, name=name), model, batch)
    loss = _replace_function(loss)
    if isinstance(loss, nn.Module):
        return _find_class_axis(of_criterion(loss), model, batch, prefers_second=True)
    if callable(loss):
        function: Any = loss
        return Objective("custom", function)
    if loss == "auto":
        loss = task or _infer_loss(model, batch, further_targets)
    elif loss not in LOSSES:
        raise SettingError(
            f"loss must be 'auto', {', '.join(map(repr, LOSSES))}, a criterion of torch or a "
            f"function of the model and a batch; got {loss!r}."
        )
    return _find_class_axis(Objective(loss), model, batch)


def label_rules(loss: Any) -> tuple[str, int]:
    """Return what a loss compares ("classes", "values", "own") and its ignored label."""
    loss = _replace_function(loss)
    if isinstance(loss, Objective):
        return _read_compares(loss.name), loss.ignored
    if isinstance(loss, nn.Module):
        kind = _match_loss(loss)
        ignored = int(getattr(loss, "ignore_index", IGNORED))  # pyrefly: ignore[bad-argument-type] (a number)
        return ("values" if kind is None else kind.compares), ignored
    compares = "own" if callable(loss) else _read_compares(loss)
    return compares, IGNORED


def _read_compares(name: str) -> str:
    """Return what the named loss compares; "classes" for "auto"."""
    loss = losses().get(name)
    if loss is None:
        return "classes"
    return loss.compares


def function_of(loss: Any) -> Callable[[nn.Module, Any], Tensor]:
    """Return the function (model, batch) → [b] of a loss that is not a named one."""
    loss = _replace_function(loss)
    if isinstance(loss, nn.Module):
        return of_criterion(loss).function or loss
    return loss


def _replace_function(loss: Any) -> Any:
    """Return torch's criterion for its functional form; any other loss unchanged."""
    is_function = callable(loss) and not isinstance(loss, nn.Module | Objective)
    if is_function and loss in FUNCTIONS:
        return FUNCTIONS[loss]()
    return loss


@dataclass(frozen=True, slots=True)
class CriterionLoss:
    """A sample's loss by a criterion of torch that has no curvature of its own here."""

    criterion: nn.Module  # gives one value per output
    is_averaged: bool  # over the outputs; else summed

    def __call__(self, model: nn.Module, batch: Any) -> Tensor:
        """Return each sample's loss, [b], by torch's criterion."""
        outputs = outputs_of(model, batch)
        targets = targets_of(batch)
        if targets is None:
            raise SettingError(
                f"{type(self.criterion).__name__} needs the batch's targets: the last of a tuple, "
                "or a dictionary's 'labels'. Give them, or a loss of your own."
            )
        if targets.is_floating_point() and targets.numel() == outputs.numel():
            targets = targets.view_as(outputs)  # [b] beside [b, 1] would be compared crosswise
        result = self.criterion(outputs, targets).reshape(len(outputs), -1)
        if self.is_averaged:
            return result.mean(1)
        return result.sum(1)


def of_criterion(loss: nn.Module) -> Objective:
    """Return the per-sample Objective of a torch criterion with its settings."""
    # "batchmean" of KLDivLoss averages over samples alone.
    averaged = getattr(loss, "reduction", "mean") not in {"sum", "batchmean"}
    kind = _match_loss(loss)
    if kind is not None:
        settings: dict[str, Any] = {"scale": 1.0, "averaged": averaged} | kind.settings_of(loss)
        return Objective(name=kind.name, **settings)
    if type(loss).__module__ == "torch.nn.modules.loss" and hasattr(loss, "reduction"):
        unreduced: Any = copy.deepcopy(loss)
        unreduced.reduction = "none"
        return Objective("custom", CriterionLoss(unreduced, averaged))
    raise SettingError(
        f"loss must be a criterion of torch.nn; got {type(loss).__name__}. Pass "
        "loss=lambda model, batch: criterion(...) with one loss per sample."
    )


def _match_loss(criterion: nn.Module) -> Loss | None:
    """Return our Loss that a torch criterion stands for; None without a match."""
    if getattr(criterion, "beta", 1.0) == 0:  # a smooth ℓ1 loss of width 0: the ℓ1 loss
        return None
    return next((loss for loss in losses().values() if isinstance(criterion, loss.criteria)), None)


def _find_class_axis(
    result: Objective, model: nn.Module, batch: Any, *, prefers_second: bool = False
) -> Objective:
    """Return the loss with `classes_second` set, if samples have several positions."""
    # If the shapes fit both axes, it is the second for torch's criteria (`prefers_second`).
    targets = targets_of(batch)
    kind = result.kind
    has_axis = kind.has_one_class and not kind.is_of_tokens
    if not has_axis or result.classes_second is not None or targets is None:
        return result
    with torch.no_grad():
        outputs = evaluate(model, batch, outputs_of)
    if outputs.ndim < 3:
        return result
    fits_second = targets.shape[1:] == outputs.shape[2:]
    fits_last = targets.shape[1:] == outputs.shape[1:-1]
    return replace(result, classes_second=fits_second and (prefers_second or not fits_last))


def check_logits(loss: Any, bound: Objective, model: nn.Module, batch: Any) -> list[str]:
    """Return a warning if outputs are probabilities where the loss takes logits; else []."""
    # `loss` is what the user gave, `bound` the objective that it became. An error where it is
    # "auto", or where it takes log-probabilities and the outputs are none.
    if not bound.kind.has_one_class or bound.kind.is_of_tokens:
        return []
    with torch.no_grad():
        outputs = evaluate(model, batch, outputs_of)
    if outputs.ndim != 2 or outputs.shape[1] < 2:
        return []
    if not torch.isfinite(outputs).all():
        return []  # which the first pass refuses
    if isinstance(loss, nn.NLLLoss) or loss is functional.nll_loss:
        log_total = outputs.double().logsumexp(1)
        if bool((log_total.abs() > SUMS_TO_ONE).any()):
            raise SettingError(
                "nn.NLLLoss needs log-probabilities; the network's outputs do not sum to 1 as "
                "such. Pass the criterion of the training: of logits, nn.CrossEntropyLoss()."
            )
        return []
    sums = outputs.double().sum(1)
    if bool((outputs < 0).any()) or bool(((sums - 1).abs() > SUMS_TO_ONE).any()):
        return []
    claim = "the network's outputs are probabilities: each sample's are positive and sum to 1"
    if isinstance(loss, str) and loss == "auto":
        raise SettingError(
            f"loss='auto' takes outputs for logits; {claim}. Leave out the network's softmax where "
            "the training's loss was -log of the outputs, or pass loss=nn.CrossEntropyLoss() where "
            "it took them as logits."
        )
    return [
        f"{claim}, and this loss takes them as logits. That is right only if the training did so "
        "too; else leave out the softmax."
    ]


def several_outputs(model: nn.Module, batch: Any) -> list[str]:
    """Return a warning if a network returns several outputs, of which the first is used.

    Args:
        model: the network.
        batch: one or two samples.

    Returns:
        The warning, or nothing.

    Raises:
        ModelError: another output is computed from the first, which is no network's answer then.
    """
    results: list[Any] = []
    handle = model.register_forward_hook(lambda _module, _inputs, output: results.append(output))
    try:
        with torch.enable_grad():
            evaluate(model, batch, outputs_of)
    finally:
        handle.remove()
    is_plain = bool(results) and type(results[-1]) in {tuple, list}
    tensors = []
    if is_plain:
        tensors = [t for t in results[-1] if isinstance(t, Tensor) and t.ndim > 1]
    tensors = [t for t in tensors if t.is_floating_point()]
    shapes = [str(list(t.shape[1:])) for t in tensors]
    if any(_depends_on(t, tensors[0]) for t in tensors[1:]):
        raise ModelError(
            f"the model's first output must be its answer; it gives {' and '.join(shapes)} a "
            "sample, and computes a later one from the first. Wrap it to return the logits alone "
            "or first, or pass loss= and measure= as functions of the model and a batch."
        )
    if len(set(shapes)) < 2:
        return []
    return [
        f"the network gives several outputs, {' and '.join(shapes)} a sample: the first is taken. "
        "Where that is not what was trained, pass loss= and measure= as functions of the model and "
        "a batch."
    ]


def _depends_on(result: Tensor, tensor: Tensor) -> bool:
    """Return whether autograd's graph of `result` contains `tensor`."""
    waiting = [result.grad_fn]
    visited = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        if node is tensor.grad_fn:
            return True
        visited.add(node)
        waiting += [child for child, _ in node.next_functions]
    return False


def check_classes(loss: Objective, targets: Tensor | None, n_outputs: int | None) -> None:
    """Raise DataError if a label is no index of the network's outputs."""
    if n_outputs is None or targets is None:
        return
    k = max(n_outputs, 2)  # one output is of two classes
    if targets.is_floating_point():
        if loss.kind.has_one_class:
            _check_soft(targets, n_outputs)
        return
    counted = targets[(targets != loss.ignored) & (targets != IGNORED)]
    unknown = counted[(counted < 0) | (counted >= k)]
    if len(unknown):
        labels = ", ".join(str(v) for v in unknown.unique().tolist()[:5])
        raise DataError(
            f"labels must be 0 to {k - 1}, the network's {n_outputs} outputs; got {labels}. Number "
            "the classes as the network's last layer has them."
        )


def _check_soft(targets: Tensor, n_outputs: int) -> None:
    """Raise DataError if float labels are neither whole numbers nor class probabilities."""
    has_class_axis = targets.ndim > 1 and n_outputs in targets.shape[1:]
    if has_class_axis or n_outputs == 1:
        is_valid = (targets >= 0) & (targets <= 1)
    else:
        is_valid = targets == targets.floor()
    if bool(is_valid.all()):
        return
    raise DataError(
        "cross_entropy takes labels as whole numbers, or each class's probability from 0 to 1; got "
        f"{targets.dtype} of shape {list(targets.shape)} with others. Pass loss='mse' for numbers."
    )


def _infer_loss(model: nn.Module, batch: Any, further_targets: Sequence[Tensor]) -> str:
    """Return the loss's name inferred from a batch's targets and the outputs' shape."""
    targets = targets_of(batch)
    base: Any = getattr(model, "get_base_model", lambda: model)  # of peft's adapters
    if any(word in type(base()).__name__ for word in CAUSAL):
        return "next_token"
    problem = getattr(getattr(model, "config", None), "problem_type", None)
    if problem in PROBLEMS:
        return PROBLEMS[problem]
    if targets is None:
        raise SettingError(
            "loss='auto' needs the batch's targets: the last of a tuple, or a dictionary's "
            "'labels'. Give them, or pass loss=lambda model, batch: [b] losses."
        )
    with torch.no_grad():
        outputs = evaluate(model, batch, outputs_of)
    matrices = [t.reshape(len(t), -1) for t in (targets, *further_targets)]
    all_targets = torch.cat([t for t in matrices if t.shape[1] == matrices[0].shape[1]])
    is_binary = bool(((all_targets == 0) | (all_targets == 1)).all())
    if not targets.is_floating_point():
        has_several = targets.ndim == 2 and outputs.ndim == 2 and targets.shape == outputs.shape
        if has_several and is_binary:
            return _infer_loss_of_several(all_targets)
        return "cross_entropy"
    if all_targets.shape[1] > 1:
        if not bool((all_targets >= 0).all()):
            return "mse"
        return _infer_loss_of_several(all_targets)
    # One per sample: two labels, labels of several classes, or values.
    if outputs.ndim != 2 or outputs.shape[1] == 1:
        return "bce" if is_binary else "mse"
    y = all_targets[:, 0]
    are_classes = bool(((y == y.floor()) & (y >= 0) & (y < outputs.shape[1])).all())
    if are_classes:
        return "cross_entropy"
    return "mse"


def _infer_loss_of_several(y: Tensor) -> str:
    """Return "bce" or "mse" for targets ≥ 0 of several outputs; raise if ambiguous."""
    is_binary = bool(((y == 0) | (y == 1)).all())
    if y.shape[1] > 1 and bool(((y.double().sum(1) - 1).abs() <= SUMS_TO_ONE).all()):
        form = "probabilities"
        if is_binary:
            form = "one-hot"
        raise SettingError(
            f"loss='auto' cannot tell what targets that are {form} were fitted by. Pass the "
            "training's loss: 'cross_entropy', 'bce' or 'mse'."
        )
    return "bce" if is_binary else "mse"
