"""Checks of datassay as issue managers of cleanlab's Datalab, which must be installed."""

from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int
from scipy.stats import norm

from datassay.collect import collect
from datassay.data import SampleSet, load
from datassay.errors import SettingError, install
from datassay.models import build_model
from datassay.score import data_issues, label_issues, nearest_neighbors
from datassay.score.checks.weak_groups import find_weak_groups
from datassay.score.labels.issues import FEWEST

SOURCE = "cleanlab.datalab.internal.issue_manager"
try:
    managers: Any = import_module(SOURCE)
    factory: Any = import_module(f"{SOURCE}_factory")
except ImportError:  # `register_managers` says what is missing
    managers = factory = None


def _datalab_manager(name: str) -> Any:
    return getattr(managers, name, object)


SHUFFLES = 400  # of the rows, that tell what chance does to their order


class _Verdict:
    """Flags and scores of ours in place of those that Datalab's manager found.

    Its neighbour graph and its figures in `info` stay, since other managers read them. Its own
    verdict stays too where ours cannot tell: given a graph or clusters of the user's, or no
    features; of rows that are all equal; of too few.
    """

    def _is_ours(self, features: Any, settings: dict[str, Any]) -> bool:
        graphs = (settings.get("knn_graph"), settings.get("cluster_ids"))
        if features is None or any(graph is not None for graph in graphs):
            return False
        rows = np.asarray(features)
        return bool((rows != rows[:1]).any())

    def _store(self: Any, flags: Bool[np.ndarray, " n"], scores: Float[np.ndarray, " n"]) -> None:
        self.issues[f"is_{self.issue_name}_issue"] = flags
        self.issues[self.issue_score_key] = scores
        self.summary = self.make_summary(float(np.mean(scores)))
        self.info["judged_by"] = "datassay"


class Labels(_Verdict, _datalab_manager("LabelIssueManager")):
    """`label_issues` of pred_probs, else of a kernel ridge fit to the features."""

    issue_name = "label"

    def find_issues(self, pred_probs: Any = None, features: Any = None, **kwargs: Any) -> None:
        """Store flags, 1 − the probability that the label is wrong, and suggested labels."""
        super().find_issues(pred_probs=pred_probs, features=features, **kwargs)
        labels = self.datalab.labels
        if len(labels) < FEWEST:
            return
        if pred_probs is not None:
            total = np.asarray(pred_probs).sum(1, keepdims=True)  # Datalab takes any
            issues = label_issues(labels=labels, pred_probs=pred_probs / total)
            self.info["pred_probs_summed_to"] = (float(total.min()), float(total.max()))
        else:
            samples, _ = load((np.asarray(features), labels), val_fraction=0)
            issues = label_issues(collect(build_model("auto", samples), samples))
        self._store(issues.is_issue, 1 - issues.probability)
        names = np.unique(labels)
        self.info |= {
            "predicted_label": names[issues.suggested_label].tolist(),
            "num_label_issues": int(issues.is_issue.sum()),
            "average_label_quality": float(1 - issues.probability.mean()),
        }


