"""Everything one learning curve found out, gathered for its page, tables and summary."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from datassay.complexity.needed_samples import Extrapolation, Forecast, NeededSamples
from datassay.data.samples import SampleSet
from datassay.results import result

# As far as the intervals were checked against more data (bench/uses/learning_curves.py).
CHECKED = 8
AHEAD = (1, 2, 4, 8)


@result
class CurveFindings:
    """A learning curve and where it leads.

    Attributes:
        samples: the training samples.
        validation: those that no fit saw.
        model: as the user named it.
        extrapolation: the curve, extrapolated.
        blind: the same without resampling the validation samples.
        needed: for each score asked about, ascending.
        forecast: the largest size predicted from the smaller ones; None where there are too few.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    samples: SampleSet
    validation: SampleSet
    model: str
    extrapolation: Extrapolation
    blind: Extrapolation
    needed: tuple[NeededSamples, ...]
    forecast: Forecast | None
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """The largest size that was measured."""
        return int(self.extrapolation.curve.sizes[-1])

    @property
    def repeats(self) -> int:
        """Fits a size."""
        return self.extrapolation.curve.errors.shape[1]

    @property
    def interval(self) -> str:
        """What the intervals are called: "90 % interval"."""
        return f"{100 * self.extrapolation.level:.0f} % interval"

    @property
    def metric(self) -> str:
        """What is scored: "accuracy" or "R²"."""
        return self.extrapolation.curve.metric

    @property
    def now(self) -> float:
        """The mean score of the fits to the largest size."""
        return float(self.extrapolation.curve.score[-1].mean())

    @property
    def validation_share(self) -> float:
        """Of the interval's width at the largest size, what the validation samples account for."""
        n = np.array([float(self.n)])
        whole, blind = (np.ptp(e.score(n)[[0, 2], 0]) for e in (self.extrapolation, self.blind))
        return float(1 - blind / whole) if whole > 0 else 0.0
