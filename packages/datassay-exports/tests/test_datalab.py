"""Our checks as Datalab's issue managers, where cleanlab's Datalab is installed."""

from importlib import import_module

import numpy as np
import pytest

from datassay.score import data_issues, label_issues

pytestmark = pytest.mark.filterwarnings("ignore::Warning")  # cleanlab's own, of newer pandas


@pytest.fixture
def audit(monkeypatch):
    pytest.importorskip("datasets", reason="Datalab needs the package datasets")
    pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    from cleanlab import Datalab
    from cleanlab.datalab.internal.issue_manager_factory import REGISTRY

    for task, checks in list(REGISTRY.items()):  # as they were, for other tests
        monkeypatch.setitem(REGISTRY, task, dict(checks))
    import_module("datassay_exports.datalab").register_managers()
    return lambda data, **inputs: _found(Datalab(data, label_name="y", verbosity=0), inputs)


def _found(lab, inputs):
    lab.find_issues(**inputs)
    return lab


def test_verdicts_are_those_of_our_checks(audit):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    x = rng.normal(size=(300, 6)) + 4 * np.eye(6)[y]
    x[290:294] = x[0] + 1e-4 * rng.normal(size=(4, 6))
    x[299] += 40
    wrong = rng.permutation(290)[:15]
    y[wrong] = (y[wrong] + 1) % 3
    p = np.exp(-0.5 * ((x[:, None] - 4 * np.eye(6)[:3]) ** 2).sum(2)) + 1e-9
    p /= p.sum(1, keepdims=True)
    lab = audit({"y": y}, features=x, pred_probs=p)
    judged, found = label_issues(labels=y, pred_probs=p), data_issues((x, None))
    issues, sets = lab.get_issues(), lab.get_info("near_duplicate")["near_duplicate_sets"]
    np.testing.assert_array_equal(issues["is_label_issue"], judged.is_issue)
    np.testing.assert_allclose(issues["label_score"], 1 - judged.probability)
    np.testing.assert_array_equal(issues["is_outlier_issue"], found.is_outlier)
    assert sets[0].tolist() == [290, 291, 292, 293] and issues["is_outlier_issue"][299]
    assert issues["is_near_duplicate_issue"].sum() == 5 and judged.is_issue[wrong].mean() > 0.8
    assert lab.get_info("label")["judged_by"] == "datassay"


@pytest.mark.parametrize("is_sorted", [False, True])
def test_the_order_of_rows_is_an_issue_where_neighbours_stand_together(audit, is_sorted):
    x = np.random.default_rng(1).normal(size=(200, 3))
    x = x[np.argsort(x[:, 0])] if is_sorted else x
    lab = audit({"y": np.zeros(200, int)}, features=x, issue_types={"non_iid": {}})
    p = lab.get_issue_summary("non_iid")["score"][0]
    assert (p < 1e-6) if is_sorted else (p > 0.05)
    assert lab.get_issues("non_iid")["is_non_iid_issue"].sum() == is_sorted


def test_a_group_that_is_predicted_badly_is_told_by_its_columns(audit):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(600, 4)), rng.integers(0, 2, 600)
    weak = x[:, 2] > 1
    right = np.where(weak, rng.random(600) < 0.4, rng.random(600) < 0.97)
    p = np.where(np.eye(2)[y].astype(bool) == right[:, None], 0.9, 0.1)
    inputs = {"features": x, "pred_probs": p, "issue_types": {"underperforming_group": {}}}
    lab = audit({"y": y}, **inputs)
    flags = lab.get_issues("underperforming_group")["is_underperforming_group_issue"].to_numpy()
    assert flags[weak].mean() > 0.9 and flags[~weak].mean() < 0.1
