"""`datassay sample`: files, page, table, exit codes, one line for bad input."""

import json
from dataclasses import replace

import numpy as np
import pytest

import datassay.methods.sample.job as job
from datassay.data.load import load
from datassay.methods.sample.command import SampleSettings
from datassay.methods.sample.page import FILES, files, verdicts
from datassay.methods.sample.page import page as page_of
from helpers.command_line import columns, listed, refusals, succeed, summary, words

OWN = """
import numpy as np


def ridge(x):
    return np.column_stack([np.tanh(9 * (x[:, 0] - x[:, 1])), x[:, 0]])


def raises(x):
    raise RuntimeError("no luck")


constant = 3
"""
SMALL = ["--n-initial", 12, "--n-new", 6, "--initial", "grid", "--compare", 2]


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Two dozen updates instead of thousands: the figures need not be good."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "RECIPE", replace(job.RECIPE, steps=25))
        patch.setattr(job, "N_TEST", 50)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "own_functions.py").write_text(OWN)
    return folder


def findings(function="runge", **change):
    settings = {"n_initial": 12, "n_new": 6, "initial": "grid", "compare": 2} | change
    return job.run(SampleSettings(function, **settings))


def test_sample_writes_its_files_which_can_be_loaded_again(tmp_path):
    out = tmp_path / "deep" / "sampled"
    result = succeed("sample", "runge", *SMALL, "--verbose", "--out", out)
    assert listed(out) == sorted([*FILES, "index.html"])
    assert f"Page: {out / 'index.html'}" in result.stdout.splitlines()
    for word in ("largest", "root mean square", "6 new points", "autograd derivatives"):
        assert word in words(result)
    for step in ("Label points", "Derivatives", "Sample again", "Training networks"):
        assert step in result.stderr
    summary_ = summary(out)
    assert summary_["comparison"]["designs"] == ["uniform", "Taylor-based"]
    assert np.shape(summary_["comparison"]["largest"]) == (2, 2)
    assert summary_["acceptance"] <= 1
    table = columns(out / "samples.parquet")
    assert list(table) == ["x", "f", "is_new", "taylor_index"]
    assert sum(table["is_new"]) == 6
    train, val = load(out / "samples.npz", val_fraction=0.3)
    assert len(train) + len(val) == 18
    assert not train.is_classification
    assert set(train.source) | set(val.source) == {"initial", "new"}
    both = np.concatenate([train.x[:, 0], val.x[:, 0]])
    np.testing.assert_allclose(np.sort(both), np.sort(table["x"]))


def test_a_function_of_ones_own(here):
    args = ["--domain", "-1:1,0:1", "--n-initial", 40, "--n-new", 10, "--compare", 0]
    result = succeed("sample", "own_functions:ridge", *args, "--out", "mine", "--verbose")
    assert "finite derivatives" in words(result)
    table = columns(here / "mine/samples.parquet")
    assert list(table) == ["x0", "x1", "f0", "f1", "is_new", "taylor_index"]
    summary_ = summary("mine")
    assert summary_["comparison"] is None
    page = (here / "mine/index.html").read_text()
    assert 'data-figure="index"' in page
    assert "Does it help here" not in page


test_bad_input_costs_one_line_and_writes_nothing = refusals({
    "sample nothing": "the function must be runge, tanh",
    "sample no_module:f --domain 0:1": "no_module:f' raised ModuleNotFoundError",
    "sample own_functions:ridge": "domain must be given",
    "sample own_functions:raises --domain 0:1": "RuntimeError: no luck",
    "sample own_functions:constant --domain 0:1": "int, which cannot be called",
    "--domain 0:1:2": "low:high pairs",
    "--domain 1:0": "reversed",
    "--domain 1:1": "no volume",
    "--domain 0:1,0:1": "one pair for each input of runge",
    "--compare -1": "compare must be at least 0",
    "sample bateman --initial grid": "Take 64 or 125",
}, "sample runge")  # fmt: skip


def test_advice_follows_the_figures():
    sampling = findings(n_initial=100, initial="uniform")
    comparison = sampling.comparison
    cases = {
        "changes most help: the largest error": (np.array([[1, 1.01], [0.5, 0.52]]), 1.0),
        "Sample uniformly": (np.array([[0.5, 0.52], [1, 1.01]]), 1.0),
        "are not shown to help": (np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([[1.0], [1.0]])),
    }
    for headline, (largest, mean) in cases.items():
        changed = replace(comparison, largest=largest, root_mean_square=0 * largest + mean)
        assert headline in page_of(replace(sampling, comparison=changed)).verdict
    changed = replace(comparison, largest=np.array([[1.0, 2.0], [0.5, 0.9]]))
    assert verdicts(changed)[1]["difference"][0] == pytest.approx(-0.8 / 1.5)
    few = findings(function="tanh", n_initial=8, compare=0)
    assert page_of(few).advice[0].headline == "Take more initial points"
    assert json.loads(files(few, page_of(few))["summary.json"])["warnings"]
