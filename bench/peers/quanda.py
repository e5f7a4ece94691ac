"""Attribution judged by quanda's own metrics, against the explainers that it wraps.

An MLP on 500 MNIST images of 14 x 14 means, trained for each metric on what that metric plants:
two digits under each label (sub-class), a tenth of the labels wrong (mislabelling), a bright corner
in part of a class (shortcut), pieces of clothing under one label (mixed). Class detection, top-k
cardinality, randomisation and LDS (50 halves trained) are of the network of clean images. As in its
benchmarks, predictions are explained. Its ranking of self-influence adds 1e-4 times the position,
which reorders small ones: every contender gives ranks.

Beside a CPU build of torch: `pip install --no-deps --target peers quanda` and what it imports.
"""

import inspect
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.attribution.problems import log_odds
from bench.baselines.kronfluence import task_of
from bench.data import small_images
from bench.frame import Case, Contender, Task
from scipy.stats import rankdata
from torch import nn
from torch.utils.data import TensorDataset

N, QUERIES, WIDTH, EPOCHS, BATCH, LR = 500, 100, 64, 30, 50, 0.003
HALVES, KEPT, WRONG, CHECKPOINTS, TOP = 50, 0.5, 0.1, 5, 5
FIGURES = ("class", "sub-class", "mislabelled", "shortcut", "mixed", "top-k", "randomised", "LDS")
Images = tuple[torch.Tensor, torch.Tensor]
KINDS = {"ours": "ours", "random": "trivial"}


@dataclass(frozen=True)
class Part:
    """A network, and what it was trained on and is asked about."""

    train: Images
    queries: Images
    model: nn.Module
    checkpoints: list[str]  # files
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> TensorDataset:
        """Training samples."""
        return TensorDataset(*self.train)

    @property
    def predicted(self) -> torch.Tensor:
        """Classes of the queries."""
        with torch.no_grad():
            return self.model(self.queries[0]).argmax(1)


def images(name: str, n: int, seed: int) -> Images:
    some = small_images(name, n, seed)
    return torch.tensor(some.x, dtype=torch.float32), torch.tensor(some.y)


