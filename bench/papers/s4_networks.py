"""Partition of networks on images, which S4 §5 announces: blocks, a sub-network each, a router.

Samples follow two or three label rules. A network of one hidden layer is trained on all of them;
`partition` divides them in what enters its last layer, where heterogeneity is the variance of
influence by last-layer gradients; each block trains a sub-network from that network's weights, and
a logistic router on the same features names one sub-network for a new image. The same with blocks
found in the pixels, with k-means on the features, and with the true sources, which nobody has;
against one network of as many weights and a jointly trained mixture of experts of as many
(Jacobs et al. 1991). "letters": SD-2 as images, where no router can work. Seeds 0 to 4 are
reported; the number of updates, 500 to 2000, is what suits one network best on seeds 100 and 101.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from bench.data import even_draw, folder
from bench.frame import Case, Options, Row, Task
from bench.stats import mean_half
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import datassay as da
from datassay.data import SampleSet, clashing, sd_mixture

SEEDS, WIDTH, SIDE, TEST = 5, 16, 14, 1500
BATCH, RATE, RIDGE = 64, 1e-3, 1e-3
M = TypeVar("M", bound=nn.Module)
Loss = Callable[[Tensor, Tensor], Tensor]
OURS, ONE, EXPERTS = "partition of the network", "one network", "mixture of experts"
KNOWN = "true sources, of new samples too"
KMEANS, TRUE = "k-means on the features", "true sources"


def small(samples: SampleSet, name: str) -> SampleSet:
    """28 x 28 images as rows of 14 x 14 means."""
    x = samples.x.reshape(-1, SIDE, 2, SIDE, 2).mean((2, 4)).reshape(len(samples), -1)
    return SampleSet(x, samples.y, samples.ids, samples.class_names, name=name)


def usps(part: str, n: int, seed: int) -> SampleSet:
    """16 x 16 digits without their outermost pixels."""
    with np.load(folder("usps", "usps.npz")) as held:
        x, y = held[f"x_{part}"][:, 1:-1, 1:-1], held[f"y_{part}"].astype(np.int64)
    some = np.random.default_rng((seed, 3)).permutation(len(x))[:n]
    names = tuple(map(str, range(10)))
    return SampleSet(x[some].reshape(n, -1), y[some], some, names, name="usps")


def three_sources(part: str, n: int, seed: int) -> SampleSet:
    """MNIST, Fashion-MNIST and USPS, each class numbered one on from source to source."""
    every = tuple(range(10))
    sets = [small(even_draw(s, part, n, seed, every, s), s) for s in ("mnist", "fashion_mnist")]
    return clashing([*sets, usps(part, n, seed)], seed=seed)


def two_rules(part: str, n: int, seed: int) -> SampleSet:
    """MNIST digits, and mirrored ones whose labels are one on."""
    sets = []
    for k, name in enumerate(("plain", "mirrored")):
        drawn = even_draw("mnist", part, n, 1000 * k + seed, tuple(range(10)), name)
        x = drawn.x[..., ::-1] if k else drawn.x
        flipped = SampleSet(np.ascontiguousarray(x), drawn.y, drawn.ids, drawn.class_names)
        sets.append(small(flipped, name))
    return clashing(sets, seed=seed)


def letters(part: str, n: int, seed: int) -> SampleSet:
    """SD-2 with each letter as a glyph of 7 x 7 random strokes, under noise: 14 x 35 pixels."""
    mixed = sd_mixture((n, n), seed=seed + 5000 * (part == "test"))
    drawn = np.random.default_rng(0).random((4, 7, 7)) < 0.4
    glyphs = drawn[mixed.x.reshape(len(mixed), 10, 4).argmax(2)]  # [n, 10, 7, 7]
    x = glyphs.reshape(-1, 2, 5, 7, 7).transpose(0, 1, 3, 2, 4).reshape(len(mixed), -1)
    noise = np.random.default_rng((seed, part == "test")).normal(0, 0.2, x.shape)
    return SampleSet(
        (x + noise).astype(np.float32), mixed.y, mixed.ids, mixed.class_names, source=mixed.source,
        name="letters",
    )  # fmt: skip


# Networks. ----------------------------------------------------------------------------------


def dense(d: int, width: int, k: int, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, width), nn.ReLU(), nn.Linear(width, k))


def fitted(
    network: M, x: Tensor, y: Tensor, seed: int, updates: int, loss: Loss = cross_entropy
) -> M:
    """The same module, trained by Adam, the rate falling to 0."""
    adam = torch.optim.Adam(network.parameters(), RATE)
    falling = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, updates)
    draws = torch.Generator().manual_seed(seed)
    for _ in range(updates):
        some = torch.randint(len(x), (min(BATCH, len(x)),), generator=draws)
        adam.zero_grad()
        loss(network(x[some]), y[some]).backward()
        adam.step()
        falling.step()
    return network


class Experts(nn.Module):
    """A mixture of experts: log Σ_k g_k(x) p_k(y | x), of a gate of the experts' own size."""

    def __init__(self, d: int, width: int, n_classes: int, n_experts: int, seed: int):
        super().__init__()
        each = (dense(d, width, n_classes, seed + 50 * k) for k in range(n_experts))
        self.experts = nn.ModuleList(each)
        self.gate = dense(d, width, n_experts, seed + 999)

    def forward(self, x: Tensor) -> Tensor:
        """Log of p(y | x), [n, classes]."""
        gate = self.gate(x).log_softmax(1)
        each = torch.stack([expert(x).log_softmax(1) for expert in self.experts], 1)
        return (gate[..., None] + each).logsumexp(1)

    def hard(self, x: Tensor) -> Tensor:
        """The logits of the expert that the gate finds most probable."""
        each = torch.stack([expert(x) for expert in self.experts], 1)
        return each[torch.arange(len(x)), self.gate(x).argmax(1)]


