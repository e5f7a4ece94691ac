"""Files of decisions: what is written is read again, from Parquet and from a page's JSON."""

import json
from dataclasses import asdict, astuple, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datassay.act.review.decisions import (
    METADATA,
    Decision,
    Decisions,
    journal_line,
    read_decisions,
)
from datassay.errors import DataError
from datassay.store.journal import add

WHEN = datetime(2026, 11, 23, 9, 0, 0, 250_000, tzinfo=UTC)


def some(ids=(7, 2**62 + 1)):
    made = (
        Decision(ids[0], "relabel", "cat", "<b>dog", WHEN, 0.75),
        Decision(ids[1], "keep", "dog", "", WHEN),
    )
    return Decisions(made, "abc", "pets", ("cat", "<b>dog"), {"target": "animal"})


def page_json(decisions):
    """As the page's script downloads them: ids as texts, which lose no digit."""
    rows = [{**row, "id": str(row["id"]), "when": row["when"].isoformat()}
            for row in decisions.to_table().to_pylist()]  # fmt: skip
    about = {"digest": decisions.digest, "name": decisions.name}
    about |= {"class_names": list(decisions.class_names), "inputs": decisions.inputs}
    about["integer_ids"] = isinstance(decisions.decisions[0].id, int)
    return {"datassay.decisions": about, "decisions": rows}


def write(decisions, path):
    if path.suffix == ".json":
        path.write_text(json.dumps(page_json(decisions)), encoding="utf-8")
    else:
        pq.write_table(decisions.to_table(), path)
    return path


@pytest.mark.parametrize("ids", [(7, 2**62 + 1), ("7", "b")], ids=["numbers", "texts"])
@pytest.mark.parametrize("name", ["decisions.parquet", "decisions.json"])
def test_what_is_written_is_read(tmp_path, name, ids):
    read = read_decisions(write(some(ids), tmp_path / name))
    assert read.to_table().equals(some(ids).to_table(), check_metadata=True)
    assert read.decisions[0].when == WHEN and read.decisions[0].seen_score == 0.75


def read_rows(path):
    return [*map(astuple, read_decisions(path).decisions)]


def test_the_journal_goes_on_from_its_file_and_from_no_other(tmp_path):
    path, rng = write(some(), tmp_path / "decisions.parquet"), np.random.default_rng(0)
    expected = {row.id: row for row in some().decisions}
    for step in range(25):
        changes = {}
        for name in rng.choice([7, 8, 9, 2**62 + 1], rng.integers(1, 3), replace=False).tolist():
            when = WHEN + timedelta(seconds=step)
            row = Decision(name, "remove", "cat", "", when, step / 25, "me" * (step % 2))
            changes[name] = row if rng.random() < 0.6 else None
        add(path, journal_line(changes.items()))
        for name, row in changes.items():
            expected.pop(name, None)
            expected |= {name: row} if row else {}
        assert read_rows(path) == [*map(astuple, expected.values())]
    write(replace(some(), decisions=tuple(expected.values())), path)  # killed before it was removed
    assert read_rows(path) == [*map(astuple, expected.values())]
    write(some((5, 6)), path)
    with pytest.raises(
        DataError, match=r"the file that decisions\.parquet\.journal was begun with"
    ):
        read_decisions(path)


def test_a_line_of_the_journal_is_a_decision_or_that_it_was_taken_back():
    (made, taken) = journal_line([(7, some().decisions[0]), ("b", None)])
    assert taken == {"id": "b", "decision": None}
    assert made == asdict(some().decisions[0]) | {"when": str(WHEN)}


def with_row(row):
    whole = page_json(some())
    whole["decisions"][1] |= row
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("text", "message"),
    [(text, r"decisions\.json") for text in (
        "", "{", "[]", "1", "null", '{"decisions": []}', '{"datassay.decisions": {}}',
        '{"datassay.decisions": {}, "decisions": [1]}',
        '{"datassay.decisions": {"integer_ids": true}, "decisions": [{"id": "x"}]}',
    )] + [
        (with_row({"decision": "burn"}), "must decide relabel, keep, remove, unsure"),
        (with_row({"decision": "relabel", "label": None}), "with a label where it is relabel"),
        (with_row({"label": "cat"}), "with a label where it is relabel"),
    ],
)  # fmt: skip
def test_another_json_is_refused_by_name(tmp_path, text, message):
    path = tmp_path / "decisions.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_decisions(path)


def test_a_json_larger_than_any_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("datassay.act.review.decisions.LARGEST", 9)
    with pytest.raises(DataError, match="larger than one can"):
        read_decisions(write(some(), tmp_path / "decisions.json"))


def test_a_file_of_no_decisions_or_of_no_data(tmp_path):
    assert read_decisions(write(Decisions(()), tmp_path / "none.parquet")).decisions == ()
    pq.write_table(some().to_table().replace_schema_metadata(None), tmp_path / "d.parquet")
    read = read_decisions(tmp_path / "d.parquet")
    assert (read.digest, read.class_names, read.inputs) == ("", (), {})


def test_what_pandas_writes_of_what_it_read_is_read(tmp_path):
    table = some().to_table()
    again = pa.Table.from_pandas(table.to_pandas(), preserve_index=False)
    metadata = again.schema.metadata | table.schema.metadata
    pq.write_table(again.replace_schema_metadata(metadata), tmp_path / "d.parquet")
    assert read_rows(tmp_path / "d.parquet") == [*map(astuple, some().decisions)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns("given"), "must have the columns .*it lacks given"),
        (lambda t: t.set_column(0, "id", [["a", None]]), "which id, .*; got None"),
        (lambda t: t.set_column(4, "when", [[1, 2]]), "which id, when, .*; got 7, 1"),
        (lambda t: t.replace_schema_metadata({METADATA: b"{"}), "cannot be read"),
        *(
            (lambda t, about=about: t.replace_schema_metadata({METADATA: about}), "as a list")
            for about in (b'{"class_names": 5}', b'{"inputs": "x"}')
        ),
        *(
            (lambda t, change=change: t.set_column(*change), "Correct that row")
            for change in (
                (0, "id", [[True, False]]),
                (2, "label", [[1, 2]]),
                (2, "label", [[{"a": 1}] * 2]),
                (3, "given", [[1, 2]]),
                (5, "seen_score", [[7.0, 8.0]]),
            )
        ),
    ],
)
def test_a_table_of_another_kind_is_refused(tmp_path, change, message):
    path = tmp_path / "d.parquet"
    pq.write_table(change(some().to_table()), path)
    with pytest.raises(DataError, match=message):
        read_decisions(path)


def test_a_damaged_file_and_two_decisions_about_one_sample_are_refused(tmp_path):
    path = write(some((7, 7)), tmp_path / "d.parquet")
    with pytest.raises(DataError, match="decide once about a sample; 7 occurs"):
        read_decisions(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="cannot be read"):
        read_decisions(path)
