"""The number measured on a query: its predicted class's output, its loss or its label's margin."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from datassay.errors import SettingError
from datassay.results import result

OUTCOMES = ("output", "margin", "loss")


@result
class Outcome:
    """One number per query, as a function of the network's outputs.

    Attributes:
        measure: "output": the output of the class that the network predicts (the only output, where
            there is one). "margin": how far the given label leads: its output minus the largest
            other one (squared error) or its log odds (cross-entropy). "loss": of the given target.
        loss: "mse" or "cross_entropy": what the network is trained with.
        targets: [m, k], one-hot for classes ({0, 1} for two classes with one output).
        predicted: [m], the class that the network predicts; fixed, also when outputs change.
        is_classification: whether targets are classes.
    """

    measure: str
    loss: str
    targets: Float[Tensor, "m k"]
    predicted: Int[Tensor, " m"]
    is_classification: bool

    def __call__(self, outputs: Float[Tensor, "... m k"]) -> Float[Tensor, "... m"]:
        """The outcome under these outputs; any leading axes.

        Args:
            outputs: of the m queries.

        Returns:
            Output unit, log odds or loss unit (nats, or half squared output unit).
        """
        if self.measure == "output":
            if outputs.shape[-1] == 1:
                return outputs[..., 0]
            index = self.predicted.expand(outputs.shape[:-1])[..., None]
            return outputs.gather(-1, index)[..., 0]
        if self.measure == "margin":
            return self._margin(outputs)
        if self.loss == "mse":
            return 0.5 * (outputs - self.targets).square().sum(-1)
        if outputs.shape[-1] == 1:  # log(1 + e^f) − y f
            return functional.softplus(outputs[..., 0]) - self.targets[:, 0] * outputs[..., 0]
        return outputs.logsumexp(-1) - (self.targets * outputs).sum(-1)

    def _margin(self, outputs: Float[Tensor, "... m k"]) -> Float[Tensor, "... m"]:
        if outputs.shape[-1] == 1:  # the label's side of ½ (squared error) or of 0 (logit)
            middle = 0.5 if self.loss == "mse" else 0.0
            return (outputs[..., 0] - middle) * (2 * self.targets[:, 0] - 1)
        given = (self.targets * outputs).sum(-1)
        others = outputs.masked_fill(self.targets.bool(), -torch.inf)
        return given - (others.amax(-1) if self.loss == "mse" else others.logsumexp(-1))


def outcome(
    measure: str,
    loss: str,
    outputs: Float[Tensor, "m k"],
    targets: Float[Tensor, "m k"] | None,
    *,
    is_classification: bool,
) -> Outcome:
    """Check and bind an outcome to its queries.

    Args:
        measure: "output", "margin" or "loss".
        loss: "mse" or "cross_entropy".
        outputs: of the network trained on all samples; they decide the predicted class.
        targets: of the queries; None where none are known (then only "output" can be asked).
        is_classification: whether targets are classes.

    Returns:
        The outcome.

    Raises:
        SettingError: measure is unknown, a margin is asked of a regression, one output of several,
            or a loss or margin without targets.
    """
    if measure not in OUTCOMES:
        raise SettingError(f"measure must be 'output', 'margin' or 'loss'; got {measure!r}.")
    if measure == "margin" and not is_classification:
        raise SettingError("measure='margin' needs classes; this is a regression. Use 'loss'.")
    if measure == "output" and not is_classification and outputs.shape[1] > 1:
        raise SettingError(
            f"measure='output' needs one target; got {outputs.shape[1]}. Use 'loss', which sums "
            "them."
        )
    if targets is None:
        if measure != "output":
            raise SettingError(f"measure={measure!r} needs the queries' targets. Use 'output'.")
        targets = torch.zeros_like(outputs)
    return Outcome(measure, loss, targets.double(), outputs.argmax(1), is_classification)