def size(d: int, width: int, k: int) -> tuple[int, int]:
    """Multiply-adds an image, and bytes in float32, of one hidden layer."""
    return width * (d + k), 4 * (width * (d + 1) + k * (width + 1))


def router(h: np.ndarray, block: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The block of new features, by logistic regression."""
    if len(np.unique(block)) < 2:
        return lambda h: np.full(len(h), block[0])
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(h, block).predict


def specialised(
    joint: nn.Sequential, x: Tensor, y: Tensor, block: np.ndarray, seed: int, updates: int
) -> list[nn.Module]:
    """A network a block, from the joint network's weights; all together so many updates."""
    networks = []
    for k in range(block.max() + 1):
        own = torch.as_tensor(np.flatnonzero(block == k))
        share = round(updates * len(own) / len(x))
        networks.append(fitted(deepcopy(joint), x[own], y[own], seed + k, max(1, share)))
    return networks


def one(
    made: Callable, n_blocks: int, n: int, updates: int, seed: int, *, divides: bool = True
) -> dict[str, float]:
    """Accuracy of each on new samples; without `divides`, of those that need no partition."""
    train, test = made("train", n, seed), made("test", TEST // n_blocks, seed)
    x, x_test = (torch.as_tensor(s.x.reshape(len(s), -1)).float() for s in (train, test))
    x, x_test = (x - x.mean()) / x.std(), (x_test - x.mean()) / x.std()
    y, y_test = torch.as_tensor(train.y), torch.as_tensor(test.y)
    d, c = x.shape[1], train.n_classes
    result: dict[str, float] = {}

    def scored(name: str, outputs: Tensor) -> None:
        result[name] = float((outputs.argmax(1) == y_test).double().mean())

    single = {w: fitted(dense(d, w, c, seed), x, y, seed, updates) for w in widths(n_blocks)}
    experts = Experts(d, WIDTH, c, n_blocks, seed)
    fitted(experts, x, y, seed, updates, loss=nn.functional.nll_loss)
    joint = single[WIDTH]
    with torch.no_grad():
        for width, network in single.items():
            scored(f"{ONE}, {width} units", network(x_test))
        scored(EXPERTS, experts(x_test))
        scored(f"{EXPERTS}, one asked", experts.hard(x_test))
        h, h_test = (joint[:2](part).numpy().astype(np.float64) for part in (x, x_test))
    spread = np.where(h.std(0) > 0, h.std(0), 1)
    h, h_test = (h - h.mean(0)) / spread, (h_test - h.mean(0)) / spread
    source, source_test = (np.unique(s.source, return_inverse=True)[1] for s in (train, test))
    blocks = {TRUE: source}
    if divides:
        frozen = SampleSet(h, train.y, train.ids, train.class_names, source=train.source)
        head = nn.Linear(WIDTH, c).double()
        how = {"restarts": 1, "seed": seed, "ridge": RIDGE}
        divided = da.partition(head, frozen, n_blocks=n_blocks, **how)
        chosen = da.partition(head, frozen, max_blocks=2, gate="off", **how)
        blocks |= {OURS: divided.block}
        likelihood = chosen.held_out
        result |= {
            "more than one block": float(chosen.n_blocks > 1),
            "held-out gain of a second block, nats": likelihood[2] - likelihood[1],
            "V within over together": float(divided.variance.max()) / divided.variance_together,
        }
    blocks[KMEANS] = KMeans(n_blocks, random_state=seed).fit_predict(h)
    for name, block in blocks.items():
        named = router(h, block)(h_test)
        networks = specialised(joint, x, y, block, seed, updates)
        with torch.no_grad():
            each = torch.stack([network(x_test) for network in networks])
        scored(name, each[named, torch.arange(len(x_test))])
        if name == TRUE:
            scored(KNOWN, each[source_test, torch.arange(len(x_test))])
        result[f"adjusted Rand, {name}"] = adjusted_rand_score(train.source, block)
    return result


def widths(n_blocks: int) -> tuple[int, ...]:
    """Units of single networks: the last holds as many weights as the joint and its parts."""
    return (8, WIDTH, 2 * WIDTH, (n_blocks + 1) * WIDTH)


def costs(d: int, c: int, k: int) -> dict[str, tuple[int, int]]:
    """Multiply-adds an image, and bytes in float32."""
    macs, held = size(d, WIDTH, c)
    gate_macs, gate_held = size(d, WIDTH, k)
    # The joint network without its head, a linear router, one sub-network.
    routed = (WIDTH * (d + k) + macs, 4 * (WIDTH * (d + 1) + k * (WIDTH + 1)) + k * held)
    results = {f"{ONE}, {w} units": size(d, w, c) for w in widths(k)}
    results |= {EXPERTS: (gate_macs + k * macs, gate_held + k * held)}
    results |= {f"{EXPERTS}, one asked": (gate_macs + macs, gate_held + k * held)}
    return results | dict.fromkeys((OURS, KMEANS, TRUE, KNOWN), routed)


def measured(
    made: Callable, n_blocks: int, n: int, updates: int, options: Options
) -> dict[str, object]:
    """All seeds of a case, by how much ours is ahead, and what each costs."""
    seeds = range(options.seed, options.seed + (options.repeats or SEEDS))
    results = [one(made, n_blocks, n, updates, seed) for seed in seeds]
    columns = {name: [result[name] for result in results] for name in results[0]}
    sample = made("test", 20, 0)
    cost = costs(int(np.prod(sample.input_shape)), sample.n_classes, n_blocks)
    ahead = {w: np.subtract(columns[OURS], columns[w]) for w in cost if w != OURS}
    single = [f"{ONE}, {w} units" for w in widths(n_blocks)]
    as_good = next((w for w in single if np.mean(ahead[w]) <= 0), None)
    return {
        "n": n * n_blocks, "blocks": n_blocks, "width": WIDTH, "updates": updates,
        **{name: mean_half(values) for name, values in columns.items()},
        **{f"{OURS} ahead of {w}": mean_half(values) for w, values in ahead.items()},
        **{f"multiply-adds, bytes: {w}": list(pair) for w, pair in cost.items()},
        "smallest single network as accurate": as_good,
    }  # fmt: skip


CASES = {
    "three sources": (three_sources, 3, 500, 2000),
    "mirrored digits": (two_rules, 2, 750, 2000),
    "letters": (letters, 2, 750, 500),
}


def rows(lines: dict[str, dict]) -> list[Row]:
    told = []
    for case, (_, k, *_) in CASES.items():
        line = lines[f"papers/s4_networks/{case}"]
        whole = f"{ONE}, {widths(k)[-1]} units"
        values = [line[name][0] for name in (whole, OURS, EXPERTS, KMEANS, TRUE, KNOWN)]
        values += line[f"{OURS} ahead of {whole}"]
        what = (
            f"{WHAT[case]}: accuracy of one network, of a partition in the features of one, a "
            "sub-network a block and a router (mixture of experts, k-means on the features, true "
            "sources, and these known of new samples; equal size); partition minus one network"
        )
        told.append(
            Row(
                what,
                "{:.3f}, {:.3f} ({:.3f}, {:.3f}, {:.3f}, {:.3f}); {:+.3f} ± {:.3f}".format(*values),
            )
        )
    line = lines["papers/s4_networks/three sources"]
    as_good = line["smallest single network as accurate"]
    pairs = [line[f"multiply-adds, bytes: {name}"] for name in (OURS, as_good)]
    what = (
        "The first of these: multiply-adds and bytes of the partition; of one network as accurate"
    )
    told.append(Row(what, "{:,} and {:,}; {:,} and {:,}".format(*pairs[0], *pairs[1])))
    return told


WHAT = {
    "three sources": "MNIST, Fashion-MNIST and USPS with clashing labels, 3 x 500",
    "mirrored digits": "MNIST with another label rule for mirrored images, 2 x 750",
    "letters": "SD-2 as images, 2 x 750",
}
TASK = Task(
    measure="S4 §5: partition of networks",
    cases={case: Case(partial(measured, *given)) for case, given in CASES.items()},
    lines="papers/s4_networks/",
    rows=rows,
)
