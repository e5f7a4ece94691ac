"""S1 App. A.1: unique information of a sample beside its upper bound, on a toy of 80 points.

Linear regression (two weights) on two Gaussian classes of 40, by SGD: 200 epochs, batches of 5,
step 0.1. Thousands of runs are simulated at once to draw from p(w | S), from p(w | S₋ᵢ), and from
the mixture over a fresh sample z' in z_i's place. Both divergences are estimated from nearest
neighbours (Wang, Kulkarni and Verdú, 2009), for every sample, as the paper does not say which one
it shows. The classes' centres and spreads are those of the authors' synthetic set.

Writes figures/s1_toy.svg. Run from bench/: python papers/s1_toy.py
"""

import sys
import time
from pathlib import Path

import numpy as np
import torch
from scipy.spatial import cKDTree
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from figure import COLOURS, new, save
from record import record

from datassay.score import kl_information
from helpers.linearizations import linearization

EPOCHS, BATCH, STEP, EACH_CLASS = 200, 5, 0.1, 40
CENTRES, SPREADS = ((0.0, 1.0), (1.0, 0.0)), ((0.25, 0.5), (0.5, 0.25))
RUNS, NEIGHBOURS = 2000, 5
# The slowest mode shrinks e-fold in less than an epoch and a half, so 40 epochs are as good as 200
# (the shown sample is run for both).
SURVEY_EPOCHS = 40
THEIRS = {"unique information": 1.3, "leave-one-out KL": 3.0}


def draw(n: int, g: torch.Generator):
    """Points of two classes, n of each, [2 n, 2], labels 0 and 1."""
    x = torch.randn(2, n, 2, generator=g, dtype=torch.float64)
    x = x * torch.tensor(SPREADS)[:, None] + torch.tensor(CENTRES)[:, None]
    return x.flatten(0, 1), torch.tensor([0.0, 1.0]).double().repeat_interleave(n)


def sgd(x, y, g, *, epochs=EPOCHS, step=STEP, replacement=False):
    """Weights of R runs from 0, run r on x[r] [n, 2], y[r] [n]; loss ½(f − y)², batch mean."""
    runs, n = y.shape
    both = torch.cat([x, y[:, :, None]], 2)  # [R, n, 3]
    w = torch.zeros(runs, 2, dtype=torch.float64)
    for _ in range(epochs):
        if replacement:
            order = torch.randint(n, (runs, n), generator=g)
        else:
            order = torch.rand(runs, n, generator=g).argsort(1)
        epoch = both.gather(1, order[:, :, None].expand(-1, -1, 3))
        first, second, target = (part.T.contiguous() for part in epoch.unbind(2))  # [n, R]
        a, b = w.T.contiguous()
        for start in range(0, n, BATCH):
            u, v = first[start : start + BATCH], second[start : start + BATCH]
            error = u * a + v * b - target[start : start + BATCH]
            a = a - step * (error * u).mean(0)
            b = b - step * (error * v).mean(0)
        w = torch.stack([a, b], 1)
    return w.numpy()


def divergence(p: np.ndarray, q: np.ndarray, k: int = NEIGHBOURS) -> float:
    """KL(p ‖ q) in nats from samples [n, d] and [m, d], by distances to the k-th neighbour."""
    own = cKDTree(p).query(p, k + 1)[0][:, -1]
    other = cKDTree(q).query(p, k)[0][:, -1]
    return p.shape[1] * float(np.log(other / own).mean()) + np.log(len(q) / (len(p) - 1))


def distributions(x, y, i: int, runs: int, g, **setting):
    """Draws from p(w | S₋ᵢ) and from the mixture E_z' p(w | S₋ᵢ, z')."""
    keep = torch.arange(len(y)) != i
    without = sgd(x[keep].expand(runs, -1, -1), y[keep].expand(runs, -1), g, **setting)
    fresh_x, fresh_y = draw(runs, g)
    chosen = torch.randperm(2 * runs, generator=g)[:runs]
    many_x, many_y = x.repeat(runs, 1, 1), y.repeat(runs, 1)
    many_x[:, i], many_y[:, i] = fresh_x[chosen], fresh_y[chosen]
    return without, sgd(many_x, many_y, g, **setting)


