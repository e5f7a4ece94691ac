"""The results of one run, gathered for the page, the tables and the summary."""

from dataclasses import field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from datassay.act.choose.gains import ActionTable
from datassay.act.remove.removal_curve import RemovalCurve
from datassay.act.review.gain import BeforeAfter
from datassay.act.review.judged import Judged
from datassay.commands.run.gate.conditions import Outcome
from datassay.data.back.origin import Origin
from datassay.data.samples import SampleSet
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

PENDING = "Actions were not yet measured when this page was written: reload it after the run."
# Results with a row per sample, which must be in the samples' order.
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
            was held out: the training inputs stood in for changes, another fifth of the samples per
            network for accuracies.
        information: nats, one value per sample.
        leave_one_out: what removing each sample changes in predictions and weights.
        issues: how likely each given label is wrong.
        learning_curve: the kernel's spectrum and which modes are learned when.
        attribution: effect of each sample on each validation sample; None where it was not asked
            for.
        attribution_at: "start", in the linearised network, or "trained", at the trained ones.
        query_outputs: [m, k], for the queries: outputs of the linearised network, or, where the
            attribution is at the trained ones, their probabilities of classes, or targets. None
            where attribution is.
        influence: moments of each sample's influence on the others; None where it is not defined.
        average: information given random subsets; None where none were asked for.
        data_issues: what is wrong besides the labels; None where that was not looked for.
        groups: "class" and "source" → information summed up by it, where there are two or more.
        whole_groups: the same → information of each group jointly, in the same order; without those
            whose removal takes too long.
        adversarial: [n], which inputs were replaced on purpose; None where none were.
        projection_quality: rank correlations with exact scores by number of features; None where
            none was asked for.
        pairs: each sample with the one most like it; None where none were asked about.
        check: for some samples the changes that were computed, beside those of retraining without
            them; None where none was asked for.
        baselines: loss and margin of trained networks; None where none was trained.
        removal_curve: what removing samples costs; None where it was not measured.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
        acts: what each action gains; None where nothing was retrained.
        before: what changed since an earlier run; None of a run without one.
        origin: how the samples were read; None of samples that came as arrays.
        judged: what a review of the labels goes on from; None where it was not gathered.
        scores: of odd inputs and of other packages, name → result; None of one that says nothing.
        pending: in a sentence, what was still to be measured; empty of a run that has ended.
        outcomes: of the conditions that `datassay check` judged; empty of other runs.
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
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    acts: ActionTable | None = None
    before: BeforeAfter | None = None
    origin: Origin | None = None
    judged: Judged | None = None
    scores: dict[str, Any] = field(default_factory=dict)
    pending: str = ""
    outcomes: tuple[Outcome, ...] = ()

    def __post_init__(self) -> None:
        """Check that results are of these samples, in their order."""
        results = (getattr(self, name) for name in ALIGNED)
        assert all(r is None or np.array_equal(r.ids, self.samples.ids) for r in results)

    @property
    def queries(self) -> SampleSet:
        """The samples whose predictions are explained: validation, or else training samples."""
        if self.validation is None:
            return self.samples
        return self.validation

    @property
    def has_several_labels(self) -> bool:
        """Whether each sample has several labels, each given or not."""
        return not self.samples.is_classification and self.issues.posterior is not None
