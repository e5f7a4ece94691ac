"""`run --before`: what a review gained, from the data to the page."""

import json
import shutil

import numpy as np
import pytest

from datassay.commands.finished import finished_run, sets_of
from datassay.commands.run import job
from datassay.commands.run.steps import before as steps_before
from datassay.data import load
from datassay.models.table_estimators import TableClassifier
from datassay.models.tabular import LOGISTIC
from datassay.score.labels import judges
from helpers.command_line import assert_one_error_line, columns, invoke, succeed, summary
from helpers.decided import decided

FAST = ("--model", "linear", "--attribution", "none")


def spirals(n=150):
    """Two classes that a line tells apart, of which every seventh label is wrong."""
    rng = np.random.default_rng(0)
    truth = np.arange(n) % 2
    x = rng.normal(size=(n, 3)) + 4.0 * truth[:, None]
    y = truth.copy()
    y[::7] = 1 - y[::7]
    return x, y, truth


@pytest.fixture(scope="module", autouse=True)
def without_acts():
    """The table of actions, which costs more than all else, is tested in test_job.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "act_table", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table, reviewed: its run, its decisions, and the data given back."""
    folder = tmp_path_factory.mktemp("before")
    x, y, truth = spirals()
    lines = [f"{a:.6f};{b:.6f};{c:.6f};{'no yes'.split()[k]}" for (a, b, c), k in
             zip(x, y, strict=True)]  # fmt: skip
    table = folder / "points.csv"
    table.write_bytes(("\ufeffa;b;c;y\r\n" + "\r\n".join(lines)).encode())
    words = ("no", "yes")
    wrong = np.flatnonzero(truth != y).tolist()
    rows = [(i, "relabel", words[y[i]], words[truth[i]]) for i in wrong[:-6]]
    others = zip(wrong[-6:], ("keep", *["unsure"] * 4, "remove"), strict=True)
    rows += [(i, kind, words[y[i]], "") for i, kind in others] + [(1, "keep", words[y[1]], "")]
    succeed("run", table, *FAST, "--target", "y", "--curve-seeds", 0, "--out", folder / "first")
    decided(table, folder / "first/decisions.parquet", rows, target="y")
    succeed("apply", table, folder / "first/decisions.parquet", "--out", folder / "clean")
    return folder


def test_a_table_is_judged_by_fifths(data, tmp_path):
    before = ("--before", data / "first", "--curve-seeds", 2)
    result = succeed("run", data / "clean", *FAST, *before, "--out", tmp_path / "second")
    reported, first = summary(tmp_path / "second")["before"], summary(data / "first")
    wrong = first["counts"]["suspected_label_errors"]
    assert (reported["n_relabelled"], reported["n_removed"]) == (16, 1)
    assert reported["n"] == [150, 149]
    assert reported["suspects"] == [
        wrong,
        summary(tmp_path / "second")["counts"]["suspected_label_errors"],
    ]
    assert {(a, b) for a, b, _ in reported["relabelled"]} == {("no", "yes"), ("yes", "no")}
    assert sum(n for *_, n in reported["relabelled"]) == 16
    second = columns(tmp_path / "second/scores.parquet")
    assert sum(second["is_issue"]) >= 2  # of five wrong labels that stay one was kept
    assert reported["confirmed"] == 1  # which is not asked about again
    kept = {r["new_id"] for r in changed_rows(data) if r["decision"] == "keep"}
    asked = {str(i) for i, look in zip(second["id"], second["worth_a_look"], strict=True) if look}
    assert len(kept) == 2 and not kept & asked
    agreed, now, earlier = reported["gain"]["rows"]
    assert reported["gain"]["n_parts"] == 5
    assert (agreed["n"], now["n"], earlier["n"]) == (133, 149, 150)
    assert now["after"] > 0.9 and earlier["after"] < 0.95
    assert "Correcting 16 labels and removing 1 sample" in " ".join(result.stdout.split())
    page = (tmp_path / "second/index.html").read_text("utf-8")
    assert page.index('id="before"') < page.index('id="review"')


