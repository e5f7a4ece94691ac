"""`datassay.assay`: data in memory, any model, the same files as `datassay run`."""

import json
import re
from datetime import UTC, datetime
from html import unescape
from urllib.error import HTTPError, URLError
from urllib.request import urlopen
from uuid import UUID
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.naive_bayes import GaussianNB
from torch import nn

import datassay as da
from datassay.act.review.decisions import Decision, Decisions
from datassay.commands.corrected import correct_data
from datassay.commands.finished import finished_run, sets_of
from datassay.commands.run import job
from datassay.commands.run.labels import to_check
from datassay.commands.run.steps import budget
from datassay.errors import DataError, ModelError, SettingError
from datassay.results import Plotted
from datassay.score import label_issues
from helpers.command_line import listed, succeed
from helpers.same_samples import same_samples

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
EVIL = "<script>alert(1)</script>"
Y = np.where(X[:, 0] > 0, EVIL, "fine")
Y[:4] = np.where(Y[:4] == EVIL, "fine", EVIL)


class Pairs(torch.utils.data.Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, i):
        return torch.tensor(X[i]), int(Y[i] == EVIL)


def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"a": X[:, 0], "kind": Y, "b": X[:, 1]}, [f"r{i}" for i in range(60)])


def odd_frame():
    pandas = pytest.importorskip("pandas")
    odd = {
        "cut": pandas.cut(pandas.Series(X[:, 2]), 3).array,
        "key": [UUID(int=i) for i in range(60)],
    }
    return frame().assign(**odd, month=pandas.period_range("2020-01", periods=60, freq="M"), z=1j)


def table():
    return pa.table({"key": [f"k{i}" for i in range(60)], "a": X[:, 0], "y": Y, "b": X[:, 1]})


@pytest.fixture(scope="module")
def plain():
    return da.assay((X, Y), model="linear", budget=0)


@pytest.fixture(scope="module")
def wine():
    return da.assay("wine", model="linear", budget=0, seed=3)


def test_it_is_the_job_of_the_command(wine, tmp_path):
    wine.save(tmp_path / "here")
    succeed(
        "run", "wine", "--model", "linear", "--budget", 0, "--seed", 3, "--out", tmp_path / "there"
    )
    assert listed(tmp_path / "here") == listed(tmp_path / "there")
    for name in ("scores.parquet", "attribution.parquet"):
        here, there = (pq.read_table(tmp_path / position / name) for position in ("here", "there"))
        assert here.equals(there, check_metadata=True)
    summaries = [json.loads((tmp_path / p / "summary.json").read_text()) for p in ("here", "there")]
    assert summaries[0]["origin"] == summaries[1]["origin"]


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (frame, {"target": "kind"}),
        (odd_frame, {"target": "kind"}),
        (table, {"target": "y", "ids": "key", "val_fraction": 0.25}),
        (lambda: (X, Y), {"ids": np.arange(60) + 100}),
        (lambda: (X[:50], Y[:50]), {"val": (X[50:], Y[50:])}),
        (Pairs, {}),
    ],
    ids=["pandas", "odd types", "Arrow", "arrays", "parts", "Dataset"],
)
def test_data_from_memory_are_kept_beside_the_results(data, options, tmp_path):
    assayed = da.assay(data(), model="linear", budget=0, **options)
    assayed.save(tmp_path / "out")
    run = finished_run(tmp_path / "out")
    train, val = sets_of(run)
    same_samples(train, assayed.findings.samples)
    assert (val is None) == (assayed.findings.validation is None)
    if val is not None:
        same_samples(val, assayed.findings.validation)
    assert run.scores["id"].to_pylist() == train.ids.tolist()
    succeed(
        "export", tmp_path / "out", "--to", "label-studio", "--top", 5, "--out", tmp_path / "ls"
    )
    tasks = json.loads((tmp_path / "ls" / "tasks.json").read_text())
    assert {task["data"]["sample_id"] for task in tasks} <= set(train.ids.tolist())


