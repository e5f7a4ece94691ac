"""What attribution asks: samples, queries, networks that they train, and scores of answers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from bench.data import folder
from scipy.stats import spearmanr
from torch import Tensor, nn

import datassay as da
from datassay.data import SampleSet, load
from datassay.models import build_model

Batch = dict[str, Tensor]


def by_position(model: nn.Module, batch: Batch) -> Tensor:
    return model(batch["x"])


def two_logits(model: nn.Module, batch: Batch) -> Tensor:
    """A network of one logit, for two classes, as the baselines take it: 0 beside it."""
    outputs = model(batch["x"])
    return outputs if outputs.shape[-1] > 1 else nn.functional.pad(outputs, (1, 0))


def as_it_is(batch: Batch, generator: torch.Generator) -> Batch:
    return batch


@dataclass(frozen=True)
class Problem:
    """Samples, queries and the networks that they train; here of classes, the outcome a margin."""

    train: Batch  # tensors by name, n rows each, "labels" among them
    queries: Batch  # likewise, m rows
    build: Callable[[int], nn.Module]  # seed → an untrained network
    logits: Callable[[nn.Module, Batch], Tensor] = by_position  # (network, batch) → [b, k]
    # (batch, generator) → batch, while training
    augment: Callable[[Batch, torch.Generator], Batch] = as_it_is
    # of the samples and of the queries, where they are texts
    texts: tuple[list[str], list[str]] | None = None
    tracked: list[str] | None = None  # the layers that train, by name; None: all
    sets: tuple[SampleSet, SampleSet] | None = None  # samples and queries of arrays
    measure: ClassVar[str] = "margin"  # what `da.influence` calls the outcome

    def __len__(self) -> int:
        return len(self.train["labels"])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """What an update lowers, a mean over the batch: []."""
        return nn.functional.cross_entropy(self.logits(model, batch), batch["labels"])

    def outcome(self, model: nn.Module, batch: Batch) -> Tensor:
        """What is asked of each query, [b]: the log odds of its label."""
        return log_odds(self.logits(model, batch), batch["labels"])

    def given(self, which: str) -> SampleSet | list[Batch]:
        """The "train" or "queries" of a user: a SampleSet, else a dictionary per sample."""
        if self.sets is not None:
            return self.sets[which == "queries"]
        return single(getattr(self, which))


@dataclass(frozen=True)
class Language(Problem):
    """Texts as samples; "labels" are the tokens, -100 where there is padding."""

    measure = "loss"

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean over the batch's tokens."""
        ids = batch["labels"][:, 1:]
        return nn.functional.cross_entropy(self.logits(model, batch)[:, :-1].mT, ids)

    def outcome(self, model: nn.Module, batch: Batch) -> Tensor:
        """Each text's loss, summed over its tokens: [b]."""
        ids = batch["labels"][:, 1:]
        logits = self.logits(model, batch)[:, :-1].mT
        return nn.functional.cross_entropy(logits, ids, reduction="none").sum(1)


def single(batch: Batch) -> list[Batch]:
    """A dictionary per sample."""
    return [{name: t[row] for name, t in batch.items()} for row in range(len(batch["labels"]))]


def log_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """f_y less logsumexp of the others: [m, k], [m] → [m]."""
    own = torch.nn.functional.one_hot(labels, logits.shape[-1]).bool()
    others = logits.masked_fill(own, -torch.inf)
    return logits[own] - others.logsumexp(-1)


def batch_of(samples: SampleSet) -> Batch:
    return {"x": torch.as_tensor(samples.x).float(), "labels": torch.as_tensor(samples.y).long()}


def of_sets(
    train: SampleSet, queries: SampleSet, build: Callable[[int], nn.Module], logits=by_position
) -> Problem:
    return Problem(batch_of(train), batch_of(queries), build, logits, sets=(train, queries))


# Answers and their scores. ------------------------------------------------------------------


def ours(problem: Problem, model: nn.Module, **settings) -> np.ndarray:
    """Effects [n, m] by the library as it comes, `method` left alone."""
    train, queries = problem.given("train"), problem.given("queries")
    attribution = da.influence(model, train, queries, **{"measure": problem.measure} | settings)
    return np.asarray(attribution.effect)


def same_label(problem: Problem) -> np.ndarray:
    """1 where a sample and a query share their label, -1 elsewhere: [n, m]."""
    same = problem.train["labels"][:, None] == problem.queries["labels"][None]
    return same.numpy() * 2.0 - 1


