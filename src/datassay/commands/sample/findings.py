"""Everything one sampling of a function found out, gathered for its page, tables and summary."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from datassay.act.sample.comparison import SamplingComparison
from datassay.act.sample.generalization_bound import GeneralizationBound
from datassay.act.sample.taylor import TaylorSample
from datassay.results import result
from datassay.stats import BETTER, SAME, WORSE
from datassay.stats import mean_interval as interval_of

UNIFORM, TAYLOR = "uniform", "Taylor-based"
# What a verdict on the points says of an error.
OUTCOMES = {BETTER: "lower", WORSE: "higher", SAME: "unclear"}


@result
class ErrorCurve:
    """A function of one input on a fine grid: x [m], y [m, q], and index, Df [m]."""

    x: Float[np.ndarray, " m"]
    y: Float[np.ndarray, "m q"]
    index: Float[np.ndarray, " m"]


@result
class Bounds:
    """The generalisation bound of one function of one input, at one Lipschitz constant.

    Attributes:
        initial: of the initial points.
        uniform: with as many uniform points more.
        taylor: with the Taylor-based points.
        uniform_x: [N + N'], the points of `uniform`.
        gain_uniform: [N'], what each uniform point takes from `initial` alone.
        gain_taylor: [N'], the same of the Taylor-based points.
    """

    initial: GeneralizationBound
    uniform: GeneralizationBound
    taylor: GeneralizationBound
    uniform_x: Float[np.ndarray, " n"]
    gain_uniform: Float[np.ndarray, " m"]
    gain_taylor: Float[np.ndarray, " m"]


@result
class SamplingFindings:
    """One sampling, and whether it helps.

    Attributes:
        name: of the function.
        inputs: d names.
        outputs: q names.
        sample: the points.
        comparison: networks on uniform and on Taylor-based points, in this order; None where not
            asked for.
        curve: f and Df on a fine grid, of one input; None otherwise, and without a comparison,
            which alone may ask f for more.
        bounds: the bound at K = 0, and at the largest slope seen; empty where there are several
            inputs or outputs.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sample: TaylorSample
    comparison: SamplingComparison | None = None
    curve: ErrorCurve | None = None
    bounds: tuple[Bounds, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def n_new(self) -> int:
        """How many points were added."""
        return int(self.sample.is_new.sum())


@dataclass(frozen=True, slots=True)
class Verdict:
    """One kind of error under both designs: means, with half the 95 % intervals.

    Attributes:
        error: "root mean square" or "largest".
        uniform: mean, half width.
        taylor: the same.
        difference: Taylor-based minus uniform run by run, as a share of the uniform mean.
        verdict: on the Taylor-based points: "better", "worse" or "no difference".
    """

    error: str
    uniform: tuple[float, float]
    taylor: tuple[float, float]
    difference: tuple[float, float]
    verdict: str

    @property
    def outcome(self) -> str:
        """Whether the interval of the difference lies below 0, above it or holds it."""
        return OUTCOMES[self.verdict]


def verdicts(comparison: SamplingComparison) -> tuple[Verdict, Verdict]:
    """Root mean square error, then largest error."""
    return (
        _verdict("root mean square", comparison.root_mean_square),
        _verdict("largest", comparison.largest),
    )


def _verdict(error: str, values: np.ndarray) -> Verdict:
    uniform, taylor = values
    change = (taylor - uniform) / (uniform.mean() or 1.0)
    means = ((one.gain, one.half) for one in map(interval_of, (uniform, taylor, change)))
    return Verdict(error, *means, verdict=interval_of(-change).verdict)
