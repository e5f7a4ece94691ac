"""The encoders: their weights are those that were published, their inputs as they were trained."""

import hashlib
import importlib
import json
import os
import warnings
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import datassay as da
from datassay.collect import Backbone
from datassay.errors import ModelError
from datassay.models.backbones import lite0, minilm
from datassay.models.backbones.choice import encoder_named
from datassay.models.backbones.encoder import WeightsFile, check_installed
from datassay.models.backbones.pixels import PixelPreparation
from helpers import transformers_models

os.environ["HF_HUB_OFFLINE"] = "1"
CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
EXTRA = all(find_spec(p) for p in (lite0.WEIGHTS.package, minilm.WEIGHTS.package, lite0.CODE))
needs_extra = pytest.mark.skipif(not EXTRA, reason="datassay[features] is not installed")
CONTENT = b"weights"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with weights, which must not be imported."""
    folder = tmp_path / "some_weights"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "w.bin").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return WeightsFile(
        "some_weights", "some-weights==1", "w.bin", hashlib.sha256(CONTENT).hexdigest()
    )


def test_weights_are_checked(package, tmp_path):
    assert package.is_there and package.read("tiny") == CONTENT
    (tmp_path / "some_weights" / "w.bin").write_bytes(CONTENT[:-1] + b"S")
    with pytest.raises(ModelError, match=r"SHA-256 .*damaged or was changed.* some-weights==1"):
        package.read("tiny")
    (tmp_path / "some_weights" / "w.bin").unlink()
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        package.read("tiny")


def test_packages_that_are_not_there():
    with pytest.raises(ModelError, match=r"no_such.* Run: pip install 'transformers>=5.0' "):
        check_installed("lite0", "no_such")
    with pytest.raises(ModelError, match="must name an encoder, lite0, minilm, timm:NAME or hf:"):
        encoder_named("nope")


@pytest.mark.skipif(find_spec("timm") is not None, reason="timm is installed")
def test_timm_that_is_not_there():
    with pytest.raises(ModelError, match=r"timm, which is not installed. Run: pip install timm"):
        encoder_named("timm:resnet18")


def test_preparation():
    prepare = PixelPreparation(8, mean=127 / 255, deviation=128 / 255)
    flat = prepare(np.full((1, 5, 9), 200 / 255))
    assert flat.shape == (3, 8, 8)
    assert torch.allclose(flat, torch.full((3, 8, 8), (200 - 127) / 128), atol=1e-5)
    image = RNG.uniform(size=(3, 8, 12)).astype(np.float32)
    same = prepare(image) * 128 / 255 + 127 / 255  # the middle square has the size already
    assert np.allclose(same, image[:, :, 2:10], atol=1e-6)
    part = PixelPreparation(4, 0.0, 1.0, crop=0.5)(image)
    assert np.allclose(part, image[:, 2:6, 4:8], atol=1e-6)


@needs_extra
@pytest.mark.parametrize("module", [lite0, minilm])
def test_a_changed_copy_is_refused(module, tmp_path, monkeypatch):
    content = bytearray(module.WEIGHTS.read(module.NAME))
    content[len(content) // 2] ^= 1
    folder = tmp_path / "copied_weights"
    (folder / module.WEIGHTS.path).parent.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / module.WEIGHTS.path).write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    monkeypatch.setattr(module, "WEIGHTS", replace(module.WEIGHTS, package="copied_weights"))
    with pytest.raises(ModelError, match=f"features:{module.NAME} needs weights with the SHA-256"):
        encoder_named(module.NAME)


@needs_extra
def test_lite0_whatever_the_batch():
    encoder = encoder_named("lite0")
    images = [encoder.prepare(RNG.uniform(size=(3, 32, 40))) for _ in range(3)]
    together = encoder.embed(images, CPU).values
    alone = torch.cat([encoder.embed([image], CPU).values for image in images])
    assert together.shape == (3, 1280) and not together.requires_grad
    assert (together - alone).abs().max() <= 1e-5
    assert (together >= 0).all() and (together > 0).any(1).all()  # behind a ReLU6


@needs_extra
def test_minilm_whatever_the_batch():
    encoder = encoder_named("minilm")
    texts = ["A man is eating food.", "Someone eats a meal.", "The sky is blue.", "word " * 300]
    together = encoder.embed(texts, CPU)
    alone = torch.cat([encoder.embed([text], CPU).values for text in texts])
    assert (together.values - alone).abs().max() <= 1e-5
    assert torch.allclose(together.values.norm(dim=1), torch.ones(4), atol=1e-5)
    likeness = together.values @ together.values.T
    assert likeness[0, 1] > 0.5 > 0.2 > likeness[0, 2]
    assert together.cut.tolist() == [False, False, False, True] and encoder.limit == 256


@pytest.fixture(scope="module")
def transformers():
    return transformers_models.imported("transformers")


def bert(transformers, folder, **saving):
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "runs", "sleeps")
    tokenizer = transformers.BertTokenizer(vocab={w: i for i, w in enumerate(words)})
    torch.manual_seed(0)
    model = transformers_models.bert(transformers, "BertModel", positions=6)
    model.save_pretrained(folder, **saving)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_text_encoder_of_transformers(transformers, tmp_path):
    encoder = encoder_named(f"hf:{bert(transformers, tmp_path)}")
    assert (encoder.reads, encoder.width, encoder.limit) == ("text", 8, 6)
    texts = ["a dog", "a dog runs", "a dog runs a dog sleeps"]
    together = encoder.embed(texts, CPU)
    alone = torch.cat([encoder.embed([text], CPU).values for text in texts])
    assert (together.values - alone).abs().max() <= 1e-5
    assert together.cut.tolist() == [False, False, True]
    x = np.array([f"a dog {'runs' if i % 2 else 'sleeps'}" for i in range(20)])
    train, _ = da.load((x, np.tile(["yes", "no"], 10)), encode=Backbone(encoder.name))
    assert train.x.shape == (16, 8) and len(train.encoding.digest) == 64


def test_weights_that_would_be_unpickled_are_refused(transformers, tmp_path):
    bert(transformers, tmp_path)
    model = transformers.BertModel.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="must be one that transformers loads from safetensors"):
        encoder_named(f"hf:{tmp_path}")


def test_an_image_encoder_of_transformers(transformers, tmp_path):
    config = transformers.ViTConfig(image_size=16, patch_size=8, **transformers_models.SIZES)
    torch.manual_seed(0)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    size = {"height": 16, "width": 16}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers.ViTImageProcessor(size=size).save_pretrained(tmp_path)
        encoder = encoder_named(f"hf:{tmp_path}")
    assert (encoder.reads, encoder.width) == ("image", 8)
    images = [encoder.prepare(RNG.uniform(size=(c, 20, 30))) for c in (3, 1)]
    together = encoder.embed(images, CPU).values
    alone = torch.cat([encoder.embed([image], CPU).values for image in images])
    assert together.shape == (2, 8) and (together - alone).abs().max() <= 1e-5


def test_an_encoder_of_two_kinds_is_refused(transformers, tmp_path):
    transformers.CLIPConfig().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="must read images alone or texts alone; a clip does not"):
        encoder_named(f"hf:{tmp_path}")


def test_a_network_of_timm(tmp_path):
    timm = pytest.importorskip("timm")
    network = timm.create_model("resnet10t", pretrained=False)
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    shown = {k: v for k, v in network.pretrained_cfg.items() if isinstance(v, int | float | list)}
    shown |= {k: list(network.pretrained_cfg[k]) for k in ("input_size", "mean", "std")}
    config = {"architecture": "resnet10t", "num_classes": 1000, "pretrained_cfg": shown}
    (tmp_path / "config.json").write_text(json.dumps(config))
    encoder = encoder_named(f"timm:local-dir:{tmp_path}")
    image = encoder.prepare(RNG.uniform(size=(3, 40, 50)))
    network.reset_classifier(0)
    expected = network.eval()(image[None]).detach()
    assert torch.allclose(encoder.embed([image], CPU).values.detach(), expected, atol=1e-6)
