"""What `datassay polynomial` can be told."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from datassay.commands.inputs import SEED_HELP, number_or, whole_auto_or_none
from datassay.polynomial.settings import Regression
from datassay.setting import setting


@dataclass(frozen=True)
class PolynomialSettings:
    """What the job can be told; every default is what `datassay polynomial DATA` does."""

    degree: int = setting(Regression.degree, "Most inputs in a product.")
    window: int | str | None = setting(
        "auto",
        "Side of the square that covers the pixels of a product, odd; none for all products; "
        "auto: 3 for grey images, none for others.",
        read=partial(whole_auto_or_none, name="window", kind="an odd number"),
    )
    solver: str = setting(
        Regression.solver, "exact, or batched: the average of fits to random batches."
    )
    ridge: float | str = setting(
        Regression.ridge,
        "Of the exact fit, or auto: smallest leave-one-out error.",
        read=partial(number_or, word="auto", name="ridge"),
    )
    n_batches: int = setting(Regression.n_batches, "Of the batched fit.")
    batch_size: int = setting(Regression.batch_size, "Of the batched fit, samples.")
    precision: str = setting(
        Regression.precision, "Of the sums: auto, float32, float64, or bfloat16 (exact fit only)."
    )
    store: str | None = setting(
        Regression.store, "Folder that lets an interrupted exact fit go on."
    )
    model: Path | None = setting(None, "polynomial.safetensors to score instead of fitting.")
    seed: int = setting(Regression.seed, SEED_HELP)
    command: str = ""
