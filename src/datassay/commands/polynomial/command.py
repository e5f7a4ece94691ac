"""`datassay polynomial`."""

from __future__ import annotations

from datassay.commands.command import Command
from datassay.commands.inputs import DataInputs, NoiseInputs
from datassay.commands.polynomial.settings import PolynomialSettings

COMMAND = Command(
    name="polynomial",
    help="""Fit a polynomial whose weights can be read, and take its predictions apart.

    Writes predictions.parquet (one row a validation sample), coefficients.parquet,
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
    home="datassay.commands.polynomial",
    out="polynomial",
    order=60,
)
