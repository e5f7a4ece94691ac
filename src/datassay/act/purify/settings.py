"""Settings of `purify`, each default once; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Removal:
    """How samples are removed, and when that stops.

    Attributes:
        loss: "cross_entropy", "mse" or "auto": by the task.
        ridge: of linear models, (ridge/2)‖θ‖² beside the mean loss.
        damping: added to the Hessian for V.
        order: ranking: "auto", one of `removal_effects`, "label_issues", "loss" or "random".
        stop: rule: "auto", "held_out", "validation", "inflection", "suspects" or "none".
        threshold: of "held_out", nats; None: log 2K for linear models, log 4K for others.
        step: samples removed a step; None: n/100, or n/40 where each is a training.
        max_fraction: of the samples, never more are removed.
        min_per_class: a class is never left with fewer.
        beyond: further steps to trace after "held_out" has stopped.
        layers: of networks, whose influence: "last" or "all".
        projection: of the Jacobians where layers is "all".
        seed: of batches, projection and "random".
    """

    loss: str = "auto"
    ridge: float = 1e-4
    damping: float = 0.01
    order: str = "auto"
    stop: str = "auto"
    threshold: float | None = None
    step: int | None = None
    max_fraction: float = 0.5
    min_per_class: int = 10
    beyond: int = 0
    layers: str = "last"
    projection: int | str | None = "auto"
    seed: int = 0
