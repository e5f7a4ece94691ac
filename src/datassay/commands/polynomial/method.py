"""The last section of a surrogate's page: equations, where they are from, what we decided."""

from __future__ import annotations

from datassay.commands.polynomial.findings import PolynomialFindings
from datassay.report.wording import count

OUTPUTS = "f_c(x) = β₀ + Σ β_i x_i + Σ β_ij x_i x_j + … (S3 eq. 3.27), one set of coefficients a"
CLASSES = (
    "class, fitted to 1 for its samples and 0 for others; the largest output is the prediction "
    "(S3 §3.4.2). Outputs are no probabilities."
)
SCALED = (
    "Each column minus its training mean, divided by its standard deviation: coefficients of "
    "different columns can be compared, and the ridge treats them alike."
)
LOCAL = (
    "Of all products of two pixels only those that one square window covers (S3 eq. 3.13): the "
    "others would be 300,000 on 28 x 28 pixels. Each product is written once, with the root of "
    "the number of its orders as a factor (√2 for a pair), so that the fit is that of S3's 18,740 "
    "ordered products."
)
ALL = (
    "Every product of the inputs up to the degree, powers included (S3 eq. 3.4), each written "
    "once, with the root of the number of its orders as a factor (√2 for a pair)."
)
EXACT = (
    "β minimises Σ ‖y − f(x)‖² + ridge ‖β‖², the constant free (S3 eq. 3.9 has no ridge). The sums "
    "over the samples are streamed, so that features are never all in memory. The ridge has the "
    "smallest leave-one-out squared error, in closed form on at most 2,000 random training "
    "samples; validation samples have no say. S3 solves without a ridge, where features that are "
    "almost always 0 get coefficients of 10⁷ and noise on them decides the output (its Table 3.7)."
)
BATCHED = (
    "The average of minimum-norm least-squares fits to random batches (S3 eqs. 3.14 to 3.16), each "
    "solved exactly. Out of bag: every training sample by the batches that never saw it."
)
DEGREE_1 = (
    "The coefficient of each pixel (S3 Fig. 3.19). Orange: a brighter pixel raises the output, all "
    "products that it is in left out."
)
DEGREE_2 = (
    "At (r, c) the sum of the coefficients of all pairs of pixels whose middle lies there, squares "
    "of a pixel included (S3 eq. 3.28), on a grid with a place between any two pixels: S3 rounds "
    "middles down, which moves most pairs by half a pixel. Orange: two bright pixels around here "
    "raise the output more than either says alone; blue: they lower it."
)
CONTRIBUTION = (
    "Coefficient times product; together with the constant they sum to the output, to rounding. "
    "For the map, or by column, each product is divided equally among its inputs: their Shapley "
    "values, where a missing input is 0, which is"
)
CORRUPTION = (
    "Noise: N(0, σ²) on every pixel, truncated to [0, 1]. Patch: a black rectangle of about A "
    "pixels near the middle (S3 §3.6.2). The model is the one fitted to clean images. Share lost: "
    "(A(0) − A(level)) / A(0), where A is the accuracy. All levels and models share the draws."
)


def notes(findings: PolynomialFindings) -> tuple[tuple[str, str], ...]:
    """Terms and what they mean in this run."""
    monomials, fit = findings.surrogate.polynomial.monomials, findings.fit
    is_row = findings.samples.kind == "row"
    outputs = CLASSES if findings.samples.is_classification else "target."
    pairs = [
        ("Polynomial", f"{OUTPUTS} {outputs}"),
        ("Products", ALL if monomials.window is None else LOCAL),
    ]
    if is_row:
        pairs.append(("Inputs", SCALED))
    if fit is not None:
        pairs.append(("Fit", " ".join((EXACT if fit.solver == "exact" else BATCHED, *fit.notes))))
    interval = (
        "Of the difference of two models, paired over the validation samples, by "
        "Student's t. It counts the chance of these "
        f"{count(len(findings.validation), 'sample')}, not that of another training set."
    )
    pairs.append(("Interval", interval))
    if findings.maps is not None:
        pairs += [("Degree 1", DEGREE_1), ("Degree 2", DEGREE_2)]
    missing = "the mean of its column" if is_row else "black in an image"
    pairs.append(("Contribution", f"{CONTRIBUTION} {missing}."))
    if findings.robustness:
        pairs.append(("Corruption", CORRUPTION))
    return tuple(pairs)
