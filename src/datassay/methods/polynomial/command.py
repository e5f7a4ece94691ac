"""`datassay polynomial`."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from datassay.commands.command import Command
from datassay.commands.inputs import (
    SEED_HELP,
    DataInputs,
    NoiseInputs,
    number_or,
    whole_auto_or_none,
)
from datassay.methods.polynomial.settings import PRECISIONS, SOLVERS, Regression
from datassay.rules import at_least, one_of
from datassay.setting import setting


@dataclass(frozen=True)
class PolynomialSettings:
    """Settings of the job; the defaults are those of `datassay polynomial DATA`."""

    degree: int = setting(
        Regression.degree,
        "Most inputs in a product.",
        rule=partial(at_least, minimum=1),
        needs="!model",
    )
    window: int | str | None = setting(
        "auto",
        "Side of the square that covers the pixels of a product, odd; none for all products; "
        "auto: 3 for grey images, none for others.",
        read=partial(whole_auto_or_none, name="window", kind="an odd number"),
        needs="!model",
    )
    solver: str = setting(
        Regression.solver,
        "exact, or batched: the average of fits to random batches.",
        rule=partial(one_of, allowed=SOLVERS),
        needs="!model",
    )
    ridge: float | str = setting(
        Regression.ridge,
        "Of the exact fit, or auto: smallest leave-one-out error.",
        read=partial(number_or, word="auto", name="ridge"),
        needs="!model solver=exact",
    )
    n_batches: int = setting(
        Regression.n_batches,
        "Of the batched fit.",
        rule=partial(at_least, minimum=1),
        needs="solver=batched",
    )
    batch_size: int = setting(
        Regression.batch_size, "Of the batched fit, samples.", needs="solver=batched"
    )
    precision: str = setting(
        Regression.precision,
        "Of the sums: auto, float32, float64, or bfloat16 (exact fit only).",
        rule=partial(one_of, allowed=PRECISIONS),
        needs="!model",
    )
    store: str | None = setting(
        Regression.store,
        "Folder that lets an interrupted exact fit go on.",
        needs="!model solver=exact",
    )
    model: Path | None = setting(None, "polynomial.safetensors to score instead of fitting.")
    seed: int = setting(Regression.seed, SEED_HELP)
    command: str = ""


COMMAND = Command(
    name="polynomial",
    common="target ids val_fraction degree window solver ridge model seed",
    help="""Fit a polynomial whose weights can be read, and take its predictions apart.

    Writes predictions.parquet (one row per validation sample), coefficients.parquet,
    polynomial.safetensors (the fit), summary.json and one page.

    Examples:
      datassay polynomial digits --out readable
      datassay polynomial mnist/ --solver batched --n-batches 60 --batch-size 2000
      datassay polynomial table.parquet --target price --degree 3 --ridge 10
      datassay polynomial mnist/ --store sums      # goes on where it was interrupted
      datassay polynomial usps/ --model readable/polynomial.safetensors
    """,
    settings=PolynomialSettings,
    inputs=(NoiseInputs, DataInputs),
    out="polynomial",
    order=60,
)