def test_a_saved_folder_may_move(plain, tmp_path):
    plain.save(tmp_path / "first")
    (tmp_path / "first").rename(tmp_path / "second")
    with pytest.raises(DataError, match=r"is not there\. Name it with --data"):
        sets_of(finished_run(tmp_path / "second"))
    train, _ = sets_of(finished_run(tmp_path / "second"), str(tmp_path / "second" / "data.npz"))
    same_samples(train, plain.findings.samples)


def test_samples_that_load_gave_are_taken_as_they_are(tmp_path):
    train, val = da.load((X, Y), seed=2)
    assayed = da.assay((train, val), model="linear", budget=0)
    assert assayed.findings.samples is train and assayed.findings.validation is val
    assayed.save(tmp_path)
    assert not [name for name in listed(tmp_path) if name.startswith("data.")]
    with pytest.raises(DataError, match="came from memory as SampleSets"):
        sets_of(finished_run(tmp_path))
    with pytest.raises(DataError, match="Give assay what load was given"):
        assayed.view(tmp_path)  # decisions are about data that can be found again
    alone = da.assay((train, None), model="linear", budget=0)
    assert alone.findings.validation is None


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def forward(self, x):
        return self.layers(x)


def test_a_network_is_taken_and_stays_as_it_is():
    network = Wide()
    before = [p.detach().clone() for p in network.parameters()]
    few = (X[:39], Y[:39])  # of more, other models judge labels, too
    assayed = da.assay(few, model=network, budget=0)
    assert assayed.findings.facts["Model"].startswith("Wide, 21 parameters")
    assert all(torch.equal(p, b) for p, b in zip(network.parameters(), before, strict=True))
    train, val = da.load(few, val_fraction=0)
    alone = label_issues(da.collect(network, train, val)).score
    np.testing.assert_allclose(assayed.findings.issues.score, alone)


@pytest.mark.parametrize(
    "model", [pytest.param(Wide, marks=pytest.mark.slow), Wide()], ids=["function", "network"]
)
def test_actions_train_the_network_that_was_given(monkeypatch, model):
    monkeypatch.setattr(budget, "SECONDS", 0.2)
    monkeypatch.setattr("datassay.train.recipe.FEWEST_UPDATES", 20)
    x = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    assayed = da.assay((x, (x[:, 0] > 0).astype(int)), model=model, val_fraction=0)
    assert assayed.actions.model in {"Wide", "your network"}
    assert "retrained" in {row.how for row in assayed.actions.actions}


@pytest.mark.parametrize(("seconds", "times"), [(None, 0), (0, 0), (2, 1)])
def test_the_machine_is_timed_once_and_only_for_a_budget(monkeypatch, seconds, times):
    timed = []
    monkeypatch.setattr(job, "slowness", lambda *_: timed.append(0) or 1.0)
    monkeypatch.setattr(budget, "SECONDS", 1.0)
    da.assay((X, Y), model="linear", budget=seconds)
    assert len(timed) == times