@pytest.mark.slow
def test_a_review_is_measured_with_the_model_that_the_page_before_names(
    data, tmp_path, monkeypatch
):
    named = shutil.copytree(data / "first", tmp_path / "named")
    told = json.loads((named / "summary.json").read_text())
    (named / "summary.json").write_text(json.dumps(told | {"actions": {"model": LOGISTIC}}))
    monkeypatch.setattr(judges, "FEWEST_ROWS", 10**6)  # which fit these models, too
    fitted, fit = [], TableClassifier.fit
    monkeypatch.setattr(
        TableClassifier,
        "fit",
        lambda self, *a, **b: (fitted.append(self.kind), fit(self, *a, **b))[1],
    )
    options = ("--attribution", "none", "--curve-seeds", 2, "--before", named)
    succeed("run", data / "clean", *options, "--out", tmp_path / "third")
    assert fitted == [LOGISTIC] * 10  # before and after, five parts; it draws nothing
    agreed = summary(tmp_path / "third")["before"]["gain"]["rows"][0]
    assert agreed["n"] == 133 and agreed["after"] > 0.9


def changed_rows(data):
    return json.loads((data / "clean/changelog.json").read_text())["rows"]


def test_the_run_can_be_read_again_and_reviewed_on(data, tmp_path, monkeypatch):
    monkeypatch.setattr(steps_before, "BATCH", 2)  # decisions from which a review has a range
    succeed(
        "run", data / "clean", *FAST, "--before", data / "first", "--curve-seeds", 0,
        "--out", tmp_path / "third",
    )  # fmt: skip
    reported = summary(tmp_path / "third")["before"]
    assert reported["gain"] is None and "switched off" in reported["why_none"]
    assert reported["other_model"] == ""
    low, high = (149 * end for end in summary(tmp_path / "third")["labels"]["share_wrong"])
    assert low == pytest.approx(round(low)) and high == pytest.approx(round(high))
    run = finished_run(tmp_path / "third")
    train, val = sets_of(run)
    assert val is None and train.ids.tolist() == run.scores["id"].to_pylist()
    assert run.inputs is not None and run.inputs.target == "y"


def test_another_model_than_before_is_told(data, tmp_path):
    model = ("--model", "mlp:width=8", "--attribution", "none", "--curve-seeds", 0)
    succeed("run", data / "clean", *model, "--before", data / "first", "--out", tmp_path / "out")
    assert summary(tmp_path / "out")["before"]["other_model"].startswith("linear,")
    assert "judged labels by another model (linear" in (tmp_path / "out/index.html").read_text()


def test_the_part_that_was_held_out_is_the_judge(tmp_path):
    x, y, truth = spirals(200)
    np.savez(tmp_path / "points.npz", x=x.astype(np.float32), y=y)
    first, table = tmp_path / "first", tmp_path / "points.npz"
    succeed("run", table, *FAST, "--curve-seeds", 0, "--out", first)
    train, val = sets_of(finished_run(first))
    assert val is not None
    wrong = [int(i) for i in train.ids if truth[i] != y[i]]
    rows = [(i, "relabel", str(y[i]), str(truth[i])) for i in wrong[2:]]
    rows += [(i, "remove", str(y[i]), "") for i in wrong[:2]]
    rows += [(int(val.ids[0]), "remove", str(y[val.ids[0]]), "")]  # of the judge, too
    decided(table, first / "decisions.parquet", rows)
    succeed("apply", table, first / "decisions.parquet", "--out", tmp_path / "clean")
    succeed(
        "run", tmp_path / "clean", *FAST, "--curve-seeds", 2, "--before", first,
        "--out", tmp_path / "second",
    )  # fmt: skip
    summary_ = summary(tmp_path / "second")
    assert summary_["counts"]["train"] == len(train) - 2
    assert summary_["counts"]["validation"] == len(val) - 1
    after, held_out = sets_of(finished_run(tmp_path / "second"))
    assert held_out is not None
    np.testing.assert_allclose(held_out.x, val.x[1:])  # the same samples, under other row numbers
    assert not np.isin(after.x[:, 0], val.x[:, 0]).any()
    rows = summary_["before"]["gain"]["rows"]
    assert [row["n"] for row in rows] == [len(val) - 1, len(val) - 1, len(val)]
    assert rows[0]["before"] == rows[1]["before"]  # no label of the judge was changed


