"""Checks of datassay as issue managers of cleanlab's Datalab, which must be installed."""

from __future__ import annotations

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
from datassay.score.checks.weak_groups import told_groups
from datassay.score.label_issues import FEWEST

SOURCE = "cleanlab.datalab.internal.issue_manager"
try:
    managers: Any = import_module(SOURCE)
    factory: Any = import_module(f"{SOURCE}_factory")
except ImportError:  # `register_managers` says what is missing
    managers = factory = None


def _of_datalab(name: str) -> Any:
    return getattr(managers, name, object)


SHUFFLES = 400  # of the rows, that tell what chance does to their order


class _Verdict:
    """Flags and scores of ours in place of those that Datalab's manager found.

    Its neighbour graph and its figures in `info` stay, since other managers read them. Its own
    verdict stays too where ours cannot tell: given a graph or clusters of the user's, or no
    features; of rows that are all equal; of too few.
    """

    def _is_ours(self, features: Any, given: dict[str, Any]) -> bool:
        graphs = (given.get("knn_graph"), given.get("cluster_ids"))
        if features is None or any(one is not None for one in graphs):
            return False
        places = np.asarray(features)
        return bool((places != places[:1]).any())

    def _put(self: Any, flags: Bool[np.ndarray, " n"], scores: Float[np.ndarray, " n"]) -> None:
        self.issues[f"is_{self.issue_name}_issue"] = flags
        self.issues[self.issue_score_key] = scores
        self.summary = self.make_summary(float(np.mean(scores)))
        self.info["judged_by"] = "datassay"


class Labels(_Verdict, _of_datalab("LabelIssueManager")):
    """`label_issues` of pred_probs, else of a kernel ridge fit to the features."""

    issue_name = "label"

    def find_issues(self, pred_probs: Any = None, features: Any = None, **given: Any) -> None:
        """Put flags, 1 − the probability that the label is wrong, and suggested labels."""
        super().find_issues(pred_probs=pred_probs, features=features, **given)
        labels = self.datalab.labels
        if len(labels) < FEWEST:
            return
        if pred_probs is not None:
            total = np.asarray(pred_probs).sum(1, keepdims=True)  # Datalab takes any
            judged = label_issues(labels=labels, pred_probs=pred_probs / total)
            self.info["pred_probs_summed_to"] = (float(total.min()), float(total.max()))
        else:
            samples, _ = load((np.asarray(features), labels), val_fraction=0)
            judged = label_issues(collect(build_model("auto", samples), samples))
        self._put(judged.is_issue, 1 - judged.probability)
        names = np.unique(labels)
        self.info |= {
            "predicted_label": names[judged.suggested_label].tolist(),
            "num_label_issues": int(judged.is_issue.sum()),
            "average_label_quality": float(1 - judged.probability.mean()),
        }


class Outliers(_Verdict, _of_datalab("OutlierIssueManager")):
    """The outliers of `data_issues`."""

    issue_name = "outlier"

    def find_issues(self, features: Any = None, pred_probs: Any = None, **given: Any) -> None:
        """Put flags and 1 / (1 + exp z), z the modified z-score minus 3.5."""
        super().find_issues(features=features, pred_probs=pred_probs, **given)
        if self._is_ours(features, given):
            found = data_issues((np.asarray(features), None))
            if np.isnan(found.outlier_score).all():
                return
            z = np.nan_to_num(found.outlier_score, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
            self._put(found.is_outlier, 1 / (1 + np.exp(np.minimum(z, 700))))


class NearDuplicates(_Verdict, _of_datalab("NearDuplicateIssueManager")):
    """The equal rows and groups of near duplicates of `data_issues`."""

    issue_name = "near_duplicate"

    def find_issues(self, features: Any = None, **given: Any) -> None:
        """Put flags, 1 − exp(−d / median d) of the nearest distance, and the groups."""
        super().find_issues(features=features, **given)
        if not self._is_ours(features, given):
            return
        found = data_issues((np.asarray(features), None))
        numbers, counts = np.unique(found.copies, return_inverse=True, return_counts=True)[1:]
        groups = [np.flatnonzero(numbers == number) for number in range(len(counts))]
        sets = [groups[number][groups[number] != row] for row, number in enumerate(numbers)]
        distance = np.where(np.isnan(found.distance), np.inf, found.distance)
        distance = np.where(found.duplicate_group >= 0, 0.0, distance)
        usual = np.median(distance[distance > 0]) if (distance > 0).any() else 1.0
        self._put(counts[numbers] > 1, 1 - np.exp(-distance / (usual if usual < np.inf else 1.0)))
        self.info["near_duplicate_sets"] = self.near_duplicate_sets = sets


class WeakGroups(_Verdict, _of_datalab("UnderperformingGroupIssueManager")):
    """Groups that values of one or two features tell, and that are predicted badly."""

    issue_name = "underperforming_group"

    def find_issues(self, pred_probs: Any, features: Any = None, **given: Any) -> None:
        """Put flags and the group's mean probability of the given labels, as a share of all's."""
        super().find_issues(pred_probs=pred_probs, features=features, **given)
        if not self._is_ours(features, given):
            return
        labels, own = self.datalab.labels, np.asarray(pred_probs)
        places, names = np.asarray(features, float), tuple(map(str, range(own.shape[1])))
        train = SampleSet(places, labels, np.arange(len(labels)), names)
        columns = pa.table({f"x{j}": column for j, column in enumerate(places.T)})
        groups = told_groups(train, own, columns)[0]
        inside = np.any([np.zeros(len(labels), bool), *(group.samples for group in groups)], 0)
        right = own[np.arange(len(labels)), labels]
        share = min(1.0, right[inside].mean() / right.mean()) if inside.any() else 1.0
        self._put(inside, np.where(inside, share, 1.0))
        self.summary = self.make_summary(float(share))


class RowOrder(_Verdict, _of_datalab("NonIIDIssueManager")):
    """Whether nearest neighbours stand nearer to each other in the file than by chance."""

    issue_name = "non_iid"

    def find_issues(self, features: Any = None, pred_probs: Any = None, **given: Any) -> None:
        """Put the p-value as the summary; at 5 % the row that Datalab ranks first is flagged."""
        super().find_issues(features=features, pred_probs=pred_probs, **given)
        places = pred_probs if features is None else features
        if not self._is_ours(places, given) or len(places) < 3:
            return
        scores = self.issues[self.issue_score_key].to_numpy()
        p = order_p(nearest_neighbors(np.asarray(places, np.float64), 2).index[:, 1])
        self._put((p < self.significance_threshold) & (np.arange(len(scores)) == scores.argmin()),
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
    """One-sided p of the mean log distance in the file from a row to its nearest, by shuffles."""
    rng, own = np.random.default_rng(0), np.arange(len(nearest))
    orders = np.concatenate([own[None], rng.permuted(np.tile(own, (SHUFFLES, 1)), axis=1)])
    mean = np.log(np.maximum(np.abs(orders - orders[:, nearest]), 1)).mean(1)
    by_chance = mean[1:]
    return float(norm.cdf((mean[0] - by_chance.mean()) / max(by_chance.std(), 1e-12)))
