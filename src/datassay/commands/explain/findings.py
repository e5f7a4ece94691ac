"""What explaining a network found out, gathered for its page, tables and summary."""

from __future__ import annotations

from dataclasses import field

import numpy as np
from jaxtyping import Float, Int

from datassay.collect.curvature.output_loss import predicted_class
from datassay.data.samples import SampleSet
from datassay.report.predictions import Predictions
from datassay.results import result
from datassay.score.effects import Attribution


@result
class ExplainFindings:
    """Effects of n training samples on m queries, at trained weights.

    Attributes:
        samples: the n training samples; of an index the first of them, those that DATA shows.
        queries: m samples; the training samples themselves where there are no others.
        kind: "validation", "training" or "queried": which samples the queries are.
        attribution: the effects.
        loss: of the training, by its name.
        fitted: [n, k], what is predicted of the training samples: probabilities of classes, or
            targets; None: several tokens a sample.
        predicted: [m, k], of the queries; likewise.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    samples: SampleSet
    queries: SampleSet
    kind: str
    attribution: Attribution
    loss: str
    fitted: Float[np.ndarray, "n k"] | None
    predicted: Float[np.ndarray, "m k"] | None
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def predictions(self) -> Predictions:
        """For the picker."""
        classes = self.samples.is_classification
        is_logit = classes and self.loss == "cross_entropy"
        return Predictions(
            self.samples, self.queries, self.kind, self.predicted, self.attribution, is_logit
        )

    @property
    def ids(self) -> np.ndarray:
        """[n], of the training samples, those of an index included that DATA does not show."""
        return self.attribution.ids

    @property
    def self_influence(self) -> Float[np.ndarray, " n"]:
        """How much each sample's presence lowers its own loss; NaN where that is not known."""
        found = self.attribution.self_influence
        return np.full(len(self.ids), np.nan) if found is None else found

    @property
    def first(self) -> Int[np.ndarray, " n"]:
        """All samples, those of largest self-influence first."""
        return np.argsort(-self.self_influence, kind="stable")

    @property
    def harm(self) -> Float[np.ndarray, " n"] | None:
        """How much each sample lowers all margins or raises all losses; None of other measures."""
        sign = {"margin": -1.0, "loss": 1.0}.get(self.attribution.measure)
        return None if sign is None else sign * self.attribution.total

    @property
    def n_wrong(self) -> int | None:
        """Queries of which another class is predicted; None of what is no class."""
        if self.predicted is None or not self.queries.is_classification:
            return None
        return int((predicted_class(self.predicted) != self.queries.y).sum())
