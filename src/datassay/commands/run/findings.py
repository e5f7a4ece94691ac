"""The results of one run, gathered for the page, the tables and the summary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from datassay.act.choose.compare import ActTable
from datassay.act.remove.removal_curve import RemovalCurve
from datassay.act.remove.rivals import Contest
from datassay.act.review.gain import BeforeAfter
from datassay.act.review.judged import Judged
from datassay.data.back.origin import Origin
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.results import result
from datassay.score.checks.data_issues import DataIssues
from datassay.score.compare.aggregate import Aggregate
from datassay.score.compare.projection_quality import ProjectionQuality
from datassay.score.compare.retraining_check import Baselines, RetrainingCheck
from datassay.score.effects import Attribution
from datassay.score.influence.linear import SampleInfluence
from datassay.score.information.average import AverageInformation
from datassay.score.information.groups import GroupInformation
from datassay.score.information.pairs import PairInformation
from datassay.score.label_issues import LabelIssues
from datassay.score.learning_curve import LearningCurve
from datassay.score.leave_one_out import LeaveOneOut
from datassay.score.sample_information import SampleInformation
from datassay.stats import costs

# The rankings that the page speaks about, as `removal_curve` and the contests name them.
LOWEST_FIRST = "lowest information first"
HIGHEST_FIRST = "highest information first"
SUSPECTS_FIRST = "suspects, then lowest information first"
ISSUES_FIRST = "highest label issue score first"
RANDOM = "random"
PENDING = "Actions were not yet measured when this page was written: reload it after the run."
# Results with a row a sample, in the samples' order.
ALIGNED = (
    "information", "issues", "leave_one_out", "attribution", "influence", "baselines", "average",
    "data_issues",
)  # fmt: skip


@result
class Findings:
    """One run's results, in the order of its training samples; nothing is computed here.

    Attributes:
        samples: the n training samples, with the labels that were scored.
        validation: the samples on which changes and accuracies were measured; None where nothing
            was held out: the training inputs stood in for changes, another fifth of the samples a
            network for accuracies.
        information: nats, one value a sample.
        leave_one_out: what removing each sample changes in predictions and weights.
        issues: how likely each given label is wrong.
        learning_curve: the kernel's spectrum and which modes are learned when.
        attribution: effect of each sample on each validation sample; None where it was not asked
            for.
        attribution_at: "start", in the linearised network, or "trained", at the trained ones.
        query_outputs: [m, k]: what the network trained on all samples says of the queries. Of the
            linearised one in its output unit; of the trained ones probabilities of classes, or
            targets. None as attribution.
        influence: moments of each sample's influence on the others; None where it says nothing.
        average: information beside random subsets; None where none were asked for.
        data_issues: what is wrong beside the labels; None where that was not looked for.
        groups: "class" and "source" → information summed up by it, where there are two or more.
        whole_groups: the same → information of each group as one, in the same order; without those
            whose removal takes too long.
        adversarial: [n], which inputs were replaced on purpose; None where none were.
        projection_quality: rank correlations with exact scores by number of features; None where
            none was asked for.
        pairs: each sample with the one most like it; None where none were asked about.
        check: some samples' changes beside those of really retraining without them; None where
            none was asked for.
        baselines: loss and margin of trained networks; None where none was trained.
        removal_curve: what removing samples costs; None where it was not measured.
        contests: our rankings beside their trivial rivals.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
        acts: what each act gains; None where nothing was retrained.
        before: what changed since an earlier run; None of a run without one.
        origin: how the samples were read; None of samples that came as arrays.
        judged: what a review of the labels goes on from; None where it was not gathered.
        scores: of other packages, name → result; None of one that says nothing here.
        pending: in a sentence, what was still to be measured; empty of a run that has ended.
    """

    samples: SampleSet
    validation: SampleSet | None
    information: SampleInformation
    leave_one_out: LeaveOneOut
    issues: LabelIssues
    learning_curve: LearningCurve
    attribution: Attribution | None = None
    attribution_at: str = "start"
    query_outputs: Float[np.ndarray, "m k"] | None = None
    influence: SampleInfluence | None = None
    average: AverageInformation | None = None
    data_issues: DataIssues | None = None
    groups: dict[str, Aggregate] = field(default_factory=dict)
    whole_groups: dict[str, GroupInformation] = field(default_factory=dict)
    adversarial: Bool[np.ndarray, " n"] | None = None
    projection_quality: ProjectionQuality | None = None
    pairs: PairInformation | None = None
    check: RetrainingCheck | None = None
    baselines: Baselines | None = None
    removal_curve: RemovalCurve | None = None
    contests: tuple[Contest, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    acts: ActTable | None = None
    before: BeforeAfter | None = None
    origin: Origin | None = None
    judged: Judged | None = None
    scores: dict[str, Any] = field(default_factory=dict)
    pending: str = ""

    def __post_init__(self) -> None:
        """Refuse results that are not in the order of the samples they claim to describe."""
        ids, replaced = self.samples.ids, self.adversarial
        if self.attribution is not None:
            self._check_queries()
        for name in ALIGNED:
            scored = getattr(self, name)
            if scored is not None and not np.array_equal(scored.ids, ids):
                raise DataError(
                    f"{name} must have the samples' ids in the samples' order; they differ. "
                    "Score the same SampleSet that the report shows."
                )
        if replaced is not None and len(replaced) != len(ids):
            raise DataError(
                f"adversarial must have one value a sample; got {len(replaced)} for {len(ids)}. "
                "Score the same SampleSet that the report shows."
            )

    @property
    def queries(self) -> SampleSet:
        """The samples whose predictions are explained: validation, or else training samples."""
        return self.samples if self.validation is None else self.validation

    @property
    def has_several_labels(self) -> bool:
        """Whether each sample has several labels, each given or not."""
        return not self.samples.is_classification and self.issues.posterior is not None

    def _check_queries(self) -> None:
        outputs, queries = self.query_outputs, self.queries
        n_queries = 0 if self.attribution is None else len(self.attribution.outcome)
        if outputs is None or not n_queries == len(outputs) == len(queries):
            kind = "training" if self.validation is None else "validation"
            raise DataError(
                f"attribution must come with the {kind} samples and their outputs; got "
                f"{n_queries} queries, {0 if outputs is None else len(outputs)} outputs and "
                f"{len(queries)} {kind} samples. Pass those it was computed on."
            )


@dataclass(frozen=True, slots=True)
class Redundancy:
    """The largest removal that costs no more than the measurement can tell.

    Attributes:
        ranking: the order of removal: by information, with or without the suspects first.
        fraction: share of samples removed in that order; 0 where none is redundant.
        change: mean score at that fraction minus the full set's; at the smallest measured
            fraction where none is redundant.
        tried: the fraction at which `change` and `random_change` were measured.
        random_change: the same for random removal; None where it was not measured.
        n_seeds: how many networks each mean averages.
        metric: "accuracy" or "R²".
    """

    ranking: str
    fraction: float
    change: float
    tried: float
    random_change: float | None
    n_seeds: int
    metric: str

    @property
    def random_does_as_well(self) -> bool:
        """Whether removing as many at random costs no more than our ranking."""
        return self.random_change is not None and self.random_change >= self.change


def redundancy(curve: RemovalCurve | None) -> Redundancy | None:
    """What the removal curve says about samples that can go.

    A fraction f is redundant unless it `costs`: where mean(f) ≥ mean(0) − 0.005. What goes first is
    the lowest information, or the suspected labels and then the lowest information; the order that
    can remove more is reported. Seeds alone do not tell what other held-out samples would change,
    so no smaller loss counts as sure, and no larger one is excused by their spread.

    Returns:
        The largest redundant fraction, or fraction 0; None without a curve that holds either
        ranking and a fraction above 0.

    Source: our own rule, that of the largest drop in the table of actions.
    """
    if curve is None or not (curve.fractions > 0).any():
        return None
    mean = curve.score.mean(axis=2)  # [r, f]
    changes = dict(zip(curve.rankings, mean - mean[:, :1], strict=True))
    random, found = changes.get(RANDOM), []
    for name in (LOWEST_FIRST, SUSPECTS_FIRST):
        if (change := changes.get(name)) is None:
            continue
        fits = (curve.fractions > 0) & ~np.array([costs(one) for one in change])
        place = int(np.flatnonzero(fits)[-1]) if fits.any() else int(np.argmax(curve.fractions > 0))
        tried = float(curve.fractions[place])
        found.append(
            Redundancy(
                name, tried if fits.any() else 0.0, float(change[place]), tried,
                None if random is None else float(random[place]), curve.score.shape[2],
                curve.metric,
            )
        )  # fmt: skip
    return max(found, key=lambda one: one.fraction, default=None)