@pytest.mark.slow
def test_photographs_are_found_under_their_new_paths(tmp_path):
    from PIL import Image

    rng, root = np.random.default_rng(0), tmp_path / "photos"
    wrong = {("dark", i) for i in range(0, 40, 9)}
    for name, level in (("dark", 60), ("light", 190)):
        for i in range(40):
            other = {"dark": "light", "light": "dark"}[name]
            folder = root / (other if (name, i) in wrong else name)
            folder.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(level - 50, level + 50, (6, 6), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{name}{i}.png")
    succeed("run", root, *FAST, "--curve-seeds", 0, "--out", tmp_path / "first")
    _, val = sets_of(finished_run(tmp_path / "first"))
    assert val is not None
    paths = [f"light/{name}{i}.png" for name, i in sorted(wrong)]
    rows = [(path, "relabel", "light", "dark") for path in paths]
    decided(root, tmp_path / "first/decisions.parquet", rows)
    succeed("apply", root, tmp_path / "first/decisions.parquet", "--out", tmp_path / "clean")
    succeed(
        "run", tmp_path / "clean", *FAST, "--curve-seeds", 2, "--before", tmp_path / "first",
        "--out", tmp_path / "second",
    )  # fmt: skip
    summary_ = summary(tmp_path / "second")
    assert summary_["before"]["relabelled"] == [["light", "dark", len(wrong)]]
    assert summary_["counts"]["validation"] == len(val)
    held = sum(path in set(val.ids.tolist()) for path in paths)
    assert summary_["before"]["gain"]["rows"][0]["n"] == len(val) - held
    assert load(tmp_path / "clean", val_fraction=0.0)[0].ids.tolist().count("dark/dark0.png") == 1


def test_what_cannot_be_set_side_by_side_is_refused(data, tmp_path):
    out = ("--out", tmp_path / "second")
    result = invoke("run", data / "points.csv", *FAST, "--before", data / "first", *out)
    assert_one_error_line(result, "has no changelog.json. Give the folder that apply wrote")
    (tmp_path / "empty").mkdir()
    result = invoke("run", data / "clean", *FAST, "--before", tmp_path / "empty", *out)
    assert_one_error_line(result, "must hold scores.parquet")
    result = invoke(
        "run", data / "clean", *FAST, "--before", data / "first", "--noise", 0.1, *out
    )  # fmt: skip
    assert_one_error_line(result, "--noise must not come with --before; got")
    x, y, _ = spirals(30)
    np.savez(tmp_path / "others.npz", x=x, y=y)
    succeed("score", tmp_path / "others.npz", *FAST, "--out", tmp_path / "others")
    result = invoke("run", data / "clean", *FAST, "--before", tmp_path / "others", *out)
    assert_one_error_line(result, "before must be a run of the data that .*clean was made of")
    result = invoke(
        "run", data / "clean", *FAST, "--before", data / "first", "--out", data / "first"
    )  # fmt: skip
    assert_one_error_line(result, "out must lie outside of what is read")


def test_samples_that_were_added_since_are_refused(data, tmp_path):
    shutil.copytree(data / "clean", tmp_path / "clean")
    with open(tmp_path / "clean/points.csv", "ab") as file:
        file.write(b"\r\n1.0;2.0;3.0;yes")
    result = invoke(
        "run", tmp_path / "clean", *FAST, "--before", data / "first", "--curve-seeds", 0,
        "--out", tmp_path / "second",
    )  # fmt: skip
    assert_one_error_line(result, "it holds 1, the first 149")
