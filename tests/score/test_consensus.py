"""Several runs on the same samples: joins, votes and ranks by brute force, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from datassay.errors import DataError
from datassay.score.compare.consensus import RunScores, consensus, reliability


def run_scores(ids, seed=0):
    rng = np.random.default_rng(seed)
    n = len(ids)
    return RunScores(np.array(ids), rng.gamma(1, size=n), rng.normal(size=n), rng.random(n) < 0.3)


@settings(deadline=None, max_examples=30)
@given(r=st.integers(2, 4), n=st.integers(6, 30), seed=st.integers(0, 99))
def test_samples_are_joined_by_id_and_judged_as_by_hand(r, n, seed):
    rng = np.random.default_rng(seed)
    runs = {f"run {k}": run_scores(rng.permutation(n)[: n - k % 2], seed + k) for k in range(r)}
    joined = consensus(runs)
    shared = [i for i in runs["run 0"].ids if all(i in run.ids for run in runs.values())]
    assert joined.ids.tolist() == shared
    for k, run in enumerate(runs.values()):
        rows = [run.ids.tolist().index(i) for i in shared]
        np.testing.assert_array_equal(joined.information[k], run.information[rows])
        np.testing.assert_array_equal(joined.issue_score[k], run.issue_score[rows])
        np.testing.assert_array_equal(joined.is_issue[k], run.is_issue[rows])
        expected = (rankdata(run.information[rows]) - 0.5) / len(shared)
        np.testing.assert_allclose(joined.rank[k], expected)
    for c in range(len(shared)):
        ranks = [joined.rank[k, c] for k in range(r)]
        assert joined.votes[c] == sum(joined.is_issue[k, c] for k in range(r))
        assert joined.rank_range[c] == pytest.approx(max(ranks) - min(ranks))
    rho = spearmanr(joined.information[0], joined.information[1]).statistic
    assert joined.information_agreement.spearman[0, 1] == pytest.approx(rho)
    table = joined.to_table()
    assert table["votes"].to_pylist() == joined.votes.tolist()
    assert table["information: run 1"].to_pylist() == joined.information[1].tolist()


def test_the_mean_of_runs_agrees_with_other_runs_as_its_reliability_says():
    """Runs are a common signal and own noise: the correlation of two means of r runs is known."""
    rng = np.random.default_rng(0)
    signal, noise, r = rng.normal(size=200_000), 1.5, 4
    runs = signal + noise * rng.normal(size=(2 * r, len(signal)))
    measured = np.corrcoef(runs[:r].mean(0), runs[r:].mean(0))[0, 1]
    assert reliability(np.corrcoef(runs[:r])) == pytest.approx(measured, abs=0.01)


@pytest.mark.parametrize(("rho", "expected"), [(1.0, 1.0), (0.5, 2 / 3), (0.0, 0.0), (-0.4, 0.0)])
def test_reliability_of_two_runs(rho, expected):
    assert reliability(np.array([[1, rho], [rho, 1]])) == pytest.approx(expected)


def test_ids_of_different_types_meet_as_text_and_equal_information_has_no_order():
    joined = consensus({"a": run_scores([1, 2, 3, 4]), "b": run_scores(["3", "4", "1", "9"])})
    assert joined.ids.tolist() == [1, 3, 4]
    flat = RunScores(np.arange(4), np.ones(4), np.arange(4.0), np.zeros(4, bool))
    joined = consensus({"a": flat, "b": run_scores([0, 1, 2, 3])})
    assert joined.information_agreement is None and joined.issue_agreement is not None
    assert np.isnan(joined.reliability) and (joined.rank[0] == 0.5).all()


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ({"a": [1, 2, 3]}, "two runs or more"),
        ({"a": [1, 2, 3], "b": [1, 2, 7]}, "they share 2"),
        ({"a": [1, 2, 3], "b": ["x", "y", "z"]}, "b has x, y, z"),
        ({"a": [1, 2, 2, 3], "b": [1, 2, 3]}, "a has one twice"),
    ],
)
def test_refusals(runs, message):
    with pytest.raises(DataError, match=message):
        consensus({name: run_scores(ids) for name, ids in runs.items()})
