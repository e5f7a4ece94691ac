"""Everything one polynomial surrogate found out, gathered for its page, tables and summary."""

from __future__ import annotations

from dataclasses import field

import numpy as np
from jaxtyping import Bool, Float, Int

from datassay.collect.curvature.output_loss import margins, predicted_class
from datassay.data.samples import SampleSet
from datassay.polynomial.contributions import Contributions
from datassay.polynomial.fit import PolynomialFit
from datassay.polynomial.maps import CoefMaps
from datassay.polynomial.surrogate import Surrogate, SurrogateScores
from datassay.results import result
from datassay.score.compare.robustness import Robustness

SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@result
class PolynomialFindings:
    """One surrogate, in the order of the m validation samples.

    Attributes:
        samples: the training samples.
        validation: what it is scored on; has no say in the fit.
        surrogate: the polynomial with its inputs' scale and names.
        outputs: [m, q], of the validation samples.
        degree_spread: [k, q], standard deviation over the validation samples of what the products
            of each degree from 1 to k add to each output.
        scores: beside simpler models.
        explained: positions in the validation set whose contributions are shown.
        parts: of these.
        fit: how it was fitted; None where it was read from a file.
        maps: of its coefficients; None where the inputs are no grey images.
        robustness: under noise, then under black patches; empty where the samples are no images in
            [0, 1] with classes.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    samples: SampleSet
    validation: SampleSet
    surrogate: Surrogate
    outputs: Float[np.ndarray, "m q"]
    degree_spread: Float[np.ndarray, "k q"]
    scores: SurrogateScores
    explained: Int[np.ndarray, " e"]
    parts: Contributions
    fit: PolynomialFit | None = None
    maps: CoefMaps | None = None
    robustness: tuple[Robustness, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def predicted(self) -> Int[np.ndarray, " m"]:
        """[m], the class of the largest output; of targets all 0."""
        if self.samples.is_classification:
            return predicted_class(self.outputs)
        return np.zeros(len(self.outputs), np.int64)

    @property
    def margin(self) -> Float[np.ndarray, " m"]:
        """[m], by how much the given label leads; of targets minus the largest absolute error."""
        return margins(self.outputs, self.validation)

    @property
    def is_wrong(self) -> Bool[np.ndarray, " m"]:
        """[m], whether another class is predicted; never of targets."""
        if not self.samples.is_classification:
            return np.zeros(len(self.outputs), bool)
        return self.predicted != self.validation.y


def term_names(surrogate: Surrogate) -> list[str]:
    """Each product: "1", "age", "age · height²"; of images "(4, 7) · (5, 7)", from 0."""
    names = input_names(surrogate)
    return [_product(names, term) for term in surrogate.polynomial.monomials.terms.tolist()]


def input_names(surrogate: Surrogate) -> list[str]:
    """Each input: its column's name, or (row, column) of a pixel, from 0."""
    monomials = surrogate.polynomial.monomials
    if monomials.image_shape is not None:
        width = monomials.image_shape[1]
        return [f"({i // width}, {i % width})" for i in range(monomials.n_inputs)]
    return list(surrogate.feature_names) or [f"x{i}" for i in range(monomials.n_inputs)]


def _product(names: list[str], term: list[int]) -> str:
    inputs = [i for i in term if i >= 0]
    powers = {i: inputs.count(i) for i in dict.fromkeys(inputs)}
    factors = [
        names[i] + (str(power).translate(SUPERSCRIPTS) if power > 1 else "")
        for i, power in powers.items()
    ]
    return " · ".join(factors) or "1"
