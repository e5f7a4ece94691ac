"""`datassay bench`: the library's claims, or whether its scores hold for the user's own data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datassay.commands.bench.settings import ClaimSettings, TrustSettings
from datassay.commands.command import Command, refuse_others
from datassay.commands.inputs import DataInputs, PlanInputs

HOME = "datassay.commands.bench"


class _Bench(Command):
    """DATA asks whether scores hold for them; without, the library's claims are measured."""

    def start(self, given: Mapping[str, Any], out: Path) -> None:
        """Choose by the data, and refuse options of the other mode."""
        if given.get("data") is None and given.get("data_option") is None:
            for others in (TrustSettings, DataInputs, PlanInputs):
                refuse_others(given, others, (ClaimSettings,), "needs DATA to check")
            CLAIMS.start(given, out)
        else:
            mode = (TrustSettings, DataInputs, PlanInputs)
            refuse_others(given, ClaimSettings, mode, "is measured without DATA")
            TRUST.start(given, out)


COMMAND = _Bench(
    name="bench",
    help="""Check on your data whether scores predict retraining; or measure the library's claims.

    With DATA: trains networks on random halves of the samples and says how well each score
    predicts them, beside loss alone and the ceiling: trust, with care, or do not trust. Minutes.
    Without: six cases, each against the plain way; about 15 seconds on two cores. Writes
    bench.parquet, summary.json and one page.

    Examples:
      datassay bench digits --model mlp:width=64

      datassay bench table.csv --target label --model my.py:network --lr 0.01 --minutes 5

      datassay bench photos/ --model cnn --halves 50 --store kept

      datassay bench

      datassay bench --case leave-one-out --case labels --seed 1 --out measured
    """,
    settings=TrustSettings,
    inputs=(ClaimSettings, DataInputs, PlanInputs),
    home=HOME,
    out="bench",
    order=100,
)
CLAIMS = Command(
    name=COMMAND.name, help="", settings=ClaimSettings, home=f"{HOME}.claims", out=COMMAND.out,
    inputs=(),
)  # fmt: skip
TRUST = Command(
    name=COMMAND.name, help="", settings=TrustSettings, home=f"{HOME}.trust", out=COMMAND.out,
    inputs=(DataInputs, PlanInputs),
)  # fmt: skip
