"""`datassay predict`: new rows from files, as Python predicts them; what does not fit, one line."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import datassay as da
from datassay.estimators import load_model
from datassay.methods.polynomial.command import PolynomialSettings
from datassay.methods.polynomial.job import run as fit_polynomial
from datassay.methods.weigh.command import WeighSettings
from datassay.methods.weigh.job import run as weigh
from helpers.blocks import two_rules
from helpers.command_line import assert_one_error_line, columns, invoke, listed, refusals, succeed

OWN = "from torch import nn\n\n\ndef net():\n    return nn.Linear(4, 1)\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table of two rules with a category, new rows without their target, a model of each."""
    folder = tmp_path_factory.mktemp("data")
    x, y, _ = two_rules()
    town = np.where(np.arange(len(x)) % 3 == 0, "Graz", "Linz")
    rows = [f"r{i},{x[i, 0]},{x[i, 1]},{town[i]},{('no', 'yes')[y[i]]}" for i in range(len(x))]
    (folder / "mixed.csv").write_text("\n".join(["key,a,b,town,y", *rows]))
    new = [f"n{i},{a},{b},{'Rom' if i == 2 else 'Linz'}"
           for i, (a, b) in enumerate(two_rules(40, seed=1)[0])]  # fmt: skip
    (folder / "new.csv").write_text("\n".join(["key,a,b,town", *new]))
    (folder / "lacking.csv").write_text("key,a,town\nn,1.5,Graz\n")
    (folder / "own.py").write_text(OWN)
    np.savez(folder / "few.npz", x=np.ones((2, 7)))
    np.savez(folder / "both.npz", x=np.ones((2, 7)), x_val=np.ones((2, 7)))
    for part in ("train/a", "val/a"):
        (folder / "photos" / part).mkdir(parents=True)
        Image.new("L", (8, 8)).save(folder / "photos" / part / "0.png")
    (folder / "junk.safetensors").write_bytes(b"junk")
    table = [folder / "mixed.csv", "--ids", "key"]
    quick = ["--blocks", 2, "--restarts", 1, "--gate", "off"]
    succeed("partition", *table, *quick, "--out", folder / "blocks")
    return folder


def test_new_rows_of_a_table(here):
    result = succeed("predict", "new.csv", "blocks", "--out", "out")
    assert result.stdout.splitlines()[-1] == "out/predictions.parquet"
    assert "1 category that training did not have, in 1 row, the first 'Rom'" in result.stderr
    table, model = pq.read_table("out/predictions.parquet"), load_model("blocks")
    names = ["id", "predicted", "block", "probability_no", "probability_yes"]
    assert table.column_names == names
    assert table["id"].to_pylist() == [f"n{i}" for i in range(40)]
    written = np.stack([table[name] for name in names[3:]], 1)
    np.testing.assert_allclose(written, model.predict_proba("new.csv"), rtol=0, atol=1e-12)
    assert table["predicted"].to_pylist() == model.predict("new.csv").tolist()
    succeed("predict", "new.csv", "blocks/model.safetensors", "--routing", "hard", "--out", "hard")
    hard = np.array(columns("hard/predictions.parquet")["probability_yes"])
    np.testing.assert_allclose(hard, model.predict_proba("new.csv", routing="hard")[:, 1])
    assert np.abs(hard - written[:, 1]).max() > 0.01
    assert listed(here / "out") == ["predictions.parquet"]


test_what_does_not_fit_costs_one_line = refusals({
    "predict new.csv nowhere": r"FITTED must name an existing file; got nowhere",
    "predict new.csv junk.safetensors": r"junk.safetensors must be a file that datassay partition",
    "predict nowhere.csv blocks": r"must be a built-in name .* or an existing path",
    "predict lacking.csv blocks": r"must have the columns of the training data; it has no b",
    "predict few.npz blocks": r"must be a table with the columns used in training",
    "predict both.npz blocks": r"as the array x, and no x_val; it holds x, x_val",
    "predict photos blocks": r"one set of samples; it holds a training and a validation part",
    "--ids nobody": r"ids must name a column",
    "--routing maybe": r"routing must be",
    "--network own.py:net": r"is for networks; .*Leave it out",
    "--out blocks/deeper": r"out must lie outside",
}, "predict new.csv blocks")  # fmt: skip


@pytest.mark.parametrize("features", ["inputs", "model"])
def test_the_network_of_weigh(here, features):
    """Oracle: the network that Python's own job trained, asked for the same rows."""
    settings = WeighSettings(model="mlp:width=8", seeds=2, features=features, n_neighbors=5)
    train, val = da.load("iris", val_fraction=0.2)
    findings = weigh(train, val, settings)
    assert findings.fitted is not None
    line = ["iris", "--model", "mlp:width=8", "--seeds", 2, "--neighbors", 5]
    succeed("weigh", *line, "--features", features, "--out", "weights")
    np.savez("new.npz", x=val.x)
    succeed("predict", "new.npz", "weights", "--out", "out")
    table = pq.read_table("out/predictions.parquet")
    written = np.stack([table[f"probability_{name}"] for name in train.class_names], 1)
    np.testing.assert_allclose(written, findings.fitted.outputs(val.x), rtol=0, atol=1e-9)
    np.testing.assert_allclose(written.sum(1), 1)
    assert "datassay predict NEW model.safetensors" in Path("weights/index.html").read_text()


def test_a_network_of_the_user_s_own_is_named_again(here):
    line = ["mixed.csv", "--ids", "key", "--neighbors", 5, "--features", "inputs"]
    succeed("weigh", *line, "--model", "own.py:net", "--seeds", 2, "--out", "weights")
    refused = invoke("predict", "new.csv", "weights", "--out", "out")
    assert_one_error_line(refused, r"nothing runs because a file names it")
    succeed("predict", "new.csv", "weights", "--network", "own.py:net", "--out", "out")
    assert set(columns("out/predictions.parquet")["predicted"]) <= {"no", "yes"}
    succeed("weigh", *line, "--seeds", 0, "--out", "none")  # nothing was trained
    assert listed(here / "none") == ["index.html", "summary.json", "weights.parquet"]


def test_a_polynomial(here):
    train, val = da.load("diabetes", val_fraction=0.2)
    findings = fit_polynomial(train, val, PolynomialSettings(degree=1))
    succeed("polynomial", "diabetes", "--degree", 1, "--out", "numbers")
    np.savez("new.npz", x=val.x)
    succeed("predict", "new.npz", "numbers", "--out", "out")
    table = columns("out/predictions.parquet")
    np.testing.assert_allclose(table["target"], findings.outputs[:, 0], rtol=1e-9)
