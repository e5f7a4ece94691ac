"""Baselines of the selection truth, written from their papers: each orders or draws what to keep.

A baseline is called with `selection.Given` and a keep rate and gives positions. Scores of
one training are shared: `Dynamics` holds the outputs of 5 networks on every sample in every epoch.
Every ranking keeps classes in proportion to the given labels, as the papers' own code does or as
their class-balanced variants do; without that the hardest-first rankings lose more.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int

from datassay.models import build_model
from datassay.train import Recipe, train_networks

NETWORKS = 5
EPOCHS = 12
EARLY = 2  # epochs after which EL2N is read: the paper's tenth of the training, rounded up
STRATA = 50
BETAS = (0.0, 0.1, 0.2, 0.3, 0.5)
TURN = 0.2  # keep rate from which Sorscher's prototypes keep the hardest


@dataclass(frozen=True, eq=False)
class Dynamics:
    """Predictions of networks on the training samples while they learned from all of them."""

    # [networks, epochs, n, k], when a batch held the sample; the last incomplete batch of an epoch
    # is left out, and its samples keep the predictions of the epoch before
    probability: Float[np.ndarray, "s e n k"]
    # [n, width], last hidden layer of the first network when trained
    embedding: Float[np.ndarray, "n width"]
    y: Int[np.ndarray, " n"]  # [n], the given labels

    @property
    def margin(self) -> Float[np.ndarray, "s e n"]:
        """Log odds of the given label against the likeliest other."""
        own = np.take_along_axis(self.probability, self.y[None, None, :, None], 3)[..., 0]
        rest = self.probability.copy()
        np.put_along_axis(rest, self.y[None, None, :, None], 0, 3)
        return np.log(own.clip(1e-12)) - np.log(rest.max(3).clip(1e-12))

    @property
    def el2n(self) -> Float[np.ndarray, " n"]:
        """Paul et al. (2021): length of the error vector early on, averaged over networks."""
        error = self.probability[:, EARLY] - np.eye(self.probability.shape[3])[self.y]
        return np.linalg.norm(error, axis=2).mean(0)

    @property
    def forgetting(self) -> Float[np.ndarray, " n"]:
        """Toneva et al. (2019): times a sample was forgotten; never learned counts as most."""
        right = self.margin > 0
        forgotten = (right[:, :-1] & ~right[:, 1:]).sum(1).astype(float)
        forgotten[~right.any(1)] = right.shape[1]
        return forgotten.mean(0)

    @property
    def aum(self) -> Float[np.ndarray, " n"]:
        """Pleiss et al. (2020): the margin averaged over the training."""
        return self.margin.mean((0, 1))

    @property
    def final_margin(self) -> Float[np.ndarray, " n"]:
        """Margin in the last epoch, averaged over networks; orders samples as the loss does."""
        return self.margin[:, -1].mean(0)


def dynamics(train, network: str, seed: int) -> Dynamics:
    """Train `NETWORKS` networks on all samples and keep their predictions."""
    n, k, size = len(train), train.n_classes, 64
    models = [build_model(network, train, seed=100_000 + 1000 * seed + s) for s in range(NETWORKS)]
    per_epoch = n // size
    predicted = np.full((NETWORKS, EPOCHS, n, k), 1 / k, np.float32)
    step = 0

    def observe(positions, outputs) -> None:
        nonlocal step
        epoch = step // per_epoch
        if step % per_epoch == 0 and epoch:
            predicted[:, epoch] = predicted[:, epoch - 1]
        both = torch.cat([torch.zeros_like(outputs), outputs], 2) if k == 2 else outputs
        rows = np.arange(NETWORKS)[:, None]
        predicted[rows, epoch, positions.numpy()] = both[..., -k:].softmax(2).numpy()
        step += 1

    recipe = Recipe(steps=EPOCHS * per_epoch, batch_size=size)
    every = torch.arange(n).expand(NETWORKS, -1)
    trained = train_networks(models, train, every, recipe, seed=seed, observe=observe)
    first = {name: w[0] for name, w in trained.state.items()}
    held: list[torch.Tensor] = []
    last = [m for m in trained.template.modules() if isinstance(m, torch.nn.Linear)][-1]
    last.register_forward_pre_hook(lambda _module, inputs: held.append(inputs[0].double()))
    with torch.no_grad():
        torch.func.functional_call(trained.template, first, torch.as_tensor(train.x))
    embedding = held[0].numpy()
    return Dynamics(predicted, embedding, np.asarray(train.y))


def shares(y: Int[np.ndarray, " n"], kept: int) -> Int[np.ndarray, " k"]:
    """How many of each class to keep: in proportion, the largest remainders rounded up."""
    exact = kept * np.bincount(y) / len(y)
    whole = np.floor(exact).astype(int)
    extra = np.argsort(whole - exact, kind="stable")[: kept - whole.sum()]
    whole[extra] += 1
    return whole


def first_of_each(order: Int[np.ndarray, " n"], y, kept: int) -> Int[np.ndarray, " kept"]:
    """The first of every class in this order, classes in proportion."""
    parts = [order[y[order] == c][:m] for c, m in enumerate(shares(y, kept))]
    return np.sort(np.concatenate(parts))


def at_random(task, kept: int) -> Int[np.ndarray, " kept"]:
    """A random part, classes in proportion."""
    rng = np.random.default_rng((task.seed, kept, 5))
    return first_of_each(rng.permutation(len(task.train)), task.train.y, kept)


def highest(score):
    """A baseline that keeps the samples of the highest score."""

    def select(task, kept: int) -> Int[np.ndarray, " kept"]:
        order = np.argsort(-score(task), kind="stable")
        return first_of_each(order, task.train.y, kept)

    return select


def coverage_centric(task, kept: int) -> Int[np.ndarray, " kept"]:
    """Zheng et al. (2023): the β hardest by area under the margin go, the rest is stratified.

    β is searched as theirs is, by networks trained on the selection, but judged on a fifth of the
    given (noisy) training labels, since nothing else is known.
    """
    rng = np.random.default_rng((task.seed, kept, 6))
    n, aum = len(task.train), task.dynamics.aum
    held = np.sort(rng.permutation(n)[: n // 5])
    others = np.setdiff1d(np.arange(n), held)
    betas = [b for b in BETAS if (1 - b) * len(others) >= kept]
    tried = [stratified(aum, others, b, kept, rng) for b in betas]
    networks = task.train_on(tried, 1, stream=2)
    right = task.right(networks, task.train.x[held], task.train.y[held])
    return stratified(aum, np.arange(n), betas[int(right.argmax())], kept, rng)


def stratified(aum, some, beta: float, kept: int, rng) -> Int[np.ndarray, " kept"]:
    """As many from each of 50 strata of equal width, all of those that hold fewer."""
    easiest = some[np.argsort(-aum[some], kind="stable")][: len(some) - int(beta * len(some))]
    edges = np.linspace(aum[easiest].min(), aum[easiest].max(), STRATA + 1)
    stratum = np.digitize(aum[easiest], edges[1:-1])
    bins = [rng.permutation(easiest[stratum == b]) for b in range(STRATA)]
    bins = sorted((b for b in bins if len(b)), key=len)
    chosen, left = [], kept
    for i, members in enumerate(bins):
        budget = min(len(members), left // (len(bins) - i))
        chosen.append(members[:budget])
        left -= budget
    return np.sort(np.concatenate(chosen))


def k_centre(task, kept: int) -> Int[np.ndarray, " kept"]:
    """Sener and Savarese (2018): greedily the sample farthest from all chosen ones."""
    return np.sort(farthest_first(task)[:kept])


@cache
def farthest_first(task) -> Int[np.ndarray, " half"]:
    """Half of the samples in that order: a smaller answer is the beginning of a larger one."""
    z = task.dynamics.embedding
    squared = np.square(z).sum(1)
    chosen = [int(np.random.default_rng((task.seed, 7)).integers(len(z)))]
    distance = np.full(len(z), np.inf)
    while len(chosen) < (len(z) + 1) // 2:
        new = chosen[-1]
        distance = np.minimum(distance, squared + squared[new] - 2 * z @ z[new])
        distance[new] = -np.inf
        chosen.append(int(distance.argmax()))
    return np.array(chosen)


def prototypes(task, kept: int) -> Int[np.ndarray, " kept"]:
    """Sorscher et al. (2022): nearest k-means centre; easiest of few, hardest of many."""
    from sklearn.cluster import KMeans

    z = task.dynamics.embedding
    fit = KMeans(task.train.n_classes, n_init=3, random_state=task.seed).fit(z)
    distance = np.linalg.norm(z - fit.cluster_centers_[fit.labels_], axis=1)
    sign = -1 if kept / len(z) >= TURN else 1
    return first_of_each(np.argsort(sign * distance, kind="stable"), task.train.y, kept)


def class_distance(task) -> Float[np.ndarray, " n"]:
    """Distance to the mean of the given class in the embedding."""
    z, y = task.dynamics.embedding, task.train.y
    means = np.stack([
        z[y == c].mean(0) if (y == c).any() else z[0] * 0 for c in range(y.max() + 1)
    ])
    return np.linalg.norm(z - means[y], axis=1)


def moderate(task, kept: int) -> Int[np.ndarray, " kept"]:
    """Xia et al. (2023): distance to the class mean nearest to the class's median."""
    distance, y = class_distance(task), task.train.y
    medians = np.array([np.median(distance[y == c]) for c in range(y.max() + 1)])
    return first_of_each(np.argsort(np.abs(distance - medians[y]), kind="stable"), y, kept)
