"""Networks and samples of `index.py`; trained once a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attribution_tasks import batch_of, small_cnn
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils.data import Subset

from datassay.data import SampleSet, load
from datassay.models import build_model


@dataclass(frozen=True)
class Case:
    """A trained network, its samples and its queries.

    Attributes:
        model: trained.
        train: n samples.
        queries: m samples.
        measure: of the queries.
        kill: whether building is interrupted too.
    """

    model: nn.Module
    train: Any
    queries: Any
    measure: str = "margin"
    kill: bool = False

    def few(self, m: int) -> Any:
        """The first queries."""
        return _part(self.queries, 0, m)

    def part(self, start: int, stop: int) -> Any:
        """Neighbouring training samples."""
        return _part(self.train, start, stop)


def _part(samples: Any, start: int, stop: int) -> Any:
    if isinstance(samples, SampleSet):
        return samples.subset(np.arange(start, stop))
    return Subset(samples, range(start, min(stop, len(samples))))


def fashion(work: Path, name: str, build: Callable[[SampleSet], nn.Module]) -> Case:
    """Adam, three epochs of all 60 000 images."""
    train, test = load(Path(os.environ["DATASSAY_DATA"]) / "fashion_mnist")
    train, test = (
        replace(part, x=((part.x.reshape(-1, 1, 28, 28) - 0.286) / 0.353).astype(np.float32))
        for part in (train, test)
    )
    model, file = build(train), work / f"index_{name}.safetensors"
    if not file.exists():
        _learn(model, batch_of(train))
        save_file(model.state_dict(), file)
    model.load_state_dict(load_file(file))
    return Case(model.eval(), train, test, kill=name == "cnn")


def _learn(model: nn.Module, batch: dict[str, torch.Tensor], epochs: int = 3) -> None:
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(model.train().parameters(), 2e-3)
    n = len(batch["labels"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * (n // 128))
    for _ in range(epochs):
        for rows in torch.randperm(n)[: n // 128 * 128].split(128):
            loss = nn.functional.cross_entropy(model(batch["x"][rows]), batch["labels"][rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


N_TEXTS, N_ASKED = 100_000, 10_000


def texts(work: Path) -> Case:
    """The GPT of examples/small_gpt.py, 232 192 weights, and texts of halves of its sentences."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from datassay.lm import token_samples

    place, example = work / "index_gpt", Path(__file__).parents[1] / "examples" / "small_gpt.py"
    if not (place / "texts.txt").exists():
        sizes = "--width 64 --layers 2 --epochs 4 --most 10000".split()
        subprocess.run([sys.executable, example, place, *sizes], check=True)
    model, tokenizer = (c.from_pretrained(place) for c in (AutoModelForCausalLM, AutoTokenizer))
    lines = (place / "texts.txt").read_text(encoding="utf-8").splitlines()
    rng = np.random.default_rng(0)

    def made(count: int) -> list[str]:
        pairs = rng.integers(0, len(lines), (count, 2)).tolist()
        halves = [(lines[a].split(), lines[b].split()) for a, b in pairs]
        return [" ".join([*a[: len(a) // 2], *b[len(b) // 2 :]]) or lines[0] for a, b in halves]

    settings = {"context": 64, "too_long": "truncate"}
    train, asked = (
        token_samples(model, tokenizer, made(n), **settings) for n in (N_TEXTS, N_ASKED)
    )
    return Case(model.eval(), train, asked, measure="loss")


CASES: dict[str, Callable[[Path], Case]] = {
    "cnn": lambda work: fashion(work, "cnn", lambda train: small_cnn(0)),
    "lenet": lambda work: fashion(
        work, "lenet", lambda train: build_model("lenet5", train, seed=0)
    ),
    "texts": texts,
}
