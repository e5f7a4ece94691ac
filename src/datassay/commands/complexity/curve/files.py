"""The files of a learning curve: every fit as a table, summary and page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from datassay.commands.complexity.curve.advice import curve_advice
from datassay.commands.complexity.curve.findings import AHEAD, CurveFindings
from datassay.commands.complexity.curve.page import render_curve_page
from datassay.report.tables import standard_json
from datassay.report.write import write_pages

CURVE_FILES = ("fits.parquet", "summary.json", "index.html")


def write_curve(findings: CurveFindings, out: Path) -> Path:
    """Write CURVE_FILES into a folder, all of them or none.

    Args:
        findings: one curve.
        out: the folder; made where it does not exist.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, or the disk is full.
    """
    table = findings.found.curve.to_table()
    parts = (table, curve_summary(findings), render_curve_page(findings))
    return write_pages(dict(zip(CURVE_FILES, parts, strict=True)), out)


def curve_summary(findings: CurveFindings) -> str:
    """The curve and its extrapolation in figures.

    Args:
        findings: one curve.

    Returns:
        JSON text; infinite numbers of samples are null, "reached_by" says how many draws reach.
    """
    found, curve = findings.found, findings.found.curve
    ahead = np.array(AHEAD, np.float64) * findings.n
    names = ("low", "median", "high")
    return standard_json({
        "facts": findings.facts,
        "warnings": findings.warnings,
        "advice": [asdict(a) for a in curve_advice(findings)],
        "metric": findings.metric,
        "level": found.level,
        "needed": [asdict(one) for one in findings.needed],
        "expected": [
            {"samples": n, **dict(zip(names, one, strict=True))}
            for n, one in zip(ahead, found.score(ahead).T, strict=True)
        ],
        "ceiling": dict(zip(names, found.ceiling, strict=True)),
        "law": {
            "equation": "error(n) = floor + drop (n/reference)^(-exponent)",
            "floor": found.law.floor[0],
            "drop": found.law.drop[0],
            "exponent": found.law.exponent[0],
            "reference": found.law.reference,
        },
        "start": curve.start,
        "forecast": None if findings.forecast is None
        else asdict(findings.forecast) | {"holds": findings.forecast.holds},
        "validation_share": findings.validation_share,
        "sizes": [
            {"samples": n, "mean": s.mean(), "std": s.std(ddof=1)}
            for n, s in zip(curve.sizes, curve.score, strict=True)
        ],
    })  # fmt: skip
