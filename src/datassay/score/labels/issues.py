"""The result of `label_issues`: how likely each label is wrong, and which are to be reviewed."""

from collections.abc import Mapping
from dataclasses import field

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from datassay.data.samples import LabelType
from datassay.data.targets import as_given
from datassay.errors import SettingError
from datassay.results import Tabular, column, result, sample_ids
from datassay.score.labels.noise import LabelNoise
from datassay.score.labels.sources import LabelSources

# With fewer samples none is a suspect: of 2, each contradicts the other.
FEWEST = 6


@result
class LabelIssues(Tabular):
    """How likely each given label is wrong, one row per sample.

    Attributes:
        given_label: [n], the label that was judged, coded like the suggested one.
        suggested_label: [n]; class index (int64): the likeliest class, of those worth a look the
            likeliest other. Several labels: [n, k], 0 or 1. Regression: the held-out output, target
            unit ([n, k] for several targets), on the scale on which the target is judged, within
            the range of targets that are not suspected; the given one in rows of `cells`, and in
            those of `unit_factors` the given one divided by the factor.
        is_issue: [n] bool: probably wrong: of classes probability > 0.8, of targets > 1/2. None
            below FEWEST samples.
        worth_a_look: [n] bool: those and the next most suspect, as many as may well be wrong where
            noise cannot be told from hard samples; of targets those that deviate almost as far.
        share_wrong: of wrong labels, at least (what noise alone explains) and at most (all that
            held-out predictions contradict); of several labels of samples with one wrong.
        score: [n]; higher: more likely mislabelled. Classification: log odds that the label is
            wrong as the fits have it, nats. Regression: the held-out residual's modified z-score
            minus 3.5, unitless; its spread is at least the targets' rounding, so that where most
            residuals are equal only others stand out.
        probability: [n], that the label (of several: at least one) is wrong: that of the score,
            times n / (n + 5), since fits to few samples are surer than right. Above 1/2 it is by
            the noise that was found; up to 1/2 what held-out predictions contradict counts too, by
            a weight of 0.4 at most, since outputs alone cannot tell noise from hard samples.
        by_group: [n] bool: only a fit without the whole group contradicts the label. It may then
            be wrong or an effect of the group: tables leave its probability empty. None: no groups.
        posterior: [n, k], probability of each true class; of several labels that each is 1; None
            for regression.
        noise: the noise found, one for each of several labels; empty for regression.
        held_out: [n, outputs], 1 of two classes, from the fit to the given labels without each. Of
            an estimator its class probabilities (or decision function), or its predictions.
        ridge: the absolute penalty chosen by leave-one-out error, kernel unit, before suspected
            targets are mended; NaN of an estimator and of probabilities given.
        ids: [n], the samples' ids.
        class_names: in index order; empty for several labels and for regression.
        label_type: of the user's labels, which class_names are the words of.
        judge: what gave the held-out outputs.
        weights: of the judges, the fit first and the probabilities given after it, a unit of its
            outputs or a nat; 0: it explained nothing that the others do not. Empty: one judge.
        warnings: what the user should know about these numbers; empty when nothing.
        is_predicted: whether held-out outputs tell the labels better than the classes' shares do;
            else no label is flagged, and `share_wrong` begins at 0.
        sources: of the labels, by the column of which some err far more often; None: none do.
        cells: position → what looks wrong in the inputs, in words, of rows worth a look.
        unit_factors: position → factor by which a suspected target is too large, as of a unit:
            about 10 or 1/10 for all of them, say; empty where suspects share none.
        one_way: of two classes, (true, given, share of the class, labels): so many of a class may
            be given as the other, or else hard to tell from it; None: nothing says so.
    """

    given_label: Shaped[np.ndarray, "n ..."] = column(
        "the given label", joint="", values=lambda issues: issues._as_given(issues.given_label)
    )
    suggested_label: Shaped[np.ndarray, "n ..."] = column(
        "the likeliest label, of one worth a look the next; of a target what a fit expects, or "
        "the target without the factor by which many are wrong",
        values=lambda issues: issues._as_given(issues.suggested_label),
    )
    is_issue: Bool[np.ndarray, " n"] = column(
        "whether the label is probably wrong: of classes a probability above 0.8, of targets 1/2"
    )
    worth_a_look: Bool[np.ndarray, " n"] = column(
        "whether the label is probably wrong, or may well be: what to review"
    )
    score: Float[np.ndarray, " n"] = column(
        "log odds that the label is wrong; of targets the held-out residual's modified z-score "
        "minus 3.5",
        unit="nats; of targets none",
        sign="high: more likely wrong; 0: as likely as not",
        name="label_issue_score",
    )
    probability: Float[np.ndarray, " n"] = column(
        "probability that the given label is wrong",
        unit="probability",
        sign="high: more likely wrong",
        name="wrong_probability",
        values=lambda issues: issues.known_probability,
    )
    share_wrong: tuple[float, float]
    posterior: Float[np.ndarray, "n k"] | None
    noise: tuple[LabelNoise, ...]
    held_out: Float[np.ndarray, "n outputs"]
    ridge: float
    ids: np.ndarray = sample_ids()
    class_names: tuple[str, ...] = ()
    label_type: LabelType = "string"
    judge: str = "ridge regression on the linearised network"
    weights: tuple[float, ...] = ()
    warnings: tuple[str, ...] = ()
    by_group: Bool[np.ndarray, " n"] | None = None
    is_predicted: bool = True
    sources: LabelSources | None = None
    one_way: tuple[int, int, float, float] | None = None
    cells: Mapping[int, str] = field(default_factory=dict)
    unit_factors: Mapping[int, float] = field(default_factory=dict)

    @property
    def known_probability(self) -> Float[np.ndarray, " n"]:
        """P(label is wrong), [n]; NaN where a group effect would explain the label as well."""
        if self.by_group is None:
            return self.probability
        return np.where(self.by_group, np.nan, self.probability)

    @property
    def to_try(self) -> Bool[np.ndarray, " n"]:
        """[n] labels that are likelier wrong than right; relabelling and removal try them."""
        return (self.probability > 0.5) & self.worth_a_look

    @property
    def suspects(self) -> Int[np.ndarray, " suspects"]:
        """Positions of labels that are likelier wrong than right, the most suspect first."""
        suspect = np.flatnonzero(self.to_try)
        return suspect[np.argsort(-self.score[suspect], kind="stable")]

    @property
    def readings(self) -> str:
        """The two explanations of two classes' labels, as a sentence; "" where only one fits."""
        if self.one_way is None:
            return ""
        true_class, given_class, share, n_wrong = self.one_way
        true_name, given_name = self.class_names[true_class], self.class_names[given_class]
        return (
            f"Either {100 * share:.0f} % of “{true_name}” are given as “{given_name}”, so that "
            f"about {n_wrong:.0f} labels are wrong, or these inputs tell the two no better there: "
            "outputs alone cannot say. A review of 20 of the most suspect does."
        )

    def expected_precision(self, top: int | None = None) -> float:
        """Return the share of wrong labels to expect among the most suspect samples.

        Args:
            top: number of samples; None: those that are flagged.

        Returns:
            Their mean probability; nan where there is no sample.

        Raises:
            SettingError: top is negative or above n.
        """
        if top is None:
            top_idx = np.flatnonzero(self.is_issue)
        elif 0 <= top <= len(self.score):
            top_idx = np.argsort(-self.score, kind="stable")[:top]
        else:
            raise SettingError(f"top must lie in 0 ... {len(self.score)}; got {top}.")
        if len(top_idx):
            return float(self.probability[top_idx].mean())
        return float("nan")

    def _as_given(self, labels: np.ndarray) -> pa.Array:
        return as_given(labels, self.class_names, self.label_type)


def mask_array(mask: Bool[Tensor, " n"]) -> Bool[np.ndarray, " n"]:
    """Return a mask as an array; all False below FEWEST samples."""
    return mask.numpy() & (len(mask) >= FEWEST)


def mark_top(score: Float[Tensor, " n"], n_look: int) -> Bool[np.ndarray, " n"]:
    """Return a mask of the n_look largest scores; none among fewer than FEWEST samples."""
    is_top = np.zeros(len(score), bool)
    if len(score) >= FEWEST:
        is_top[np.argsort(-score.numpy(), kind="stable")[:n_look]] = True
    return is_top
