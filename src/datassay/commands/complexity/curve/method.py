"""The last section of a learning curve's page: equations, where they are from, what we decided."""

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
# bench/learning_curves.py, "learning_curves/all" in bench/results.jsonl.
COVERAGE = (
    "Checked on 38 curves of digits, MNIST and Fashion-MNIST (networks, nearest neighbours and a "
    "forest, 400 to 2,000 samples each), against fits to more samples than the curve had: 90 % "
    "intervals held the truth in 92, 95 and 100 % of the curves at about 2, 4 and 8 times the "
    "samples (digits: 1.5 to 3.25 times), so far ahead they are wider than they have to be. The "
    "median error was off by 18, 23 and 27 % of itself, a little more often too high. In 9 of 10 "
    "curves the samples needed had no upper end: a floor can seldom be ruled out. Farther ahead "
    "nothing was checked."
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
