"""Against dattri: linear datamodelling after 1 to 100 epochs, and brittleness by its own measure.

A logistic regression or an MLP on 300 MNIST images of 14 x 14 means, trained as dattri trains its
own (SGD .01, momentum .9, batches of 64). "lds": rank correlation of effects on the loss of 50
queries, added up over 40 halves, with networks trained on the halves, mean over queries; "ours,
length known" adds 1 / (lr x updates / (1 - momentum)) as a weight decay: what a short training had
no time for it did not learn. "left out": the same correlation over 60 samples each left out of the
same batches. "mislabelled": AUROC of a tenth of the labels wrong by effects of samples on their own
loss. "brittleness": removals that turn 50 predictions, ours by
`Index.brittleness`, dattri's by its function along its best scores; each is trained without.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from bench.data import small_images
from bench.frame import Case, Options, Row, Task
from scipy.stats import spearmanr
from torch import nn
from torch.func import functional_call
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

import datassay as da
from datassay.act import auroc

N, QUERIES, HALVES, BATCH, LR, MOMENTUM = 300, 50, 40, 64, 0.01, 0.9
LEFT_OUT = 60
EPOCHS, LONG = (1, 10, 100), {"logistic": 20, "mlp": 20}
GRID = np.unique(np.geomspace(1, N // 2, 40).astype(int)).tolist()
Rows = tuple[torch.Tensor, torch.Tensor]


def problem(seed: int) -> tuple[Rows, Rows]:
    some = small_images("mnist", N + QUERIES, seed)
    x, y = torch.tensor(some.x, dtype=torch.float32), torch.tensor(some.y)
    return (x[:N], y[:N]), (x[N:], y[N:])


def fitted(kind: str, rows: Rows, epochs: int, seed: int, without: int = -1) -> nn.Module:
    torch.manual_seed(seed)
    hidden = () if kind == "logistic" else (nn.Linear(196, 64), nn.ReLU())
    model = nn.Sequential(*hidden, nn.Linear(64 if hidden else 196, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    for _ in range(epochs):
        for batch in torch.randperm(len(rows[1])).split(BATCH):
            batch = batch[batch != without]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(rows[0][batch]), rows[1][batch]).backward()
            optimizer.step()
    return model.eval()


def length(epochs: int) -> float:
    """Step sizes added up, momentum counted from its start."""
    updates = np.arange(1, epochs * -(-N // BATCH) + 1)
    return float(LR / (1 - MOMENTUM) * (1 - MOMENTUM**updates).sum())


def theirs(model: nn.Module, train: Rows, queries: Rows) -> dict[str, np.ndarray]:
    """Effects on the loss, [n, m], by dattri's attributors."""
    from dattri.algorithm.influence_function import IFAttributorDataInf
    from dattri.algorithm.tracin import TracInAttributor
    from dattri.task import AttributionTask

    def loss(weights, pair):
        x, y = pair
        f = functional_call(model, weights, x if x.ndim > 1 else x[None])
        return nn.functional.cross_entropy(f, y if y.ndim else y[None])

    task = AttributionTask(loss, model, model.state_dict())
    first, second = (DataLoader(TensorDataset(*r), batch_size=100) for r in (train, queries))
    one = torch.ones(1)
    by: dict[str, Callable] = {
        "DataInf": lambda: IFAttributorDataInf(task, regularization=1e-3),
        "gradients": lambda: TracInAttributor(task, one, normalized_grad=False),
        "cosine": lambda: TracInAttributor(task, one, normalized_grad=True),
    }
    effects = {}
    for name, make in by.items():
        attributor = make()
        if name == "DataInf":
            attributor.cache(first)
        with torch.no_grad():
            effects[name] = -attributor.attribute(first, second).numpy()
    return effects


def ours(model: nn.Module, train: Rows, epochs: int) -> dict[str, Any]:
    """Indexes by name."""
    return {
        name: da.index(model, TensorDataset(*train), weight_decay=decay)
        for name, decay in (("ours", 0.0), ("ours, length known", 1 / length(epochs)))
    }


def everyone(kind: str, train: Rows, queries: Rows, epochs: int, seed: int) -> dict:
    """Effects on the loss, [n, m], by name."""
    model = fitted(kind, train, epochs, seed)
    return theirs(model, train, queries) | {
        name: index.query(TensorDataset(*queries), top=None, measure="loss").effect
        for name, index in ours(model, train, epochs).items()
    }


def losses(model: nn.Module, rows: Rows) -> np.ndarray:
    return nn.functional.cross_entropy(model(rows[0]), rows[1], reduction="none").detach().numpy()


def followed(added: np.ndarray, outcome: np.ndarray) -> float:
    return float(np.mean([spearmanr(*pair)[0] for pair in zip(added.T, outcome.T, strict=True)]))


