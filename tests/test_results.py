"""Results: what is printed of them, their columns, and the same values again from a file."""

import ast
import json
import pickle
import sys
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import datassay as da
from datassay.act import KeepSet, Reweighted, sample_weights
from datassay.errors import DataError, SettingError
from datassay.results import (
    Meaning,
    Tabular,
    column,
    columns_of,
    field_names,
    meaning_of,
    result,
    sample_ids,
    table_of,
)
from datassay.saving import KEY
from datassay.score import SampleInformation


@result
class Part:
    """Within another."""

    matrix: np.ndarray
    weight: torch.Tensor


@result
class Whole(Tabular):
    """Of every kind of value that is kept."""

    ids: np.ndarray
    rows: np.ndarray
    wide: np.ndarray
    words: np.ndarray
    parts: tuple[Part, ...]
    by_name: dict
    number: float
    scalar: np.float64
    nothing: Part | None
    table: pa.Table

    def to_table(self) -> pa.Table:
        """The ids and the rows."""
        return pa.table({"id": self.ids, "row": self.rows})


def whole(n=4, ids=None):
    part = Part(np.eye(3, dtype=np.float32), torch.arange(2, dtype=torch.int32))
    rows = np.where(np.arange(n) == 1, np.nan, np.linspace(0, 1 / 3, n))
    return Whole(
        np.array([f"<b>{i}" for i in range(n)]) if ids is None else ids, rows,
        np.arange(n * 6).reshape(n, 2, 3) > 4, np.array(["a", "ü"], dtype=object), (part, part),
        {2: 0.5, "x": (1, None), "y": rows}, float("inf"), np.float64(0.1), None,
        pa.table({"row": rows}),
    )  # fmt: skip


# What is printed. ---------------------------------------------------------------------------


def test_arrays_are_told_by_type_and_shape_and_long_texts_are_cut():
    assert repr(Part(np.eye(3), torch.zeros(4))) == "Part(matrix=float64[3, 3], weight=float32[4])"
    reported = repr(
        replace(whole(), number="few", scalar=np.array(7), parts=(np.zeros(1), np.eye(2)))
    )
    for some in ("wide=bool[4, 2, 3]", "parts=tuple of 2", "'y': float64[4]}", "number='few'",
                 "scalar=7", "nothing=None"):  # fmt: skip
        assert some in reported
    reported = repr(replace(whole(), number="line\n" * 100))
    assert "\n" not in reported and "…" in reported
    assert len(reported) < 600


def test_a_result_is_frozen_and_only_equal_to_itself():
    one = whole()
    with pytest.raises(FrozenInstanceError):
        one.number = 1.0
    assert one == one and one != whole()
    assert replace(one, number=2.0).number == 2.0
    assert pickle.loads(pickle.dumps(one)).scalar == 0.1
    assert field_names(one) == field_names(Whole)
    assert field_names(Whole)[:3] == ("ids", "rows", "wide")


def test_what_a_notebook_prints_fits_a_screen():
    train, val = da.load("iris")
    lin = da.collect(da.build_model("mlp:width=8", train), train, val)
    for outcome in (train, lin, da.leave_one_out(lin), da.attribution(lin), da.label_issues(lin)):
        assert len(repr(outcome)) < 1000
        assert "array(" not in repr(outcome) and "tensor(" not in repr(outcome)


@result
class Scored(Tabular):
    """Two columns, one of them under another name in a table of all scores."""

    error: np.ndarray = column("standard error", unit="nats", joint="scored_error")
    group: np.ndarray = column(
        "equal samples", name="number", values=lambda one: pa.array(one.group, mask=one.group < 0)
    )
    several: np.ndarray = column("outputs", sign="high: surer", joint="")
    ids: np.ndarray = sample_ids()
    total: float = 0.0