def measure(x, y, which, runs: int, g, **setting):
    """Unique information and leave-one-out KL of each sample in `which`; draws of the last."""
    whole = sgd(x.expand(runs, -1, -1), y.expand(runs, -1), g, **setting)
    found, draws = [], {}
    for i in which:
        without, mixture = distributions(x, y, i, runs, g, **setting)
        found.append((divergence(whole, mixture), divergence(whole, without)))
        draws[i] = (whole, without, mixture)
    return np.array(found), draws


def drawn(x, y, i: int, draws, title: str) -> None:
    """The paper's Fig. 3: the data, and the three distributions of the weights."""
    names = ("data, z_i ringed", "p(w | S)", "p(w | S without z_i)", "mixture over z'")
    weights = np.concatenate(draws)
    drawing, ((*panels,),) = new(1, 4, 2.1, 2.2)
    for axes, points, name in zip(panels, [x.numpy(), *draws], names, strict=True):
        low, high = np.quantile(points if axes is panels[0] else weights, [0.001, 0.999], axis=0)
        colours = np.array(COLOURS)[y.int().numpy()] if axes is panels[0] else "#333333"
        axes.scatter(*points[:500].clip(low, high).T, s=4, c=colours, alpha=0.6, rasterized=True)
        (left, bottom), (right, top) = low, high
        axes.set(title=name, xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[])
    panels[0].plot(*x[i].numpy(), "o", markersize=9, markerfacecolor="none", color="black")
    save(drawing, "s1_toy", title)


def main() -> None:
    start = time.perf_counter()
    g = torch.Generator().manual_seed(0)
    x, y = draw(EACH_CLASS, g)
    found, _ = measure(x, y, range(len(y)), RUNS, g, epochs=SURVEY_EPOCHS)
    unique, bound = found.T
    # The paper shows one unnamed sample: the one whose bound is nearest to its 3.0 is drawn.
    shown = int(np.abs(bound - THEIRS["leave-one-out KL"]).argmin())
    ours, draws = measure(x, y, [shown], 2 * RUNS, g)
    title = f"sample {shown}: I = {ours[0, 0]:.2f}, KL = {ours[0, 1]:.2f} nats"
    drawn(x, y, shown, draws[shown], title)
    lin = linearization(x[:, None], y[:, None, None], dual=False)
    run = {"dynamics": "converged", "lr": STEP, "reduction": "mean"}
    closed = kl_information(lin, batch_size=BATCH, **run).information
    top = np.argsort(-closed)[:10]
    again, _ = measure(x, y, top, 2 * RUNS, g, epochs=SURVEY_EPOCHS, replacement=True)
    record(
        "papers/s1_toy",
        runs=RUNS,
        seconds=time.perf_counter() - start,
        theirs=THEIRS,
        ours=dict(zip(THEIRS, ours[0].tolist(), strict=True)),
        survey_of_the_shown=found[shown],
        mean_over_samples=found.mean(0),
        quantiles=[0, 0.5, 0.9, 1],
        unique=np.quantile(unique, [0, 0.5, 0.9, 1]),
        bound=np.quantile(bound, [0, 0.5, 0.9, 1]),
        samples_above_their_bound=int((unique > bound + 0.05).sum()),
        closed_form_with_replacement=closed[top],
        simulated_with_replacement=again[:, 1],
        closed_form_spearman=float(spearmanr(closed, bound)[0]),
        why="the paper does not name its sample, its seed or its estimator; ours is the sample "
        "whose KL is nearest to 3.0. Eq. 2 holds in the mean over z', not for each sample.",
    )


if __name__ == "__main__":
    main()
