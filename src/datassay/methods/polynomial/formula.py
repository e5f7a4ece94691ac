"""A polynomial of one number as a formula in the columns' own units, short enough to read."""

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from datassay.methods.polynomial.model import CHUNK, in_user_units
from datassay.optional import take_first
from datassay.results import result

if TYPE_CHECKING:
    from datassay.methods.polynomial.job import PolynomialFindings

MOST_FEATURES, MOST_TERMS = 300, 8
DIGITS = (3, 4, 5, 6)
CLOSE = 0.02  # of the outputs' standard deviation, which is an R² of 0.9996


@result
class Formula:
    """A short formula, rounded as it is written, and how far it is from the polynomial."""

    text: str
    n_terms: int  # besides the constant
    deviation: float  # root mean square over validation samples, target unit


def short_formula(findings: "PolynomialFindings") -> Formula | None:
    """Return the shortest formula close to the polynomial; None where there is none to read.

    The centred and scaled products are multiplied out into products of the columns. The constant
    stands for the mean of the terms that are left out. None for classes, images and several
    targets, for many products, and where eight terms of six digits are not close enough.
    """
    samples = findings.samples
    surrogate = findings.surrogate
    n_features, n_outputs = surrogate.polynomial.coef.shape
    is_number = not samples.is_classification and n_outputs == 1
    if not is_number or samples.kind != "row" or n_features > MOST_FEATURES:
        return None
    polynomial = in_user_units(surrogate.polynomial, surrogate.center, surrogate.spread)
    x = findings.validation.x[:CHUNK].astype(np.float64).reshape(-1, len(surrogate.center))
    products = polynomial.monomials.features(x) / polynomial.monomials.scale  # [m, p]
    coef = polynomial.monomial_coef[:, 0]
    outputs = findings.outputs[:CHUNK, 0]
    order = np.argsort(-np.abs(coef[1:]) * products[:, 1:].std(axis=0), kind="stable") + 1
    target = take_first(samples.target_names, surrogate.output_names[0])
    for n_terms, n_digits in product(range(1, min(MOST_TERMS, len(order)) + 1), DIGITS):
        rows = order[:n_terms]
        factors = [float(f"{value:.{n_digits}g}") for value in coef[rows]]
        difference = outputs - products[:, rows] @ factors
        constant = float(f"{difference.mean():.{n_digits}g}")
        deviation = float(np.sqrt(np.mean((difference - constant) ** 2)))
        if deviation > CLOSE * outputs.std():
            continue
        names = [surrogate.term_names[k] for k in rows]
        terms = [_write_term(c, name) for c, name in zip(factors, names, strict=True)]
        text = f"{target} = {constant:.{n_digits}g}".replace("-", "−") + "".join(terms)
        return Formula(text, n_terms, deviation)
    return None


def _write_term(coef: float, name: str) -> str:
    """Return " + 0.05 speed²", with the sign before the coefficient."""
    sign = "−" if coef < 0 else "+"
    return f" {sign} {abs(coef):g} {name}"