def fitted(train: Images, k: int, seed: int, folder: Path | None) -> tuple[nn.Module, list[str]]:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(196, WIDTH), nn.ReLU(), nn.Linear(WIDTH, k))
    optimizer, files = torch.optim.Adam(net.parameters(), lr=LR), []
    for epoch in range(1, EPOCHS + 1):
        for rows in torch.randperm(len(train[1])).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(train[0][rows]), train[1][rows]).backward()
            optimizer.step()
        if folder is not None and epoch % (EPOCHS // CHECKPOINTS) == 0:
            files.append(str(folder / f"{epoch}.pt"))
            torch.save(net.state_dict(), files[-1])
    return net.eval(), files


def cut(x: torch.Tensor, y: torch.Tensor) -> tuple[Images, Images]:
    return (x[:N], y[:N]), (x[N : N + QUERIES], y[N : N + QUERIES])


def plant(kind: str, seed: int) -> tuple[Images, Images, int, dict[str, Any]]:
    """Training samples, queries, classes, and what a metric must know."""
    rng, (x, y) = np.random.default_rng((seed, 40)), images("mnist", N + QUERIES + 100, seed)
    (train, queries), k = cut(x, y), 10
    more: dict[str, Any] = {}
    if kind == "sub-class":
        pairs = torch.tensor(rng.permutation(10) // 2)
        more = {"digits": train[1], "asked": queries[1]}
        train, queries, k = (train[0], pairs[train[1]]), (queries[0], pairs[queries[1]]), 5
    elif kind == "mislabelled":
        wrong = rng.permutation(N)[: int(WRONG * N)]
        labels = train[1].clone()
        labels[wrong] = (labels[wrong] + torch.tensor(rng.integers(1, 10, len(wrong)))) % 10
        train, more = (train[0], labels), {"wrong": wrong.tolist()}
    elif kind == "shortcut":
        own = np.flatnonzero(train[1] == 0)
        marked = rng.permutation(own)[: len(own) // 2]
        x = train[0].clone()
        x[marked] = corner(x[marked])
        train, queries = (x, train[1]), (corner(queries[0]), queries[1])
        more = {"marked": marked.tolist()}
    elif kind == "mixed":
        clothes = images("fashion_mnist", 60 + QUERIES, seed)[0]
        x = torch.cat([train[0][:-60], clothes[:60]])
        zeros = torch.zeros(60, dtype=torch.int64)
        train = x, torch.cat([train[1][:-60], zeros])
        queries = clothes[60:], torch.zeros(QUERIES, dtype=torch.int64)
        more = {"foreign": (torch.arange(N) >= N - 60).long()}
    return train, queries, k, more


def corner(x: torch.Tensor) -> torch.Tensor:
    square = x.clone().reshape(-1, 14, 14)
    square[:, :3, :3] = x.max()
    return square.reshape(len(x), -1)


@cache
def problem(seed: int) -> dict[str, Part]:
    parts, seed = {}, seed + 1  # by 0, 100 and 101 the temperature of relative effects was chosen
    for kind in ("clean", "sub-class", "mislabelled", "shortcut", "mixed"):
        folder = Path(tempfile.mkdtemp(prefix="quanda-"))
        train, queries, k, more = plant(kind, seed)
        parts[kind] = Part(train, queries, *fitted(train, k, seed, folder), more)
    clean, rng = parts["clean"], np.random.default_rng((seed, 41))
    halves = [rng.permutation(N)[: int(KEPT * N)].tolist() for _ in range(HALVES)]
    files = [str(Path(clean.checkpoints[0]).parent / f"half{i}.pt") for i in range(HALVES)]
    for half, file in zip(halves, files, strict=True):
        some = clean.train[0][half], clean.train[1][half]
        torch.save(fitted(some, 10, seed, None)[0].state_dict(), file)
    clean.more.update(halves=halves, files=files)
    return parts


# Explainers: name → class and its settings. --------------------------------------------------


@cache
def without_torchvision_kernels() -> torch.library.Library:
    """Torchvision has no build for a CPU's torch; two operators let it be imported."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library  # the operators are gone with it


def explainers() -> dict[str, Callable[[], tuple[type, dict[str, Any]]]]:
    def wrapped(name: str, **more: Any):
        def ask():
            from quanda.explainers import RandomExplainer, wrappers

            return getattr(wrappers, name, RandomExplainer), more

        return ask

    def ours(**more: Any):
        from datassay_exports import quanda

        return quanda.Influence, more

    def loss(batch, model, sample):
        f, y = model(batch[0]), batch[1]
        y = torch.multinomial(f.detach().softmax(-1), 1).flatten() if sample else y
        return nn.functional.cross_entropy(f, y, reduction="sum")

    def kronfluence():
        task = task_of(
            loss, lambda b, model: -log_odds(model(b[0]), b[1]).sum(), lambda b: None, None
        )
        cls, more = wrapped("Kronfluence", batch_size=100, load_from_disk=False)()
        return cls, {**more, "task_module": task}

    summed, each = nn.CrossEntropyLoss(reduction="sum"), nn.CrossEntropyLoss(reduction="none")
    return {
        "ours": ours,
        "ours, relative": partial(ours, relative=True),
        "random": wrapped("RandomExplainer"),
        "similarity": wrapped("CaptumSimilarity", layers="1", batch_size=100, load_from_disk=False),
        "TracIn": wrapped("CaptumTracInCP", loss_fn=summed, batch_size=100,
                          sample_wise_grads_per_batch=True),
        "Arnoldi": wrapped("CaptumArnoldi", loss_fn=each, batch_size=100, arnoldi_dim=50,
                           projection_dim=25),
        "representer points": wrapped("RepresenterPoints", features_layer="1", classifier_layer="2",
                                      load_from_disk=False, show_progress=False, epoch=500),
        "TRAK": wrapped("TRAK", proj_dim=128, load_from_disk=False, batch_size=100),
        "kronfluence": kronfluence,
    }  # fmt: skip


def made(name: str, part: Part):
    """An explainer of a part's network; its class and settings."""
    without_torchvision_kernels()
    cls, settings = explainers()[name]()
    takes = inspect.signature(cls.__init__).parameters
    own = {"model_id": "m", "cache_dir": tempfile.mkdtemp(prefix="quanda-")}
    settings = {**{k: v for k, v in own.items() if k in takes}, **settings}
    if name not in {"TRAK", "kronfluence"}:  # which take the weights as they are
        settings["checkpoints"] = part.checkpoints if name == "TracIn" else part.checkpoints[-1:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(model=part.model, train_dataset=part.data, **settings), cls, settings


def answer(name: str, parts: dict[str, Part], seed: int) -> dict[str, Any]:
    """Explanations of each part, [m, n]; ranks of self-influence; randomised network's figure."""
    result = {}
    for kind, part in parts.items():
        explainer, cls, settings = made(name, part)
        if kind == "mislabelled":
            own = explainer.self_influence(batch_size=100).detach().numpy()
            result[kind] = torch.tensor(rankdata(own))
            continue
        result[kind] = explainer.explain(part.queries[0], part.predicted).detach().float()
        if kind == "clean":
            result["randomised"] = randomised(part, cls, settings, result[kind])
    return result


def randomised(part: Part, cls: type, settings: dict[str, Any], given: torch.Tensor) -> float:
    from quanda.metrics.heuristics import ModelRandomizationMetric

    settings = {k: v for k, v in settings.items() if k not in {"checkpoints", "cache_dir"}}
    folder = tempfile.mkdtemp(prefix="quanda-")
    takes = "cache_dir" in cls.__init__.__code__.co_varnames
    metric = ModelRandomizationMetric(
        model=part.model, model_id="m", cache_dir=folder, train_dataset=part.data,
        checkpoints=part.checkpoints if "TracIn" in cls.__name__ else part.checkpoints[-1:],
        explainer_cls=cls, expl_kwargs={**settings, **({"cache_dir": folder} if takes else {})},
    )  # fmt: skip
    metric.update(given, part.queries[0], part.predicted)
    return metric.compute()["score"]


def judge(parts: dict[str, Part], result: dict[str, Any], seed: int) -> dict[str, float]:
    from quanda.metrics import downstream_eval as down
    from quanda.metrics import ground_truth, heuristics

    def score(kind: str, metric: type, update: dict[str, Any], **more: Any) -> float:
        part = parts[kind]
        one = metric(model=part.model, train_dataset=part.data, **more)
        one.update(result[kind], **update)
        return one.compute()["score"]

    clean, digits, marked = parts["clean"], parts["sub-class"], parts["shortcut"]
    x, predicted = clean.queries[0], clean.predicted
    wrong = down.MislabelingDetectionMetric(
        model=parts["mislabelled"].model, train_dataset=parts["mislabelled"].data,
        mislabeling_indices=parts["mislabelled"].more["wrong"],
        precomputed_self_influence=result["mislabelled"],
    )  # fmt: skip
    values = (
        score("clean", down.ClassDetectionMetric, {"test_targets": predicted}, s=TOP),
        score("sub-class", down.SubclassDetectionMetric,
              {"test_targets": digits.more["asked"], "test_data": digits.queries[0],
               "test_superclass_targets": digits.queries[1]},
              train_subclass_labels=digits.more["digits"], filter_by_prediction=True, s=TOP),
        wrong.compute()["score"],
        score("shortcut", down.ShortcutDetectionMetric,
              {"test_data": marked.queries[0], "test_labels": marked.queries[1]},
              shortcut_indices=marked.more["marked"], shortcut_cls=0),
        score("mixed", heuristics.MixedDatasetsMetric,
              {"test_data": parts["mixed"].queries[0], "test_labels": parts["mixed"].queries[1]},
              adversarial_indices=parts["mixed"].more["foreign"], filter_by_prediction=True),
        score("clean", heuristics.TopKCardinalityMetric, {}, top_k=TOP),
        1 - abs(result["randomised"]),
        score("clean", ground_truth.LinearDatamodelingMetric,
              {"test_targets": predicted, "test_data": x}, m=HALVES, alpha=KEPT,
              subset_ids=clean.more["halves"], subset_ckpt_filenames=clean.more["files"]),
    )  # fmt: skip
    return dict(zip(FIGURES, values, strict=True))


def ask(name: str) -> Callable[[dict[str, Part], int], dict[str, Any]]:
    return lambda parts, seed: answer(name, parts, seed)


TASK = Task(
    measure="quanda's metrics of an attribution",
    cases={"MNIST, MLP": Case(problem)},
    contenders={
        name: Contender(ask(name), KINDS.get(name.split(",")[0], "baseline"), needs="quanda")
        for name in explainers()
    },
    judge=judge,
    repeats=3,
)
