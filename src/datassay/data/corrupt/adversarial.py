"""Adversarial samples on purpose: inputs moved a little so that a trained network errs."""

import copy
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from datassay import rules
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.data.settings import Corruption, check_seed
from datassay.errors import DataError
from datassay.results import result


@result
class AdversarialSamples:
    """A sample set with some inputs replaced by adversarial ones.

    Attributes:
        samples: the set; y, ids and order stay.
        replaced: [n] bool, which inputs are adversarial.
        success: among the samples that the network classified rightly, the fraction whose label it
            gets wrong after the step, in [0, 1].
    """

    samples: SampleSet
    replaced: Bool[np.ndarray, " n"]
    success: float


@checks_arguments
def add_adversarial(
    samples: SampleSet,
    model: nn.Module,
    fraction: float,
    *,
    epsilon: float = Corruption.epsilon,
    seed: int = 0,
) -> AdversarialSamples:
    """Replace a fraction of the samples by successful adversarial examples of a trained network.

    x′ = x + ε sign(∂ cross-entropy(f(x), y) / ∂x), kept within the range of the samples' values

    Args:
        samples: a classification set.
        model: the trained network to fool, [n, *input_shape] → [n, k] logits, or one logit for two
            classes; left untouched and evaluated in evaluation mode.
        fraction: of the samples to replace, in [0, 1].
        epsilon: the largest change of an input value, input unit, positive.
        seed: of the draw among the samples that can be replaced.

    Returns:
        The set with round(fraction · n) inputs replaced, drawn from those that the network
        classified rightly before and wrongly after.

    Raises:
        DataError: a regression set, a setting outside its rule, or too few successful examples.

    Cost: one forward and one backward pass over the inputs, and one forward pass more.
    Source: Goodfellow et al. (2015), the fast gradient sign method; S1 App. A.7 replaces 10 % with
    ε = 0.01. Deviates in clipping to the range of the samples.
    """
    check_adversarial(samples, fraction, epsilon)
    check_seed(seed)
    stepped, is_right, is_wrong_after = _step_inputs(samples, model, epsilon)
    fooled = np.flatnonzero(is_right & is_wrong_after)
    n_replaced = round(fraction * len(samples))
    if len(fooled) < n_replaced:
        raise DataError(
            f"{n_replaced} samples must be replaced; the step fools the network on {len(fooled)}. "
            "Raise epsilon or lower fraction."
        )
    replaced_idx = np.random.default_rng(seed).choice(fooled, n_replaced, replace=False)
    x = samples.x.copy()
    replaced = np.zeros(len(samples), dtype=bool)
    x[replaced_idx] = stepped[replaced_idx]
    replaced[replaced_idx] = True
    success = len(fooled) / max(1, int(is_right.sum()))
    return AdversarialSamples(replace(samples, x=x), replaced, success)


def check_adversarial(samples: SampleSet, fraction: float, epsilon: float) -> None:
    """Raise, before a network is trained, if these samples cannot be made adversarial."""
    if not samples.is_classification:
        raise DataError(
            f"adversarial samples need classes; {samples.name} is a regression set. Load it with "
            "task='classification' if y holds labels."
        )
    if samples.encoding is not None and samples.encoding.name:
        raise DataError(
            "adversarial samples change pixels, or columns of numbers; x holds embeddings by "
            f"{samples.encoding.name}. Take a network on the inputs, such as --model mlp."
        )
    rules.fraction("fraction", fraction, "[]", error=DataError)
    rules.positive("epsilon", epsilon, finite=True, error=DataError)


def _step_inputs(
    samples: SampleSet, model: nn.Module, epsilon: float
) -> tuple[Float[np.ndarray, "n ..."], Bool[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Return inputs after a step of the attack, whether predictions were right, and now wrong."""
    network = copy.deepcopy(model).float().cpu().eval().requires_grad_(False)
    low = float(samples.x.min())
    high = float(samples.x.max())
    size = 256  # of a batch
    stepped = []
    is_right = []
    is_wrong_after = []
    for start in range(0, len(samples), size):
        y = torch.as_tensor(samples.y[start : start + size]).long()
        x = torch.as_tensor(samples.x[start : start + size]).float().requires_grad_()
        logits = _expand_logits(network(x))
        loss = torch.nn.functional.cross_entropy(logits, y, reduction="sum")
        (slope,) = torch.autograd.grad(loss, x)
        with torch.no_grad():
            x_after = (x + epsilon * slope.sign()).clamp(low, high)
            predicted = _expand_logits(network(x_after)).argmax(1)
        stepped.append(x_after.numpy())
        is_right.append((logits.argmax(1) == y).numpy())
        is_wrong_after.append((predicted != y).numpy())
    inputs = np.concatenate(stepped).astype(samples.x.dtype)
    return inputs, np.concatenate(is_right), np.concatenate(is_wrong_after)


def _expand_logits(outputs: Tensor) -> Tensor:
    """Return logits of all classes, [n, k]; of one output f for two classes (0, f)."""
    if outputs.shape[1] == 1:
        return torch.cat([torch.zeros_like(outputs), outputs], 1)
    return outputs
