"""The files of a learning curve: every fit as a table, and the summary."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pyarrow as pa

from datassay.commands.complexity.curve.findings import AHEAD, CurveFindings
from datassay.report.page import Page
from datassay.report.tables import standard_json

FILES = {"fits.parquet": "the score of every fit", "summary.json": "the figures above"}


def files(findings: CurveFindings, page: Page) -> dict[str, pa.Table | str]:
    """What stands beside the page."""
    table = findings.extrapolation.curve.to_table()
    return {"fits.parquet": table, "summary.json": _summary(findings, page)}


def _summary(findings: CurveFindings, page: Page) -> str:
    """JSON; infinite numbers of samples are null, "reached_by" says how many draws reach."""
    ahead = np.array(AHEAD, np.float64) * findings.n
    names = ("low", "median", "high")
    extrapolation, forecast = findings.extrapolation, findings.forecast
    curve, law = extrapolation.curve, extrapolation.law
    return standard_json({
        **page.head,
        "metric": findings.metric,
        "level": extrapolation.level,
        "needed": [asdict(one) for one in findings.needed],
        "expected": [
            {"samples": n, **dict(zip(names, one, strict=True))}
            for n, one in zip(ahead, extrapolation.score(ahead).T, strict=True)
        ],
        "ceiling": dict(zip(names, extrapolation.ceiling, strict=True)),
        "law": {
            "equation": "error(n) = floor + drop (n/reference)^(-exponent)",
            "floor": law.floor[0],
            "drop": law.drop[0],
            "exponent": law.exponent[0],
            "reference": law.reference,
        },
        "start": curve.start,
        "forecast": None if forecast is None else asdict(forecast) | {"holds": forecast.holds},
        "validation_share": findings.validation_share,
        "sizes": [
            {"samples": n, "mean": s.mean(), "std": s.std(ddof=1)}
            for n, s in zip(curve.sizes, curve.score, strict=True)
        ],
    })
