"""An assay in a notebook: what a cell shows, the corrected data, and what `dir` and `help` show."""

import io
import re
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import datassay as da
from datassay.act.review.decisions import FILE, KEEP, REMOVE, Decision, Decisions
from datassay.commands.assay import Assay
from datassay.commands.display import mark_words, suspects_in_short
from datassay.commands.finished import UserData
from datassay.commands.run.labels import to_check
from datassay.commands.terminal import NotebookProgress, notebook_progress
from datassay.errors import DataError, SettingError
from datassay.progress import silent
from helpers.findings import (
    digit_samples,
    make_findings,
    regression_samples,
    row_samples,
    text_samples,
)

N, LIMIT = 150, 0.5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
TRUTH = np.where(X[:, 0] > 0, "yes", "no")
GIVEN = TRUTH.copy()
WRONG = np.argsort(-np.abs(X[:, 0]))[:6]  # surely wrong
GIVEN[WRONG] = np.where(GIVEN[WRONG] == "yes", "no", "yes")
NOTEBOOK = """
import numpy as np
import pyarrow as pa
import datassay as da

x = np.random.default_rng(0).normal(size=(120, 3))
y = np.where(x[:, 0] > 0, "yes", "no")
y[:12] = np.where(y[:12] == "yes", "no", "yes")
frame = pa.table({"age": x[:, 0], "dose": x[:, 1], "weight": x[:, 2], "answer": y})
found = da.assay(frame, target="answer", model="linear")
found
"""


def shown(findings):
    return Assay(findings, UserData(None, None, {}))._repr_html_()


@pytest.mark.parametrize(
    ("make", "look"),
    [
        (row_samples, "<th style=[^>]*>most unusual values</th>"),
        (digit_samples, '<img src="data:image/png;base64,[^"]+" alt=""'),
        (text_samples, "Report [0-9]+&lt;/b&gt; &amp; so on"),
        (regression_samples, "[0-9]+ targets to review, the 10 most suspect"),
    ],
)
def test_a_cell_shows_the_worst_ten_and_what_they_look_like(make, look):
    findings = make_findings(make())
    html = shown(findings)
    assert re.search(look, html) and "<script" not in html
    assert html.count("<tr>") == 11 and "<b>Report" not in html
    for id_ in findings.samples.ids[to_check(findings)[:10]]:
        assert f">{id_}</th>" in html
    text = unescape(re.sub("<[^>]+>", "", html))
    found = Assay(findings, UserData(None, None, {}))
    assert found.verdict in text and all(w in text for w in found.warnings[:3])
    assert all(way in text for way in (".suspects (", ".review()", ".apply()", ".save('report')"))


def test_many_warnings_are_counted():
    text = shown(make_findings(warnings=tuple(f"warning {i}" for i in range(5))))
    assert "warning 2" in text and "warning 3" not in text and "2 more warnings: .warnings" in text


def test_words_of_the_suggested_class_are_marked():
    texts = np.array(["a bill & more"] * 6 + ["the parcel of <b>"] * 6)
    samples = replace(
        text_samples(12), texts=texts, y=np.repeat([0, 1], 6), class_names=("billing", "delivery")
    )
    marked = mark_words(samples, 0, "parcel and bill & <b>", 1)
    assert re.findall("<mark[^>]*>(.*?)</mark>", marked) == ["parcel"]
    assert marked.endswith("&amp; &lt;b&gt;")
    assert mark_words(samples, 0, "parcel", 0) == "parcel"


def test_nothing_suspect_shows_no_table():
    findings = make_findings(row_samples())
    none = np.zeros(len(findings.samples), bool)
    calm = replace(findings.issues, is_issue=none, worth_a_look=none)
    assert suspects_in_short(replace(findings, issues=calm)) is None


def test_dir_and_help_show_what_a_user_needs():
    names = [
        name for name in dir(Assay(make_findings(), UserData(None, None, {}))) if name[0] != "_"
    ]
    assert names == sorted(
        "actions apply findings page plot review save scores suspects to_dict verdict warnings"
        .split()
    )  # fmt: skip
    with redirect_stdout(io.StringIO()) as text:
        help(da.assay)
    assert len(text.getvalue().splitlines()) <= 45  # a screen and a half of thirty lines
    assert all(getattr(Assay, name).__doc__ for name in names if name not in {"findings"})


def test_a_notebook_shows_how_far_the_work_is():
    lines = []

    class Handle:
        def update(self, line, raw):
            lines.append(line["text/plain"])

    def show(line, raw, display_id):
        lines.append(line["text/plain"])
        return Handle()

    with NotebookProgress(show) as progress:
        progress("leave each sample out", 0, 10)
        progress("leave each sample out", 10, 10)  # within a second
        progress("compare actions", 1, 2)
    assert [line.partition("  ")[0] for line in lines] == [
        "Scoring samples", "Comparing actions", "",
    ]  # fmt: skip
    with notebook_progress() as outside:
        assert outside is silent


# The corrected data. -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pandas_frame():
    pandas = pytest.importorskip("pandas")
    kind = pandas.Categorical(GIVEN, ["no", "yes", "never"])
    return pandas.DataFrame({"kind": kind, "a": X[:, 0], "b": X[:, 1]}, [f"r{i}" for i in range(N)])


def assay(data, **options):
    return da.assay(data, model="linear", budget=0, **options)


