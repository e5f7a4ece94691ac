"""Scores are computed after those they need, and give a value per sample."""

from dataclasses import replace

import numpy as np
import pytest

import datassay as da
from datassay.errors import SettingError
from datassay.results import column, result, sample_ids
from datassay.score.information.average import average_information
from datassay.score.labels.judges import further_judges
from datassay.score.registry import Context, Score, compute_scores, scores


@result
class Values:
    """A number per sample."""

    value: np.ndarray = column("a number")
    ids: np.ndarray = sample_ids()


@pytest.fixture(scope="module")
def context():
    train, val = da.load("iris")
    lin = da.collect(da.build_model("mlp:width=8", train), train, val)
    return Context(lin=lin, train=train, val=val)


def score(name, *needs, change=lambda values: values):
    def compute(context):
        assert context.results.keys() >= set(needs)
        return change(Values(np.arange(len(context.train)), context.train.ids))

    return Score(name=name, help=f"{name}.", compute=compute, needs=needs)


def test_the_built_in_scores_are_what_the_functions_give(context):
    results = compute_scores(scores(), context)
    loo = da.leave_one_out(context.lin)
    assert np.array_equal(results["removals"].leave_one_out.held_out, loo.held_out)
    judges = further_judges(context.train, context.seed, most_splits=1)
    issues = da.label_issues(context.lin, pred_probs=[*judges.values()])
    assert np.array_equal(results["label_issues"].score, issues.score)
    assert results["influence"].ridge == issues.ridge
    assert results["average_information"] is None  # none unless asked for
    subsets = replace(context, options={"subsets": 8, "smoothing": "isotropic"}, results=results)
    average = compute_scores([s for s in scores() if s.name == "average_information"], subsets)
    expected = average_information(context.lin, draws=8, smoothing="isotropic")
    assert np.array_equal(average["average_information"].information, expected.information)


def test_scores_come_after_those_they_need(context):
    chain = [score("last", "middle"), score("middle", "first"), score("first")]
    results = compute_scores(chain, context)
    assert list(results) == ["last", "middle", "first"]


@pytest.mark.parametrize(
    ("needs", "change", "message"),
    [
        (("absent",), None, "the score one needs absent, which is not"),
        (("one",), None, "the score one needs one, which is not"),
        (
            (),
            lambda values: replace(values, ids=values.ids[::-1].copy()),
            "must give a value per sam",
        ),
        (
            (),
            lambda values: Values(values.value[:-1], values.ids[:-1]),
            "must give a value per sam",
        ),
    ],
)
def test_what_is_refused(context, needs, change, message):
    with pytest.raises(SettingError, match=message):
        compute_scores([score("one", *needs, change=change or (lambda values: values))], context)