def nearness(problem: Problem, model: nn.Module) -> np.ndarray:
    """Cosine of what the last layer sees, less where labels differ."""
    seen: list[Tensor] = []
    last = [m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features <= 10][-1]
    handle = last.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        for batch in (problem.train, problem.queries):
            problem.logits(model, batch)
    handle.remove()
    a, b = (nn.functional.normalize(part, dim=1) for part in seen)
    return (a @ b.T).numpy() * same_label(problem)


def bm25(texts: list[str], wanted: list[str]) -> np.ndarray:
    """Okapi's score of each text for each query, with k 1.5 and b 0.75: [n, m]."""
    samples, queries = ([text.lower().split() for text in part] for part in (texts, wanted))
    words = {word: i for i, word in enumerate(sorted({w for text in samples for w in text}))}
    counts = np.zeros((len(samples), len(words)))
    for row, text in enumerate(samples):
        np.add.at(counts[row], [words[word] for word in text], 1)
    k, b = 1.5, 0.75
    lengths = counts.sum(1, keepdims=True)
    holds = (counts > 0).sum(0)
    rarity = np.log1p((len(samples) - holds + 0.5) / (holds + 0.5))
    weight = counts * (k + 1) / (counts + k * (1 - b + b * lengths / lengths.mean())) * rarity
    results = [weight[:, [words[w] for w in text if w in words]].sum(1) for text in queries]
    return np.stack(results, 1)


def summed(effect: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """Sum of each half's effects: [S, m]."""
    member = np.zeros((len(halves), len(effect)))
    np.put_along_axis(member, halves, 1, axis=1)
    return member @ effect


def lds(reported: np.ndarray, truth: np.ndarray) -> float:
    """Spearman's correlation over halves of the prediction with the truth, both [S, m].

    Mean over queries; of a query predicted alike for all halves it is 0.
    """
    pairs = zip(reported.T, truth.T, strict=True)
    return float(np.mean([0.0 if np.ptp(a) == 0 else spearmanr(a, b)[0] for a, b in pairs]))


# Images. ------------------------------------------------------------------------------------


@cache
def digits() -> Problem:
    """MLP 64-32-32-10 on 1000 digits, 300 queries."""
    train, queries = load("digits", val_fraction=0.4)
    rng = np.random.default_rng(0)
    train = train.subset(np.sort(rng.permutation(len(train))[:1000]))
    queries = queries.subset(np.sort(rng.permutation(len(queries))[:300]))

    def build(seed: int) -> nn.Module:
        return build_model("mlp:width=32,depth=2", train, seed=seed).requires_grad_(True)

    return of_sets(train, queries, build)


def standardised(samples: SampleSet, mean: float = 0.286, spread: float = 0.353) -> SampleSet:
    """Images [n, 1, 28, 28]; Fashion-MNIST's mean and deviation."""
    x = (samples.x.reshape(-1, 1, 28, 28) - mean) / spread
    return replace(samples, x=x.astype(np.float32))


@cache
def fashion() -> Problem:
    """A CNN with batch norm on 1000 Fashion-MNIST images, 300 queries; shifted and mirrored."""
    train, test = load(folder("fashion_mnist"))
    rng = np.random.default_rng(0)
    kept = np.sort(rng.permutation(len(train))[:1000])
    wanted = np.sort(rng.permutation(len(test))[:300])
    sets = standardised(train.subset(kept)), standardised(test.subset(wanted))
    return replace(of_sets(*sets, small_cnn), augment=shifted_and_mirrored)


def small_cnn(seed: int) -> nn.Module:
    """Three convolutions with batch norm, 6046 weights: [n, 1, 28, 28] → [n, 10]."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inside, outside in ((1, 8), (8, 16), (16, 20)):
        layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(180, 10))


def shifted_and_mirrored(batch: Batch, generator: torch.Generator, by: int = 1) -> Batch:
    """Images moved by up to `by` pixels each way, every second one mirrored."""
    x = batch["x"]
    n, _, height, width = x.shape
    padded = nn.functional.pad(x, (by,) * 4, value=float(x.min()))
    down, right = torch.randint(0, 2 * by + 1, (2, n, 1), generator=generator)
    mirrored = torch.rand(n, 1, generator=generator) < 0.5
    rows, columns = down + torch.arange(height), right + torch.arange(width)
    columns = torch.where(mirrored, columns.flip(1), columns)
    each = torch.arange(n)[:, None, None]
    moved = padded[each, :, rows[:, :, None], columns[:, None, :]]  # [n, h, w, c]
    return {**batch, "x": moved.permute(0, 3, 1, 2).contiguous()}
