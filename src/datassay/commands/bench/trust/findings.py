"""What `datassay bench DATA` found out, gathered for its page, table and summary."""

from __future__ import annotations

from dataclasses import field

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.score.compare.trust import TrustCheck


@result
class TrustFindings:
    """A trust check and what it was made of.

    Attributes:
        samples: the training samples.
        queries: those held out whose predictions were asked about.
        model: as the user named it.
        check: the correlations and verdicts.
        fit: accuracy of the trained networks on the queries, or R².
        seconds: of retraining.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    samples: SampleSet
    queries: SampleSet
    model: str
    check: TrustCheck
    fit: float
    seconds: float
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