def test_a_function_makes_the_same_network_for_the_same_seed():
    scores = [
        da.assay((X, Y), model=make, budget=0, seed=seed).findings.information.information
        for make, seed in ((Wide, 0), (lambda: Wide(), 0), (Wide, 1))
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.allclose(scores[0], scores[2])


@pytest.mark.parametrize("model", [GaussianNB(), GaussianNB])
def test_an_estimator_judges_the_labels(model):
    assayed = da.assay("breast_cancer", model=model, budget=0)
    assert assayed.findings.facts["Your model"].startswith("GaussianNB: it scores")
    assert assayed.findings.issues.judge.startswith("GaussianNB")


def test_frames_join_the_users_own():
    assayed = da.assay(frame(), target="kind", model="linear", budget=0)
    joined = frame().join(assayed.scores["wrong_probability"])
    assert joined["wrong_probability"].notna().all()
    suspects = assayed.suspects
    assert (
        suspects.index.tolist() == assayed.findings.samples.ids[to_check(assayed.findings)].tolist()
    )
    wrong = assayed.findings.samples.ids[assayed.findings.issues.suspects].tolist()
    assert suspects.index[suspects["list"] == "probably wrong"].tolist() == wrong
    assert list(suspects.columns[:4]) == ["id", "given", "suggested", "list"]
    assert set(suspects.columns[6:]) == {"a", "b"}
    assert suspects["given"].tolist() == frame()["kind"][suspects.index].tolist()


INDICES = {
    "dates": lambda pd: pd.date_range("2020", periods=60, freq="h", tz="Asia/Tokyo")[::-1],
    "floats": lambda pd: pd.Index(RNG.permutation(60) / 4),
    "periods": lambda pd: pd.period_range("2020", periods=60, freq="D"),
    "UUIDs": lambda pd: pd.Index([UUID(int=int(i)) for i in RNG.permutation(60)]),
    "spans": lambda pd: pd.to_timedelta(RNG.permutation(60), unit="s"),
    "intervals": lambda pd: pd.interval_range(0, 60),
    "bytes": lambda pd: pd.Index([b"k%d" % i for i in range(60)]),
    "levels": lambda pd: pd.MultiIndex.from_product([range(6), list("abcdefghij")]),
    "numbers": lambda pd: pd.Index(RNG.permutation(60) + 5),
    "counted": lambda pd: pd.RangeIndex(60),
}


@pytest.mark.parametrize(
    ("kind", "ids"),
    [*((kind, None) for kind in INDICES), ("dates", "person"), ("numbers", "person")],
)
def test_scores_join_a_frame_of_any_index(kind, ids):
    pandas = pytest.importorskip("pandas")
    columns = {"a": X[:, 0], "b": X[:, 1], "person": RNG.permutation(60), "label": Y}
    own = pandas.DataFrame(columns, INDICES[kind](pandas))
    own.iloc[7, 3] = None  # a row without a target has no scores
    found = da.assay(own, target="label", ids=ids, model="linear", budget=0)
    assert found.scores.index.equals(own.index.delete(7))
    joined = own.join(found.scores)
    assert len(joined) == 60 and joined["class_name"].isna().tolist() == [i == 7 for i in range(60)]
    known = joined[np.arange(60) != 7]
    assert (known["label"] == known["class_name"]).all()
    assert {"label (scores)", "id"} <= set(joined.columns)
    if ids:
        assert (known["person"] == known["id"].astype(float)).all()


def test_warnings_are_the_same_wherever_they_are_said(tmp_path):
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": [None, *Y[1:].tolist()]})
    found = da.assay(table, model="linear", budget=0)
    assert found.warnings == found.findings.warnings and len(found.warnings) >= 2
    assert found.warnings[0] == "No target was named: the column called 'y' is predicted."
    assert found.warnings[1].startswith("1 of 60 rows has no target ('y') and is left out: row 0,")
    page, shown = unescape(found.save(tmp_path).read_text()), unescape(found._repr_html_())
    for warning in found.warnings:
        assert all(warning in text for text in (page, shown, str(found)))
    assert json.loads((tmp_path / "summary.json").read_text())["warnings"] == [*found.warnings]


def test_arrays_are_scored_in_full_and_what_is_held_out_is_told(wine, plain):
    assert len(plain.scores) == 60 and plain.findings.validation is None
    assert len(da.assay((X, Y), model="linear", budget=0, val_fraction=0.2).scores) == 48
    (warning,) = (w for w in wine.warnings if "held out" in w)
    assert warning.startswith("36 of 178 samples are held out to judge by and get no scores")


def test_several_labels_of_suspects_are_named_and_differ():
    rng = np.random.default_rng(0)
    x, names = rng.normal(size=(150, 4)), [f"tag {c}" for c in "abcdef"]
    y = (x @ rng.normal(size=(4, 6)) > 0).astype(int)
    y[np.arange(20), rng.integers(0, 6, 20)] ^= 1
    columns = {f"u{i}": x[:, i] for i in range(4)} | dict(zip(names, y.T, strict=True))
    found = da.assay(pa.table(columns), target=names[::-1], model="linear", budget=0)
    suspects = found.suspects
    assert len(suspects) and (suspects["given"] != suspects["suggested"]).all()
    for row, given in suspects["given"].items():
        assert given == (" + ".join(n for n in names[::-1] if columns[n][row]) or "none")
    when = datetime(2026, 11, 23, tzinfo=UTC)
    decided = [Decision(row, "relabel", given, suspects["suggested"][row], when)
               for row, given in suspects["given"].items()]  # fmt: skip
    made = correct_data(found.user_data, found.findings.samples, Decisions(tuple(decided)))
    for row, names_now in suspects["suggested"].items():
        now = " + ".join(n for n in names[::-1] if made[n][row].as_py()) or "none"
        assert now == names_now
    assert made.drop_columns(names) == pa.table(columns).drop_columns(names)


def test_a_notebook_shows_texts_as_texts(plain):
    shown = plain._repr_html_()
    assert "<script" not in shown
    assert "of 60 labels" in shown


def test_the_page_is_that_of_the_folder(wine, tmp_path):
    path = wine.save(tmp_path)
    text = path.read_text(encoding="utf-8")  # which names the folder that it lies in
    assert wine.page() == text.replace(str(tmp_path), "report")


@pytest.mark.parametrize(
    ("data", "model", "error", "words"),
    [
        ((X, Y), 3, ModelError, "model must be a name, .* got a int"),
        ((X, Y), lambda: 3, ModelError, "must give a torch.nn.Module; got int"),
        ((X, Y), "nothing", ModelError, "got 'nothing'"),
        ({"x": X}, "linear", DataError, "got a dict"),
    ],
)
def test_bad_input_is_told_in_one_line(data, model, error, words):
    with pytest.raises(error, match=words) as reported:
        da.assay(data, model=model, budget=0)
    assert "\n" not in str(reported.value)


def test_a_review_is_served_until_it_is_stopped(plain, tmp_path):
    review = plain.view(tmp_path)
    page = review.url.partition("#")[0]
    with urlopen(page) as answer:
        assert b"datassay" in answer.read()
    with pytest.raises(HTTPError) as refused:
        urlopen(page.partition("?")[0])
    refused.value.close()
    assert refused.value.code in {401, 403}
    assert review.url in unescape(review._repr_html_())
    assert len(review.decisions) == 0
    review.stop()
    with pytest.raises(URLError):
        urlopen(page)


def test_the_answer_is_the_table_of_acts(monkeypatch):
    monkeypatch.setattr(budget, "SECONDS", 0.5)
    assayed = da.assay("wine", model="linear", seed=1)
    table = assayed.actions.to_table()
    assert assayed.acts is assayed.actions
    lines = str(assayed).splitlines()
    assert lines[1].startswith("Warning: 36 of 178 samples are held out")
    assert 4 <= len(lines) <= 6 and ".scores" in lines[-1] and " to " in lines[2]
    assert re.fullmatch(
        r"Assay\(wine: 142 samples, \d suspected labels?, next: .*\)", repr(assayed)
    )
    f = assayed.findings
    for one in (assayed, f.issues, f.removal_curve, f.learning_curve, f.information):
        assert one.plot().data
    with pytest.raises(SettingError, match="plot needs numbers; this Plotted holds none"):
        Plotted().plot()
    shown = assayed._repr_html_()
    body = ElementTree.fromstring(re.search("<table>.*?</table>", shown)[0])
    rows = [[cell.text for cell in row] for row in body.find("tbody")]
    # Of what was not measured only what may help is shown.
    pairs = zip(table["words"].to_pylist(), table["how"].to_pylist(), strict=True)
    assert [row[0] for row in rows] == [words for words, how in pairs if how == "retrained"]
    assert {"drop", "reweight"} <= set(table["kind"].to_pylist())
    assert len(body.find("thead")[0]) == 4