def test_a_result_declares_its_columns_once():
    ids = np.array(["a", "b"])
    one = Scored(np.array([0.5, 2.0]), np.array([-1, 3]), np.eye(2), ids)
    table = one.to_table()
    assert table.to_pylist() == [
        {"id": "a", "error": 0.5, "number": None, "several": [1.0, 0.0]},
        {"id": "b", "error": 2.0, "number": 3, "several": [0.0, 1.0]},
    ]
    assert meaning_of(table.schema.field("error")) == Meaning("standard error", "nats")
    assert list(columns_of(Scored)) == table.column_names
    assert list(columns_of(Scored, joint=True)) == ["id", "scored_error", "number"]
    both = table_of(one, None, replace(one, error=np.zeros(2)), joint=True)
    assert both["scored_error"].to_pylist() == [0.5, 2.0]  # of the first that has it


# Columns that are their field in another form; every other one is its field as it is.
IN_ANOTHER_FORM = {
    "Attribution.effect": "effects[is_kept]", "Partition.responsibility": "of_block",
    "Purification.removed": "step > 0", "RemovalCurve.score": "self.score[ranking, fraction, seed]",
    "Retrained.held_out": "self.held_out.tolist()",
    "Robustness.corruption": "np.repeat(np.array([self.corruption]), m * n_levels)",
    "SampleComplexity.n_doubled": "or_null(self.n_doubled)",
    "SampleComplexity.n_inputs": "np.full(n, self.n_inputs)",
    "SampleComplexity.n_opt": "or_null(self.n_opt)",
    "SampleComplexity.width": "np.full(n, self.width)",
    "TrustCheck.ceiling": "[self._ceiling(question).value for question in self.question]",
}  # fmt: skip


def test_a_column_named_as_a_field_is_that_field():
    found = {}
    for file in Path(da.__file__).parent.rglob("*.py"):
        for kind in (n for n in ast.walk(ast.parse(file.read_text())) if type(n) is ast.ClassDef):
            names = {n.target.id for n in kind.body if type(n) is ast.AnnAssign}
            tables = [n for n in kind.body if getattr(n, "name", "") == "to_table"]
            for made in (n for one in tables for n in ast.walk(one) if type(n) is ast.Dict):
                for key, value in zip(made.keys, made.values, strict=True):
                    name, text = getattr(key, "value", None), ast.unparse(value)
                    if name in names and text != f"self.{name}":
                        found[f"{kind.name}.{name}"] = text
    assert found == IN_ANOTHER_FORM


def test_pandas_gets_the_ids_as_its_index(monkeypatch):
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame({"a": [1, 2, 3]}, index=["x", "y", "z"])
    outcome = SampleInformation(np.array([3.0, 1.0]), np.array(["z", "x"]), "functional", 1.0)
    joined = rows.join(outcome.to_pandas())
    assert joined["information"].to_dict() == pytest.approx(
        {"x": 1, "y": np.nan, "z": 3}, nan_ok=True
    )
    assert list(whole().table.to_pandas().columns) == ["row"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SettingError, match="run pip install pandas"):
        outcome.to_pandas()


def test_a_notebook_shows_a_few_rows_escaped():
    reported = whole(12)._repr_html_()
    assert reported.count("<tr>") == 11 and "&lt;b&gt;9" in reported and "<b>" not in reported
    assert "Whole: 12 rows, the first 10 shown" in reported and "<td>0.2727</td>" in reported


# In files. ----------------------------------------------------------------------------------


def same(a, b) -> bool:
    """Type for type and value for value; NaN is itself."""
    if is_dataclass(a):
        return type(a) is type(b) and all(
            same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a)
        )
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, np.ndarray | np.generic):
        alike = type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
        return alike and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, pa.Table):
        return str(a.to_pydict()) == str(b.to_pydict())
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("one", [whole(), whole(0, np.zeros(0, np.int64)), whole(3)])
def test_every_kind_of_value_comes_back(one, tmp_path):
    one.save(tmp_path / "whole")
    assert same(one, Whole.load(tmp_path / "whole"))
    assert [p.name for p in tmp_path.iterdir()] == ["whole"]


