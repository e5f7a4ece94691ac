"""Embeddings by frozen encoders: what they are made of, kept and said."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

import datassay as da
from datassay.collect import Backbone, embedding_pass
from datassay.data import add_adversarial
from datassay.data.pictures import Pictures, are_photographs
from datassay.errors import DataError, ModelError, SettingError, install
from datassay.models.backbones import choice
from datassay.models.backbones.encoder import Encoder, WeightsFile, image_embedded
from datassay.models.backbones.pixels import PixelPreparation
from helpers.backbones import LIMIT, WIDTH, image_encoder, photographs, text_encoder

RNG = np.random.default_rng(0)
TEXTS = np.array([" ".join(f"w{j}" for j in range(1 + i % 7)) + f" {i}" for i in range(20)])
LABELS = np.tile(["yes", "no"], 10)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(choice.ENCODERS, "tiny", image_encoder)
    monkeypatch.setitem(choice.ENCODERS, "words", text_encoder)
    monkeypatch.setattr(embedding_pass, "CHUNK", 4)
    for kind, code in (("image", "tiny"), ("text", "words")):
        here = WeightsFile("datassay", "datassay", "", "")
        monkeypatch.setitem(choice.OWN, kind, (code, "torch", here))


@pytest.fixture
def not_installed(monkeypatch):
    for kind, (name, _, _) in list(choice.OWN.items()):
        there = WeightsFile("no_such_package", "", "", "")
        monkeypatch.setitem(choice.OWN, kind, (name, "torch", there))


def test_photographs_of_any_size(tmp_path):
    folder = photographs(tmp_path, sizes=((40, 36), (70, 90)))
    with pytest.raises(DataError, match=r"one size.* Take an encoder, --model features:lite0"):
        da.load(folder)
    train, val = da.load(folder, encode=Backbone("tiny"))
    assert train.x.shape == (10, WIDTH) and val.x.shape == (2, WIDTH)
    assert (train.encoding.name, train.encoding.width, train.encoding.digest) == ("tiny", 6, "ab")
    assert train.kind == "image" and train.feature_names[-1] == "tiny 5"
    assert da.load(folder, encode=Backbone())[0].encoding.name == "tiny"  # auto
    assert da.load("digits", encode=Backbone())[0].encoding is None
    encoder = image_encoder()
    for x, picture, name in zip(train.x, train.images, train.ids, strict=True):
        pixels = np.asarray(Image.open(folder / name), np.float32).transpose(2, 0, 1) / 255
        assert np.array_equal(picture, pixels)
        expected = encoder.embed([encoder.prepare(picture)], "cpu").values[0].detach()
        assert np.allclose(x, expected, atol=1e-6)


def test_layouts_of_arrays_agree():
    x = RNG.integers(0, 256, (20, 3, 33, 35)).astype(np.float32)
    x[0, 0, 0, 0] = 255
    forms = [x, x / 255, np.moveaxis(x, 1, -1)]
    first, *others = (
        da.load((form, LABELS), encode=Backbone("tiny"))[0].x.copy() for form in forms
    )
    assert all(np.allclose(first, other, atol=1e-5) for other in others)
    grey = x[:, 0]
    repeated = np.repeat(grey[:, None], 3, axis=1)
    one, three = (da.load((g, LABELS), encode=Backbone("tiny"))[0].x for g in (grey, repeated))
    assert np.allclose(one, three, atol=1e-5)


@pytest.mark.parametrize("batch", [2, 5])
def test_batches_change_nothing(tmp_path, monkeypatch, batch):
    folder = photographs(tmp_path)

    def loaded():
        words = da.load((TEXTS, LABELS), encode=Backbone("words"))
        return [da.load(folder, encode=Backbone("tiny")), words]

    sets = loaded()
    monkeypatch.setattr(embedding_pass, "TEXT_BATCH", batch)
    monkeypatch.setattr(torch, "get_num_threads", lambda: batch)
    monkeypatch.setattr(embedding_pass, "CHUNK", 7)
    for one, other in zip(sets, loaded(), strict=True):
        assert all(np.abs(a.x - b.x).max() <= 1e-5 for a, b in zip(one, other, strict=True))


def test_a_killed_pass_goes_on(tmp_path, monkeypatch):
    folder, store = photographs(tmp_path / "photos"), tmp_path / "kept"
    whole = da.load(folder, encode=Backbone("tiny"))
    seen, reported = [], []
    monkeypatch.setitem(choice.ENCODERS, "tiny", lambda: image_encoder(seen, fails_after=6))
    with pytest.raises(KeyboardInterrupt):
        da.load(folder, encode=Backbone("tiny", store))
    assert 6 <= sum(seen) < 12
    seen.clear()
    monkeypatch.setitem(choice.ENCODERS, "tiny", lambda: image_encoder(seen))
    resumed = da.load(
        folder, encode=Backbone("tiny", store, progress=lambda *a: reported.append(a))
    )
    assert sum(seen) == 8  # one chunk of four was finished
    assert reported[-1] == ("embed", 12, 12)
    assert all(np.array_equal(a.x, b.x) for a, b in zip(whole, resumed, strict=True))
    seen.clear()
    stored = da.load(folder, encode=Backbone("tiny", store))
    assert not seen and stored[0].encoding.seconds == 0
    assert np.array_equal(stored[0].x, whole[0].x)
    planned, val = da.load(folder, encode=Backbone("tiny", only_plan=True))
    assert sum(seen) == 12 and len(planned) + len(val) == 12  # 2 to warm up, 10 measured
    assert planned.encoding.seconds >= 0 and np.isfinite(val.x).all()
    Image.new("RGB", (40, 36)).save(folder / "cat" / "0.png")
    with pytest.raises(SettingError, match="differs in: data"):
        da.load(folder, encode=Backbone("tiny", store))


def test_texts_keep_their_columns_and_tell_what_was_cut(caplog):
    notes = [f"{i} " + "word " * (i % 7) for i in range(30)]
    table = pa.table({"age": np.arange(30.0) ** 2, "note": notes, "y": ["yes", "no"] * 15})
    train, val = da.load(table, target="y", encode=Backbone("words"))
    assert val is None and train.x.shape == (30, 1 + WIDTH)
    assert train.feature_names[:2] == ("age", "words 0")
    assert np.array_equal(train.x[:, 0], train.ids**2) and train.kind == "text"
    n_cut = sum(len(t.split()) > LIMIT for t in train.texts)
    assert 0 < n_cut < 30
    assert train.encoding.note == f"{n_cut} of 30 texts were cut at {LIMIT} tokens"
    assert train.encoding.note in caplog.text
    again, _ = Backbone("words")(*da.load(table, target="y"))  # word weights go, columns stay
    assert np.allclose(again.x, train.x)


def test_a_text_is_embedded_once(monkeypatch):
    seen, make = [], choice.ENCODERS["words"]

    def encoder():
        one = make()
        return replace(
            one, embed=lambda texts, device: seen.extend(texts) or one.embed(texts, device)
        )

    monkeypatch.setitem(choice.ENCODERS, "words", encoder)
    notes = np.array([f"word {i % 7} again" for i in range(30)])
    train, _ = da.load((notes, ["yes", "no"] * 15), encode=Backbone("words"))
    assert sorted(seen) == sorted(set(notes))
    by_text = {text: x for text, x in zip(train.texts, train.x, strict=True)}
    assert all(map(np.array_equal, train.x, [by_text[text] for text in train.texts]))
    assert len(np.unique(train.x, axis=0)) == 7


def test_numbers_that_only_rounding_moves(monkeypatch):
    def encoder():
        made = text_encoder()
        made.network.weight.data[:, 2] *= 1e-20
        return made

    monkeypatch.setitem(choice.ENCODERS, "words", encoder)
    train, _ = da.load((TEXTS, LABELS), encode=Backbone("words"))
    assert (train.x[:, 2] == 0).all() and (train.x[:, 3] != 0).any()
    assert "1 of its numbers vary by less than a millionth of what the" in train.encoding.note
    da.build_model("features:words", train)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((3, 32, 32), True), ((32, 48, 3), True), ((3, 31, 90), False), ((28, 28), False),
        ((1, 64, 64), True), ((1, 63, 80), False), ((12,), False),
    ],
)  # fmt: skip
def test_which_images_are_photographs(shape, expected):
    train, _ = da.load((RNG.uniform(size=(20, *shape)), LABELS))
    assert are_photographs(train) == expected
    standardised, _ = da.load((RNG.normal(size=(20, *shape)), LABELS), encode=Backbone())
    assert standardised.encoding is None and standardised.input_shape == shape


REFUSED = [
    ("photos", "words", ModelError, "features:words reads texts; these samples are images"),
    ((TEXTS, LABELS), "tiny", ModelError, "features:tiny reads images; these samples are texts"),
    ("iris", "tiny", ModelError, r"features:tiny reads images; .* are rows of numbers"),
    ((RNG.normal(size=(20, 3, 8, 8)), LABELS), "tiny", DataError, r"0 to 1 or of 0 to 255"),
    ((RNG.uniform(size=(20, 2, 8, 9)), LABELS), "tiny", ModelError, "rows of numbers"),
]


@pytest.mark.parametrize(("data", "name", "error", "message"), REFUSED)
def test_what_an_encoder_does_not_read_is_refused(tmp_path, data, name, error, message):
    train, val = da.load(photographs(tmp_path) if data == "photos" else data)
    with pytest.raises(error, match=message):
        Backbone(name)(train, val)
    with pytest.raises(DataError, match="train must be a SampleSet"):
        Backbone(name)("photos", val)
    with pytest.raises(SettingError, match="device must be 'cpu', 'cuda'"):
        Backbone(name, device="tpu")(train, val)


def test_auto_without_the_extra(tmp_path, not_installed, caplog):
    train, _ = da.load(photographs(tmp_path), encode=Backbone())
    assert train.input_shape == (3, 36, 40) and train.encoding.name == ""
    assert train.encoding.note.startswith("pixels alone were used")
    assert f"run: {install('features')}" in caplog.text
    train, _ = da.load((TEXTS, LABELS), encode=Backbone())
    assert train.encoding.note.startswith("word counts alone were used")
    assert train.encoding.width == len(train.feature_names)


def stripes(n=60, side=20):
    """Grey stripes along or across, at a place of their own: pixels one by one say little."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.uniform(0.3, 0.7, (n, 1, side)), side, 1)
    y = np.arange(n) % 2
    x[y == 1] = x[y == 1].transpose(0, 2, 1)
    return (x + rng.normal(0, 0.1, x.shape)).clip(0, 1), y


