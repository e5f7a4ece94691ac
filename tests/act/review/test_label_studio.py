"""Label Studio's export, read back as decisions."""

import json
from datetime import UTC, datetime

import pytest

from datassay.act.review.label_studio import read_label_studio
from datassay.errors import DataError

NOON = "2026-01-02T12:00:00.500000Z"


def choice(control, name):
    value = {"choices": [name]}
    return {"from_name": control, "to_name": "sample", "type": "choices", "value": value}


def annotation(*results, index=NOON, **rest):
    return {"id": 7, "result": list(results), "created_at": index, "updated_at": index, **rest}


def task(sample, given, *annotations, digest="d1"):
    data = {"sample_id": sample, "given_label": given, "wrong_probability": 0.9}
    return {"id": 1, "data": {**data, "data_digest": digest}, "annotations": list(annotations)}


def write(folder, *tasks):
    path = folder / "project.json"
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


def test_each_annotation_is_the_decision_that_it_shows(tmp_path):
    number = {"from_name": "label", "type": "number", "value": {"number": 2}}
    path = write(
        tmp_path,
        task("a", "cat", annotation(choice("label", "dog"))),
        task("b", "cat", annotation(choice("label", "cat"))),
        task("c", "cat", annotation(choice("label", "dog"), choice("fate", "remove"))),
        task("d", "cat", annotation(choice("fate", "unsure"))),
        task("e", "cat", annotation(was_cancelled=True)),
        task("f", "cat"),
        task(8, "1.5", annotation(number)),
        task(9, "2", annotation(number)),
    )
    result = read_label_studio(path)
    assert [(one.id, one.decision, one.label) for one in result.decisions] == [
        ("a", "relabel", "dog"), ("b", "keep", ""), ("c", "remove", ""), ("d", "unsure", ""),
        ("e", "unsure", ""), (8, "relabel", "2"), (9, "keep", ""),
    ]  # fmt: skip
    assert result.digest == "d1"
    first = result.decisions[0]
    assert (first.given, first.seen_score) == ("cat", 0.9)
    assert first.when == datetime(2026, 1, 2, 12, 0, 0, 500_000, tzinfo=UTC)


def test_the_latest_annotation_counts_and_decisions_stand_in_the_order_of_time(tmp_path):
    early, late = "2026-01-01T00:00:00+00:00", "2026-01-03T01:00:00+02:00"
    path = write(
        tmp_path,
        task("a", "cat", annotation(choice("label", "cat"), index=late),
             annotation(choice("label", "dog"), index=early)),
        task("a", "cat", annotation(choice("fate", "remove"), index=early)),
        task("b", "cat", annotation(choice("label", "dog"), index=early)),
    )  # fmt: skip
    result = read_label_studio(path)
    assert [(one.id, one.decision) for one in result.decisions] == [("b", "relabel"), ("a", "keep")]


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([{"id": 1, "label": "dog"}], "not JSON-MIN"),
        ([task("a", "cat", "odd")], "not JSON-MIN"),
        (
            [task("a", "cat"), task("b", "cat", digest="d2")],
            "about one data set; it has tasks of 2",
        ),
        ([task("a", "cat", annotation(choice("fate", "burn")))], "sample a has 'burn'"),
        ([task("a", "cat", annotation(index="noon"))], "cannot be read"),
    ],
)
def test_what_is_no_export_of_ours_is_refused(tmp_path, tasks, words):
    with pytest.raises(DataError, match=words):
        read_label_studio(write(tmp_path, *tasks))


def test_a_file_that_is_not_there_or_no_json_is_refused(tmp_path):
    (tmp_path / "broken.json").write_text("[{")
    for name, message in (("none.json", "there is none"), ("broken.json", "cannot be read")):
        with pytest.raises(DataError, match=message):
            read_label_studio(tmp_path / name)
