"""Defaults of `purify`, whose docstring explains them; nothing heavy is imported here."""

from dataclasses import dataclass

from datassay.score.settings import REMOVAL_ORDERS

BY_LABELS = "label_issues"
BY_CROSS_FIT = "cross_fit"
# Orders in which samples are removed, and rules by which removal stops.
ORDERS = ("auto", BY_CROSS_FIT, *REMOVAL_ORDERS, BY_LABELS, "loss", "random")
STOPS = ("auto", "held_out", "inflection", "validation", "suspects", "none")
RIDGE = 1e-4  # of other orders than "cross_fit"


@dataclass(frozen=True)
class Removal:
    """Settings of `purify`: how samples are removed, and when removal stops."""

    loss: str = "auto"
    ridge: float | None = None
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