def of_edges():
    """Return an encoder that sees how much changes along each side."""

    def embed(prepared, device):
        values = [[p.diff(dim=d).abs().mean() for d in (1, 2)] + [p.mean()] for p in prepared]
        return image_embedded(torch.tensor(values))

    prepare = PixelPreparation(20, mean=0.0, deviation=1.0)
    return Encoder("tiny", "image", "edges", torch.nn.Identity(), 3, prepare, embed, digest="ab")


def test_small_images_that_pixels_predict_poorly_are_read_by_the_encoder(monkeypatch):
    monkeypatch.setitem(choice.ENCODERS, "tiny", of_edges)
    x, y = stripes()
    train, val = da.load((x, y), encode=Backbone())
    assert train.encoding.name == val.encoding.name == "tiny" and train.x.shape == (48, 3)
    note = train.encoding.note
    assert note.startswith("pixels alone predict the classes poorly (")
    assert note.endswith("so the pretrained tiny reads them (100%)")
    # Not where pixels do well, where the encoder does no better, or of what it cannot read.
    for inputs in (x * np.where(y, 1, 0.2)[:, None, None], 2 * x - 1):
        assert da.load((inputs, y), encode=Backbone())[0].encoding is None
    random = RNG.integers(0, 2, len(x))
    train, _ = da.load((x, random), encode=Backbone())
    assert train.input_shape == (20, 20) and train.encoding.name == ""
    assert "by tiny)" in train.encoding.note


def test_poor_pixels_without_the_extra_are_said(not_installed):
    train, _ = da.load(stripes(), encode=Backbone())
    assert train.input_shape == (20, 20) and train.encoding.name == ""
    assert train.encoding.note.startswith("pixels alone predict the classes poorly (")
    assert train.encoding.note.endswith(f"run: {install('features')}")


def test_small_images_of_several_sizes_are_read_by_the_encoder(tmp_path):
    folder = photographs(tmp_path, sizes=((20, 18), (24, 30)))
    train, val = da.load(folder, encode=Backbone())
    assert train.x.shape == (10, WIDTH) and val.encoding.note == (
        "images differ in size, so the pretrained tiny reads them"
    )


def test_subsets_and_noise_keep_their_images(tmp_path):
    train, _ = da.load(photographs(tmp_path), encode=Backbone("tiny"))
    some = train.subset(np.array([3, 1]))
    assert isinstance(some.images, Pictures) and len(some.images) == 2
    assert np.array_equal(some.images[0], train.images[3])
    assert some.encoding is train.encoding
    with pytest.raises(DataError, match="x holds embeddings by tiny"):
        add_adversarial(train, da.build_model("auto", train), 0.1)