def lds(kind: str, epochs: int, seed: int) -> dict[str, float]:
    train, queries = problem(seed)
    rng = np.random.default_rng(seed)
    halves = [rng.permutation(N)[: N // 2] for _ in range(HALVES)]
    truth = np.array([
        losses(fitted(kind, (train[0][half], train[1][half]), epochs, seed), queries)
        for half in halves
    ])  # fmt: skip
    effects = everyone(kind, train, queries, epochs, seed)
    return {
        name: followed(np.array([effect[half].sum(0) for half in halves]), truth)
        for name, effect in effects.items()
    }


def left_out(kind: str, epochs: int, seed: int) -> dict[str, float]:
    train, queries = problem(seed)
    some = np.random.default_rng((seed, 42)).permutation(N)[:LEFT_OUT]
    truth = np.array([-losses(fitted(kind, train, epochs, seed, i), queries) for i in some])
    effects = everyone(kind, train, queries, epochs, seed)
    return {name: followed(effect[some], truth) for name, effect in effects.items()}


def mislabelled(kind: str, epochs: int, seed: int) -> dict[str, float]:
    (x, y), _ = problem(seed)
    rng, labels = np.random.default_rng((seed, 43)), y.clone()
    wrong = rng.permutation(N)[: N // 10]
    labels[wrong] = (labels[wrong] + torch.tensor(rng.integers(1, 10, len(wrong)))) % 10
    model, train = fitted(kind, (x, labels), epochs, seed), (x, labels)
    own = {name: -effect.diagonal() for name, effect in theirs(model, train, train).items()}
    del own["cosine"]  # 1 of each sample with itself
    own |= {name: index.self_influence() for name, index in ours(model, train, epochs).items()}
    marked = np.isin(np.arange(N), wrong)
    return {name: auroc(marked, one) for name, one in own.items()}


def by_length(name: str, ask: Callable, kind: str, options: Options) -> Iterator[tuple[str, dict]]:
    for epochs in options.value("epochs", EPOCHS):
        figures: dict[str, list[float]] = {}
        for seed in range(options.seed, options.seed + (options.repeats or 3)):
            for who, figure in ask(kind, epochs, seed).items():
                figures.setdefault(who, []).append(figure)
        yield f"{name} {kind} {epochs}", figures


def brittle(kind: str, options: Options) -> dict[str, float]:
    from dattri.metric.britteness import brittleness

    train, queries = problem(options.seed)
    again = partial(fitted, kind, epochs=LONG[kind], seed=options.seed)
    model = again(train)
    predicted = model(queries[0]).argmax(1)
    queries = queries[0], predicted

    def without(kept: np.ndarray) -> nn.Module:
        return again((train[0][kept], train[1][kept]))

    index = da.index(model, TensorDataset(*train), weight_decay=1 / length(LONG[kind]))
    ours = index.brittleness(TensorDataset(*queries), retrain=without)
    turned = [
        bool(s) and int(without(np.delete(np.arange(N), r))(queries[0][[q]]).argmax())
        != int(predicted[q]) for q, (s, r) in enumerate(zip(ours.size, ours.removed, strict=True))
    ]  # fmt: skip
    scores = -theirs(model, train, queries)["DataInf"]
    rows = DataLoader(TensorDataset(*train), BATCH, sampler=SubsetRandomSampler(range(N)))
    sizes = []
    for q in range(QUERIES):
        one = DataLoader(TensorDataset(queries[0][[q]], predicted[[q]]))
        sizes += [brittleness(
            rows, one, torch.tensor(scores[:, q].copy()),
            lambda loader: without(np.sort([*loader.sampler])),
            lambda net, _, q=q: net(queries[0][[q]]).argmax(), search_space=GRID,
        )]  # fmt: skip
    found, others = ours.size > 0, np.array([s or np.inf for s in sizes], float)
    no_more = np.where(found, ours.size, np.inf) <= others
    return {
        "predictions": QUERIES, "turned": float(np.mean(turned)), "no_more": float(no_more.mean()),
        "median": float(np.median(ours.size[found])), "theirs_turned": float(np.mean(others < N)),
        "theirs_median": float(np.median(others[others < N])),
    }  # fmt: skip


def rows(lines: dict[str, dict]) -> list[Row]:
    found = []
    for kind in LONG:
        for case, (_, words) in BY_LENGTH.items():
            of = {e: x for e in EPOCHS if (x := lines.get(f"dattri/{case} {kind} {e}"))}
            if of:
                names = [n for n in NAMES if n in next(iter(of.values()))]
                each = [
                    f"{n} {', '.join(f'{np.mean(x[n]):.2f}' for x in of.values())}" for n in names
                ]
                found.append(Row(
                    f"{words}, {kind}, 300 MNIST images, after {', '.join(map(str, of))} epochs",
                    "; ".join(each),
                ))  # fmt: skip
        if x := lines.get(f"dattri/brittleness {kind}"):
            found.append(Row(
                f"Removals that turn a prediction, {kind}, length known, retrained: turned of "
                "{predictions}; no more than dattri's; median (dattri's)".format(**x),
                "{turned:.0%} ({theirs_turned:.0%}); {no_more:.0%}; {median:.0f} "
                "({theirs_median:.0f})".format(**x),
            ))  # fmt: skip
    return found


NAMES = ("ours", "ours, length known", "DataInf", "gradients", "cosine")
BY_LENGTH = {
    "lds": (lds, "LDS of a loss"),
    "left out": (left_out, "Rank correlation with one sample left out"),
    "mislabelled": (mislabelled, "AUROC of wrong labels"),
}
TASK = Task(
    measure="effects against dattri's",
    cases={
        f"{case} {kind}": Case(partial(by_length, case, ask, kind))
        for case, (ask, _) in BY_LENGTH.items()
        for kind in LONG
    }
    | {f"brittleness {kind}": Case(partial(brittle, kind)) for kind in LONG},
    lines="dattri/",
    rows=rows,
)