def corrected(found):
    """The labels as they must be, and which of them differ from those given."""
    samples, issues = found.findings.samples, found.findings.issues
    y = np.where(issues.probability >= LIMIT, issues.suggested_label, samples.y)
    assert set(WRONG) & set(np.flatnonzero(y != samples.y))
    return np.array(samples.class_names)[y]


def test_a_frame_of_pandas_is_given_back_corrected(pandas_frame, tmp_path):
    found = assay(pandas_frame, target="kind")
    new, right = found.apply(accept_suggested=LIMIT), corrected(found)
    assert (new["kind"].to_numpy() == right).all()
    assert new["kind"].dtype == pandas_frame["kind"].dtype
    assert new.drop(columns="kind").equals(pandas_frame.drop(columns="kind"))
    assert (pandas_frame["kind"].to_numpy() == GIVEN).all()  # yours stays as it is
    # A review's decisions come first.
    kept, gone = (f"r{i}" for i in WRONG[:2])
    now, given = datetime.now(UTC), pandas_frame["kind"]
    decisions = Decisions((
        Decision(kept, KEEP, given[kept], "", now),
        Decision(gone, REMOVE, given[gone], "", now),
    ))
    pq.write_table(decisions.to_table(), tmp_path / FILE)
    decided = found.apply(tmp_path)
    assert decided.equals(pandas_frame.drop(gone))
    both = found.apply(tmp_path, accept_suggested=LIMIT)
    assert both["kind"][kept] == given[kept] and gone not in both.index
    assert (both["kind"].drop(kept).to_numpy() == np.delete(right, WRONG[:2])).all()


@pytest.mark.slow
def test_other_frames_and_arrays_are_given_back_as_they_came():
    polars = pytest.importorskip("polars")
    columns = {"a": X[:, 0], "b": X[:, 1], "kind": GIVEN}
    frame = polars.DataFrame({**columns, "kind": polars.Series(GIVEN).cast(polars.Categorical)})
    found = assay(frame, target="kind")
    new, right = found.apply(accept_suggested=LIMIT), corrected(found).tolist()
    assert new["kind"].to_list() == right and new.schema == frame.schema
    assert new.drop("kind").equals(frame.drop("kind"))
    table = assay(pa.table(columns), target="kind").apply(accept_suggested=LIMIT)
    assert table["kind"].to_pylist() == right and table.schema == pa.table(columns).schema
    found = assay((X, GIVEN))
    x, y = found.apply(accept_suggested=LIMIT)
    assert x.tolist() == X.tolist() and y.tolist() == corrected(found).tolist()
    codes = torch.tensor(GIVEN == "yes").long()
    found = assay((torch.tensor(X), codes))
    x, y = found.apply(accept_suggested=LIMIT)
    assert y.dtype == codes.dtype and y.tolist() == [int(c) for c in corrected(found)]
    assert isinstance(x, torch.Tensor) and x.dtype == torch.float64


def test_targets_are_corrected_as_numbers():
    pandas = pytest.importorskip("pandas")
    x = RNG.normal(size=(120, 3))
    target = np.round(100 * x[:, 0] + 500 + RNG.normal(size=120)).astype(int)
    target[:5] += 5000
    frame = pandas.DataFrame({"a": x[:, 0], "b": x[:, 1], "cost": target})
    found = assay(frame, target="cost")
    new = found.apply(accept_suggested=0.9)
    changed = new["cost"] != frame["cost"]
    assert changed[:5].all() and new["cost"][:5].max() < 1000 and not changed[5:].any()
    polars = pytest.importorskip("polars")
    other = assay(polars.from_pandas(frame), target="cost").apply(accept_suggested=0.9)
    assert other["cost"].to_list() == pytest.approx(new["cost"].tolist())
    _, y = assay((x, target.astype(float))).apply(accept_suggested=0.9)
    assert (y[5:] == target[5:]).all() and y[:5].max() < 1000


def test_what_cannot_be_given_back_is_refused(pandas_frame, tmp_path):
    found = assay(pandas_frame, target="kind")
    with pytest.raises(DataError, match=r"must hold decisions; .* Call review\("):
        found.apply(tmp_path)
    with pytest.raises(SettingError, match="accept_suggested"):
        found.apply(accept_suggested=3)
    with pytest.raises(DataError, match="data must be a frame or"):
        assay("wine").apply(accept_suggested=0.9)
    copies = assay((np.tile(X, (2, 1)), np.tile(GIVEN, 2)))
    assert len(copies.apply(drop_copies=True)[0]) == N


def test_plain_values_are_those_of_summary_json(tmp_path):
    found = assay((X, GIVEN))
    found.save(tmp_path)
    written, told = (tmp_path / "summary.json").read_text("utf-8"), found.to_dict()
    assert told["verdict"] == found.verdict and f'"{told["schema"]}"' in written
    assert told["counts"]["train"] == N and "wrong" in told["checks"]


@pytest.mark.slow
def test_a_notebook_runs_and_shows_the_answer():
    nbformat, nbclient = map(pytest.importorskip, ("nbformat", "nbclient"))
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    nbclient.NotebookClient(book, timeout=300).execute()
    outputs = book.cells[0].outputs
    html = next(o.data["text/html"] for o in outputs if "text/html" in o.get("data", {}))
    assert "labels are probably wrong" in html and ".review()" in html
    assert html.count("<table>") == 2 and html.count("<tr>") >= 11  # suspects, actions
    lines = [o.data["text/plain"] for o in outputs if o.output_type == "display_data"]
    assert lines == [""]  # the progress, which went