def scored():
    train = da.load("iris")[0].subset(np.arange(0, 120, 4))
    lin = da.collect(da.build_model("mlp:width=8", train), train, train)
    yield from (da.sample_information(lin), da.label_issues(lin), da.leave_one_out(lin))
    yield from (da.attribution(lin), da.summarize(lin, 0.5))
    yield da.partition(nn.Linear(4, 3), train, n_blocks=1, restarts=1)
    yield sample_weights(train.x, train.y)


def test_results_come_back_as_they_were(tmp_path):
    for i, outcome in enumerate(scored()):
        outcome.save(tmp_path / f"{i}.parquet")
        assert same(outcome, type(outcome).load(tmp_path / f"{i}.parquet"))
        table = pq.read_table(tmp_path / f"{i}.parquet")
        shown = outcome.to_table()
        assert table.select(shown.column_names).to_pydict() == shown.to_pydict()


def test_a_table_holds_nothing_twice(tmp_path):
    SampleInformation(np.arange(3.0), np.arange(3), "functional", 1.0).save(tmp_path / "one")
    assert pq.read_table(tmp_path / "one").column_names == ["id", "information"]


def test_only_what_was_saved_is_loaded(tmp_path):
    kept = KeepSet(np.arange(2), np.arange(2), np.arange(2), False)
    kept.save(tmp_path / "kept")
    with pytest.raises(DataError, match=r"must hold a Whole; it holds a KeepSet\. Load it with"):
        Whole.load(tmp_path / "kept")
    pq.write_table(kept.to_table(), tmp_path / "table")
    (tmp_path / "text").write_text("id")
    for name in ("table", "text"):
        with pytest.raises(DataError, match="is none"):
            KeepSet.load(tmp_path / name)
    with pytest.raises(DataError, match="there is no file"):
        KeepSet.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("change", "predicted"),
    [
        (lambda head: head.update(format=0), "must be of this version"),
        (lambda head: head["fields"].pop("removed"), "must be of this version"),
        (lambda head: head["fields"]["keep"]["array"].update(dtype="|O"), "is damaged"),
        (lambda head: head["fields"]["keep"]["array"].update(shape=[9]), "is damaged"),
        (lambda head: head["fields"]["keep"]["array"].update(column="else"), "is damaged"),
        (lambda head: head["fields"].update(keep={"class": "Path", "fields": {}}), "is damaged"),
        (lambda head: head["fields"].update(keep={}), "is damaged"),
    ],
)
def test_a_changed_file_is_told(change, predicted, tmp_path):
    KeepSet(np.arange(2), np.arange(2), np.arange(2), False).save(tmp_path / "kept")
    table = pq.read_table(tmp_path / "kept")
    head = json.loads(table.schema.metadata[KEY])
    change(head)
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(head)}), tmp_path / "kept")
    with pytest.raises(DataError, match=predicted):
        KeepSet.load(tmp_path / "kept")


def test_nothing_else_is_replaced_and_nothing_half_written(tmp_path, monkeypatch):
    one = whole()
    (tmp_path / "mine.csv").write_text("id,y")
    with pytest.raises(SettingError, match="must be new or a saved result"):
        one.save(tmp_path / "mine.csv")
    with pytest.raises(SettingError, match="must be writable"):
        one.save(tmp_path / "no folder" / "one")
    one.save(tmp_path / "one")
    one.save(tmp_path / "one")
    monkeypatch.setattr(pq, "write_table", lambda table, path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        one.save(tmp_path / "one")
    assert same(one, Whole.load(tmp_path / "one"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.csv", "one"]


def test_what_holds_a_network_is_refused(tmp_path):
    model = nn.Linear(2, 1)
    outcome = Reweighted(model, np.ones(1), np.arange(1), "", 2, "R²", 0.0, 0.0, 0)
    with pytest.raises(SettingError, match=r"Reweighted\.model is a Linear"):
        outcome.save(tmp_path / "one")
    assert not list(tmp_path.iterdir())