class Outliers(_Verdict, _datalab_manager("OutlierIssueManager")):
    """The outliers of `data_issues`."""

    issue_name = "outlier"

    def find_issues(self, features: Any = None, pred_probs: Any = None, **kwargs: Any) -> None:
        """Store flags and 1 / (1 + exp z), z the modified z-score minus 3.5."""
        super().find_issues(features=features, pred_probs=pred_probs, **kwargs)
        if self._is_ours(features, kwargs):
            issues = data_issues((np.asarray(features), None))
            if np.isnan(issues.outlier_score).all():
                return
            z = np.nan_to_num(issues.outlier_score, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
            self._store(issues.is_outlier, 1 / (1 + np.exp(np.minimum(z, 700))))


class NearDuplicates(_Verdict, _datalab_manager("NearDuplicateIssueManager")):
    """The equal rows and groups of near duplicates of `data_issues`."""

    issue_name = "near_duplicate"

    def find_issues(self, features: Any = None, **kwargs: Any) -> None:
        """Store flags, 1 − exp(−d / median d) of the nearest distance, and the groups."""
        super().find_issues(features=features, **kwargs)
        if not self._is_ours(features, kwargs):
            return
        issues = data_issues((np.asarray(features), None))
        numbers, counts = np.unique(issues.copies, return_inverse=True, return_counts=True)[1:]
        groups = [np.flatnonzero(numbers == number) for number in range(len(counts))]
        sets = [groups[number][groups[number] != row] for row, number in enumerate(numbers)]
        distance = np.where(np.isnan(issues.distance), np.inf, issues.distance)
        distance = np.where(issues.duplicate_group >= 0, 0.0, distance)
        unit = np.median(distance[distance > 0]) if (distance > 0).any() else 1.0
        self._store(counts[numbers] > 1, 1 - np.exp(-distance / (unit if unit < np.inf else 1.0)))
        self.info["near_duplicate_sets"] = self.near_duplicate_sets = sets


class WeakGroups(_Verdict, _datalab_manager("UnderperformingGroupIssueManager")):
    """Groups that values of one or two features tell, and that are predicted badly."""

    issue_name = "underperforming_group"

    def find_issues(self, pred_probs: Any, features: Any = None, **kwargs: Any) -> None:
        """Store flags and the group's mean label probability, as a share of all samples'."""
        super().find_issues(pred_probs=pred_probs, features=features, **kwargs)
        if not self._is_ours(features, kwargs):
            return
        labels, probability = self.datalab.labels, np.asarray(pred_probs)
        rows, names = np.asarray(features, float), tuple(map(str, range(probability.shape[1])))
        train = SampleSet(rows, labels, np.arange(len(labels)), names)
        columns = pa.table({f"x{j}": column for j, column in enumerate(rows.T)})
        groups = find_weak_groups(train, probability, columns)[0]
        is_member = np.any([np.zeros(len(labels), bool), *(group.samples for group in groups)], 0)
        chance = probability[np.arange(len(labels)), labels]
        share = min(1.0, chance[is_member].mean() / chance.mean()) if is_member.any() else 1.0
        self._store(is_member, np.where(is_member, share, 1.0))
        self.summary = self.make_summary(float(share))


class RowOrder(_Verdict, _datalab_manager("NonIIDIssueManager")):
    """Whether nearest neighbours stand nearer to each other in the file than by chance."""

    issue_name = "non_iid"

    def find_issues(self, features: Any = None, pred_probs: Any = None, **kwargs: Any) -> None:
        """Store the p-value as the summary; flag Datalab's first row if p is below 5 %."""
        super().find_issues(features=features, pred_probs=pred_probs, **kwargs)
        rows = pred_probs if features is None else features
        if not self._is_ours(rows, kwargs) or len(rows) < 3:
            return
        scores = self.issues[self.issue_score_key].to_numpy()
        p = order_p(nearest_neighbors(np.asarray(rows, np.float64), 2).index[:, 1])
        self._store((p < self.significance_threshold) & (np.arange(len(scores)) == scores.argmin()),
                  scores)  # fmt: skip
        self.summary, self.info["p-value"] = self.make_summary(p), p


MANAGERS = (Labels, Outliers, NearDuplicates, WeakGroups, RowOrder)


def register_managers() -> None:
    """Let Datalab judge by our checks, in this process, wherever a task has the check.

    Labels of regression and of several labels, missing values, imbalance and values of samples stay
    Datalab's own.

    Raises:
        SettingError: cleanlab's Datalab is not installed.
    """
    if factory is None:
        command = install("'cleanlab[datalab]>=2.9'")
        raise SettingError(f"Datalab's managers need cleanlab's Datalab: {command}.")
    for task, checks in factory.REGISTRY.items():
        for manager in MANAGERS:
            if checks.get(manager.issue_name) in manager.__mro__:  # its own, of the same question
                del checks[manager.issue_name]  # else it prints that one is replaced
                factory.register(manager, task=str(task))


def order_p(nearest: Int[np.ndarray, " n"]) -> float:
    """Return the one-sided p of the mean log file distance to a row's nearest, by shuffles."""
    rng, rows = np.random.default_rng(0), np.arange(len(nearest))
    orders = np.concatenate([rows[None], rng.permuted(np.tile(rows, (SHUFFLES, 1)), axis=1)])
    mean = np.log(np.maximum(np.abs(orders - orders[:, nearest]), 1)).mean(1)
    by_chance = mean[1:]
    return float(norm.cdf((mean[0] - by_chance.mean()) / max(by_chance.std(), 1e-12)))
