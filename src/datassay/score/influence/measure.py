"""The number measured on a query, as a function of the model and a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from datassay.collect.gradients.batches import IGNORED, outputs_of, targets_of
from datassay.collect.gradients.objective import OF_CLASSES, OF_VALUES, Objective, is_one_hot
from datassay.errors import SettingError
from datassay.score.effects import OUTCOMES, outcome


@dataclass(frozen=True, slots=True)
class Measure:
    """Values of queries, to be differentiated by the weights.

    Attributes:
        name: "output", "margin", "loss", or "custom".
        objective: the training loss.
        function: (model, batch) → [b] or [b, tokens], where it is the user's own.
        deciders: the networks whose mean output decides which class "output" is of; empty: each
            network its own.
    """

    name: str
    objective: Objective
    function: Callable[[nn.Module, Any], Tensor] | None = None
    deciders: tuple[nn.Module, ...] = ()

    def __call__(self, model: nn.Module, batch: Any) -> Tensor:
        """The values.

        Args:
            model: the network.
            batch: of b queries.

        Returns:
            [b], or what the user's function gives: [b, tokens]. Of several tokens a sample, the sum
            over those that count.

        Raises:
            SettingError: the measure does not suit the task, or the user's function gives neither.
        """
        if self.function is not None:
            found = self.function(model, batch)
            if not isinstance(found, Tensor) or found.ndim not in {1, 2}:
                got = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
                raise SettingError(
                    f"measure must give [b], one value a query, or [b, tokens]; got {got}."
                )
            return found
        if self.name == "loss":
            return self.objective.losses(model, batch)
        outputs, targets = outputs_of(model, batch), targets_of(batch)
        f, y = self.objective.placed(
            outputs, self._stand_in(outputs) if targets is None else targets
        )
        kind, k = self.objective.name, f.shape[-1]
        if kind == "bce" and k > 1:
            raise SettingError(
                f"measure={self.name!r} needs one class a sample; these have several labels. Use "
                "'loss'."
            )
        soft = y.is_floating_point()
        if self.name == "margin" and soft and kind in OF_CLASSES and k > 1:
            raise SettingError(
                "measure='margin' needs one class a sample; these have probabilities of classes. "
                "Use 'loss'."
            )
        classes = not soft or kind not in OF_VALUES or is_one_hot(y)
        counts = torch.ones_like(f[..., 0]) if soft else (y != IGNORED).to(f)
        flat = f.flatten(0, 1)
        given = y.flatten(0, 1) if soft else _coded(y.flatten(), k)
        named = "mse" if kind in OF_VALUES else "cross_entropy"
        decided = self._decided(batch, flat)
        found = outcome(self.name, named, decided, given, is_classification=classes)(flat)
        return (found.view(counts.shape) * counts).sum(1)

    def _stand_in(self, outputs: Tensor) -> Tensor:
        """Targets of queries that have none: their outputs can be asked for all the same."""
        if self.name != "output":
            raise SettingError(
                f"measure={self.name!r} needs the queries' targets. Give them, or take 'output'."
            )
        if outputs.ndim > 2:
            raise SettingError(
                "measure='output' of queries without targets needs one output a class; these have "
                f"one a token or pixel, {list(outputs.shape)}. Give targets, or a measure of your "
                "own."
            )
        if self.objective.name in OF_CLASSES or outputs.shape[1] > 1:  # classes, all of them
            return torch.zeros(len(outputs), dtype=torch.long, device=outputs.device)
        return torch.zeros_like(outputs)

    def _decided(self, batch: Any, flat: Tensor) -> Tensor:
        """Outputs that decide the predicted class."""
        if len(self.deciders) < 2 or self.name != "output":
            return flat.detach() if not self.deciders else self._of(self.deciders[0], batch)
        return torch.stack([self._of(one, batch) for one in self.deciders]).mean(0)

    def _of(self, model: nn.Module, batch: Any) -> Tensor:
        with torch.no_grad():
            outputs, targets = outputs_of(model, batch), targets_of(batch)
            given = self._stand_in(outputs) if targets is None else targets
            return self.objective.placed(outputs, given)[0].flatten(0, 1)


def _coded(y: Tensor, k: int) -> Tensor:
    """One-hot, or {0, 1} of one output."""
    if k == 1:
        return (y == 1).double()[:, None]
    return (y[:, None] == torch.arange(k).to(y)).double()  # one_hot cannot be vectorised


def measure_of(measure: Any, loss: Objective, *, several: bool = False) -> Measure:
    """The measure by its name, or the user's own.

    Args:
        measure: "output", "margin", "loss", or (model, batch) → [b] or [b, tokens].
        loss: of the training.
        several: whether a sample has several targets, of which no output is the one: "output" is
            then "loss", and the result says so.

    Returns:
        The measure.

    Raises:
        SettingError: it is none of these, or a user's loss leaves "output" and "margin" undefined.
    """
    loss = replace(loss, temperature=1.0)  # a query's loss is what it is
    if callable(measure):
        function: Any = measure
        return Measure("custom", loss, function)
    if measure not in OUTCOMES:
        raise SettingError(
            "measure must be 'output', 'margin', 'loss' or a function of the model and a batch; "
            f"got {measure!r}."
        )
    if loss.name == "custom" and measure == "margin":
        raise SettingError(
            "measure='margin' is not defined by a loss of your own. Use 'loss', or a function of "
            "the model and a batch."
        )
    if measure == "output" and (several or loss.name == "custom"):
        measure = "loss"
    return Measure(measure, loss)
