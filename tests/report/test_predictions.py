"""Which predictions a page explains, and what it says of each."""

from dataclasses import replace

import numpy as np
import pytest

from datassay.collect.curvature.output_loss import predicted_class
from datassay.commands.run.gallery import predictions
from datassay.report.predictions import (
    N_CLOSE,
    N_QUERIES,
    N_WRONG,
    chosen_queries,
    effect_words,
    query_data,
    query_note,
)
from helpers.findings import digit_samples, make_findings, regression_samples, row_samples


def two_classes():
    samples = row_samples()
    return replace(samples, y=(samples.y > 0).astype(np.int64), class_names=("no", "yes"))


def with_outputs(found, outputs):
    return replace(found, query_outputs=outputs)


def test_wrong_predictions_come_first_then_close_ones_then_some_at_random():
    result = make_findings()
    noise = np.random.default_rng(3).normal(0, 0.2, (500, 10))
    result = with_outputs(result, result.query_outputs + noise)
    positions, margin = chosen_queries(predictions(result)), predictions(result).margin
    wrong = result.query_outputs.argmax(1) != result.validation.y
    assert N_WRONG < wrong.sum()
    assert np.array_equal(wrong, margin < 0)
    assert len(set(positions.tolist())) == len(positions) == N_QUERIES
    assert wrong[positions[:N_WRONG]].all()
    assert margin[positions[:N_WRONG]].tolist() == np.sort(margin)[:N_WRONG].tolist()
    right = np.sort(margin[~wrong])[:N_CLOSE].tolist()
    assert margin[positions[N_WRONG : N_WRONG + N_CLOSE]].tolist() == right
    note = query_note(predictions(result))
    assert note.startswith("60 of 500 validation samples can be picked: the 30 furthest off of ")
    assert "then the 15 of smallest margin among those predicted rightly, then others" in note


def test_a_small_validation_set_is_explained_whole():
    samples = digit_samples(40)
    result = make_findings(samples)
    result = with_outputs(result, np.eye(10)[samples.y])
    assert sorted(chosen_queries(predictions(result))) == list(range(40))
    note = query_note(predictions(result))
    assert note.startswith("All 40 validation samples can be picked: the 15 of smallest margin ")
    assert note.endswith("None is predicted wrongly.")


def test_one_output_decides_between_two_classes_at_a_half():
    samples = two_classes()
    outputs = np.where(samples.y == 1, 0.7, 0.2)[:, None]
    outputs[3] = 1 - outputs[3]
    result = with_outputs(make_findings(samples), outputs)
    assert np.array_equal(np.flatnonzero(predicted_class(outputs) != samples.y), [3])
    assert chosen_queries(predictions(result))[0] == 3
    query = query_data(predictions(result))["queries"][0]
    assert query["wrong"]
    assert {query["label"], query["predicted"]} == {"no", "yes"}
    assert [name for name, _, _ in query["outputs"]] == ["no", "yes"]
    assert effect_words(predictions(result))[1:] == ("Pushed towards yes", "Pushed towards no")


def test_the_samples_of_a_query_are_those_of_the_attribution():
    result = make_findings()
    data, top = query_data(predictions(result)), result.attribution.top
    for query, i in zip(data["queries"], chosen_queries(predictions(result)), strict=True):
        raised = [data["samples"][position] for position, _ in query["raised"]]
        assert [s["id"] for s in raised] == [str(result.samples.ids[p]) for p in top.raising[i]]
        lowered = [data["samples"][index] for index, _ in query["lowered"]]
        suspects = result.issues.is_issue[top.lowering[i]].tolist()
        assert [s["suspect"] for s in lowered] == suspects
        assert all(effect.startswith("\u2212") for _, effect in query["lowered"])
    ids = [sample["id"] for sample in data["samples"]]
    assert len(ids) == len(set(ids))  # each drawn once


def test_a_sample_that_raises_is_not_listed_as_lowering():
    text = make_findings()
    top = text.attribution.top
    top = replace(top, lowering=top.raising, lowering_effect=top.raising_effect)
    text = replace(text, attribution=replace(text.attribution, top=top))
    assert all(query["lowered"] == [] for query in query_data(predictions(text))["queries"])


def test_a_regression_shows_its_largest_errors_first():
    result = make_findings(regression_samples())
    chosen = chosen_queries(predictions(result))
    error = np.abs(result.query_outputs[:, 0] - result.validation.y)
    assert error[chosen[0]] == error.max()
    assert "of largest error first" in query_note(predictions(result))
    few = predictions(replace(result, validation=result.validation.subset(np.arange(5))))
    few = replace(few, queries=few.queries.subset(np.arange(5)))
    few_note = "All 5 validation samples can be picked: those of largest error first."
    assert query_note(replace(few, outputs=few.outputs[:5])) == few_note
    assert not any(query["wrong"] for query in query_data(predictions(result))["queries"])
    assert effect_words(predictions(result))[0] == "the predicted value"


@pytest.mark.parametrize("of", ["output", "margin", "loss"])
def test_the_words_follow_what_was_attributed(of):
    text = make_findings()
    text = replace(text, attribution=replace(text.attribution, measure=of))
    assert of in effect_words(predictions(text))[0]
