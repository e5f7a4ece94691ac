"""Where each sample came from: read beside it, kept through splits, never a feature."""

import numpy as np
import pytest

import datassay as da
from datassay.data.assemble import _parse_flags
from datassay.errors import DataError

X = np.arange(40, dtype=np.float32).reshape(20, 2)
Y = np.arange(20) % 2
LAB = np.array(["north", "south"])[np.arange(20) // 10]


def labs_of(samples):
    return [LAB[i] for i in samples.ids]


def test_a_split_keeps_the_source_of_each_sample():
    for data in ((X, Y), list(zip(X, Y, strict=True))):
        train, val = da.load(data, source=LAB)
        assert train.source.tolist() == labs_of(train) and val.source.tolist() == labs_of(val)
    assert set(da.load((X, Y), source=np.arange(20) // 10)[0].source) == {"0", "1"}
    assert da.add_label_noise(train, 0.2).source is train.source


def test_archives_name_the_sources_of_both_parts(tmp_path):
    np.savez(tmp_path / "s.npz", x=X, y=Y, x_val=X, y_val=Y, source=LAB, source_val=LAB[::-1])
    train, val = da.load(tmp_path / "s.npz")
    assert train.source.tolist() == LAB.tolist() and val.source.tolist() == LAB[::-1].tolist()


def test_the_column_of_a_table_is_no_feature(tmp_path):
    rows = [f"{a},{b},{lab},{y}" for (a, b), lab, y in zip(X, LAB, Y, strict=True)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,b,lab,y", *rows]))
    train, _ = da.load(path, source="lab")
    assert train.feature_names == ("a", "b") and train.source.tolist() == labs_of(train)
    assert da.load(path)[0].source is None


def test_labels_are_trusted_where_a_word_or_number_says_so():
    given = np.array(["yes", "No", "TRUE", "false", "1", "0", "1.0", "0.0"])
    trusted = [True, False] * 4
    for flags in (given, np.array(trusted), np.array(trusted, int), np.array(trusted, float)):
        assert _parse_flags(flags).tolist() == trusted
    for flags, message in ((given[:1], "all 1 are trusted"), (["maybe"], "got 'maybe'")):
        with pytest.raises(DataError, match=message):
            _parse_flags(np.array(flags))
    assert not _parse_flags(np.zeros(3)).any()


@pytest.mark.parametrize(
    ("data", "source", "message"),
    [
        ((X, Y), LAB[:3], "source must have one entry per sample; got 3 for 20"),
        ((X, Y), np.full(20, 0.5), r"source must be \[n\] strings or integers; got float64"),
        ((X, Y), "lab", "target, ids, source, .* name columns of a table; got a tuple"),
        ("t.csv", "lab", r"source must name a column of .*t\.csv; got 'lab'"),
        ("digits", "lab", "target, ids, source, .* name columns"),
        ("t.csv", "a", "at least one feature besides ids, source, trusted, groups and time"),
    ],
)
def test_what_is_refused(data, source, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,y\n1,0\n2,1\n3,0\n")
    with pytest.raises(DataError, match=message):
        da.load(data, source=source)
