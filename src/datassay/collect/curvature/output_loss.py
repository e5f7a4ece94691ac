"""Which loss a task has, and how right outputs are."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.data.samples import SampleSet
from datassay.data.targets import recode_for_outputs
from datassay.errors import ModelError, SettingError
from datassay.optional import text_if
from datassay.rules import require

LOSSES = ("cross_entropy", "mse")


def task_loss(samples: SampleSet, loss: str | nn.Module = "auto") -> str:
    """Return the loss's name; "auto" is "cross_entropy" for classes and "mse" for numbers."""
    if loss == "auto" or (samples.is_classification and _is_plain(loss)):
        if samples.is_classification:
            return "cross_entropy"
        return "mse"
    if isinstance(loss, nn.MSELoss):
        raise SettingError(
            "loss must be 'mse' here, half the squared error summed over outputs: of k outputs k/2 "
            f"times {loss}, so that weight_decay and damping of yours are multiplied by it."
        )
    allowed = ("mse",)
    task = "a regression"
    if samples.is_classification:
        allowed = LOSSES
        task = "classes"
    require(loss in allowed, "loss", f"be {' or '.join(allowed)} for {task}", repr(loss))
    return str(loss)


def _is_plain(loss: object) -> bool:
    """Return whether a criterion of torch is the mean cross-entropy itself."""
    if type(loss) is not nn.CrossEntropyLoss or loss.weight is not None:
        return False
    return (loss.ignore_index, loss.label_smoothing, loss.reduction) == (-100, 0.0, "mean")


def check_n_outputs(samples: SampleSet, n_outputs: int) -> None:
    """Raise ModelError unless there is one output per class (or 1 for two classes) or target."""
    if samples.is_classification:
        allowed = {1, 2}
        if samples.n_classes != 2:
            allowed = {samples.n_classes}
        rule = f"{samples.n_classes} outputs, one per class"
        rule += text_if(len(allowed) > 1, " (or 1 for two classes)")
    else:
        n_targets = 1
        if samples.y.ndim != 1:
            n_targets = samples.y.shape[1]
        plural = text_if(n_targets > 1, "s")
        allowed = {n_targets}
        rule = f"{n_targets} output{plural}, one a target"
    if n_outputs not in allowed:
        raise ModelError(f"the model must have {rule}; got {n_outputs}. Change its last layer.")


def output_score(outputs: Float[Tensor, "m k"], samples: SampleSet) -> float:
    """Return the accuracy, in [0, 1], or in a regression R² averaged over targets."""
    samples = recode_for_outputs(samples, outputs.shape[1], is_own=True)
    return float(sample_scores(outputs, samples).mean())


def sample_scores(
    outputs: Float[Tensor, "*batch m k"],
    samples: SampleSet,
    spread: Float[np.ndarray, " k"] | None = None,
    *,
    boundary: float = 0.0,
) -> Float[Tensor, "*batch m"]:
    """Return per-sample scores whose mean is accuracy, or R² averaged over targets."""
    # `spread`: the targets' variances that R² divides by; None: those of `samples`.
    # `boundary`: above it one output stands for the second of two classes, ½ of probabilities.
    y = torch.as_tensor(samples.y)
    if samples.is_classification:
        is_binary = outputs.shape[-1] == 1
        if is_binary:
            predicted = (outputs[..., 0] > boundary).long()
        else:
            predicted = outputs.argmax(-1)
        return (predicted == y).double()
    y = y.double().reshape(len(y), -1)
    if spread is None:
        variance = (y - y.mean(0)).square().mean(0)
    else:
        variance = torch.from_numpy(spread)
    return (1 - (outputs - y).square() / variance).mean(-1)


def margins(outputs: Float[np.ndarray, "m k"], samples: SampleSet) -> Float[np.ndarray, " m"]:
    """Return the margin of each given label: its output minus the largest other one."""
    # One output counts from ½; in a regression the margin is −(largest absolute error).
    if not samples.is_classification:
        return -np.abs(outputs - samples.y.reshape(outputs.shape)).max(1)
    if outputs.shape[1] == 1:  # above ½: the second class
        return (outputs[:, 0] - 0.5) * (2 * samples.y - 1)
    of_label = outputs[np.arange(len(samples)), samples.y]
    rivals = outputs.copy()
    rivals[np.arange(len(samples)), samples.y] = -np.inf
    return of_label - rivals.max(1)


def predicted_class(outputs: Float[np.ndarray, "m k"]) -> Int[np.ndarray, " m"]:
    """Return the predicted class per sample: the largest output, or one output against ½."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] > 0.5).astype(np.int64)
    return outputs.argmax(1)
