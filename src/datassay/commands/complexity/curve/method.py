"""The method section of a learning curve's page: equations, sources and our choices."""

from __future__ import annotations

from datassay.commands.complexity.curve.findings import CurveFindings
from datassay.report.wording import count, number

LAW = (
    "error(n) = a + b n^(−c) with a, b ≥ 0, an inverse power law (Cortes et al. 1993), and for "
    "every other draw error(n) = a + (e − a)/(1 + (n/h)^c), the same law for large n that starts "
    "at the error e of the best constant guess (the MMF curve; Viering and Loog 2021 compare such "
    "laws). Both are fitted by least squares, each size weighted by one over its variance between "
    "fits plus 2 % of the error squared. The floor a is what no number of samples removes."
)
INTERVAL = (
    "Each of 1,000 draws resamples the fits (whole chains of nested subsets) and the validation "
    "samples, moves the curve by the luck that all fits share because they come from the same "
    "samples, leaves out none to four of the smallest sizes, and fits one of the two laws. The "
    "middle {level} of the draws is the interval. It is not symmetric, and has no upper end where "
    "too many draws level off below the score wanted; their share is in the table."
)
COVERAGE = (
    "The intervals were checked against fits to more samples than each curve had. Far ahead they "
    "are wider than they have to be, and they seldom have an upper end for the samples needed, "
    "because a floor can seldom be ruled out. The numbers, and how far ahead they reach, are in "
    "the documentation, on the page Measured."
)


def notes(findings: CurveFindings) -> tuple[tuple[str, str], ...]:
    """Terms and what they mean in this run."""
    law, fits = findings.extrapolation.law, count(findings.repeats, "fit")
    what = "1 − accuracy" if findings.metric == "accuracy" else "1 − R²"
    return (
        (
            "The curve",
            f"{fits} of {findings.model} at each size, each to a random part of the samples "
            "that holds the classes in proportion and contains the smaller parts of the same "
            f"repeat. The error is {what} on {len(findings.validation):,} samples that no fit saw. "
            "Networks train by Adam in batches of 64, 20 epochs but 500 to 3,000 updates, all fits "
            "of a size in one program; another training moves the curve.",
        ),
        ("Law", LAW),
        (
            "Law of the mean here",
            f"error = {number(float(law.floor[0]))} + {number(float(law.drop[0]))} "
            f"(n/{findings.n:,})^(−{number(float(law.exponent[0]))}). Only the interval says how "
            "well these three are known: floor and exponent trade places easily.",
        ),
        ("Interval", INTERVAL.format(level=f"{100 * findings.extrapolation.level:.0f} %")),
        ("How often it holds", COVERAGE),
        (
            "Samples needed",
            "The number at which each draw's law falls to the wanted error (Mahmood et al. 2022 "
            "ask the same); median and interval over the draws. It is the score's interval read "
            "along the other axis. The new samples have to be like the ones here.",
        ),
    )
