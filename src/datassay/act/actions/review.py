"""Decide labels that are worth a look, and what that is expected to gain."""

from datassay.act.choose.action import REVIEW
from datassay.act.choose.gains import EXPECTED, ActionGain
from datassay.act.choose.kinds import ActionKind
from datassay.score.label_issues import LabelIssues
from datassay.stats import advice

# Accuracy that right decisions gain per share of labels that they correct: 2.5 % quantile, mean and
# 97.5 % quantile over drawn tables with known errors. Little where errors are even, more than 1
# where a class is given as another.
GAIN_PER_ERROR = (-0.1, 0.4, 1.5)


def expected_review_gain(issues: LabelIssues, score: float) -> ActionGain | None:
    """Return the gain to expect from reviewing the labels worth a look; None without any.

    Args:
        issues: of the labels of n samples.
        score: accuracy of a model that learns from the samples as they are.

    Returns:
        A row of the table of actions, not measured: `GAIN_PER_ERROR` times the share of labels
        that the review should correct, or times the error 1 − score if that is less. It counts on
        right decisions. None without any label worth a look, for targets that are numbers and for
        several labels a sample.
    """
    n_errors = float(issues.probability[issues.worth_a_look].sum())
    if not issues.class_names or not n_errors:
        return None
    low_part, mean_part, high_part = GAIN_PER_ERROR
    error = max(0.0, 1 - score)
    share = min(n_errors / len(issues.probability), error)
    gain = mean_part * share
    low = low_part * share
    high = min(high_part * share, error)
    return ActionGain(
        kind=REVIEW, words=f"Review {issues.worth_a_look.sum():,} labels", how=EXPECTED,
        gain=gain, low=low, high=high, p=1.0, verdict="", advice=advice(gain, low, high),
        changed=int(issues.worth_a_look.sum()),
        note=f"about {n_errors:.0f} of them should be wrong; it counts on right decisions",
    )  # fmt: skip


ACTION = ActionKind(
    name=REVIEW,
    help="Labels worth a look are decided by a person, each rightly.",
    doing="reviewing {them}",
    evidence="suspects",
    command="view",
)
