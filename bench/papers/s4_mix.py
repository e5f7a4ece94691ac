"""V[X] measures how mixed a training set is (S4 Figs 3, 5, 7), beside the entropy of the mix.

Fig. 5: SD-2, 600 samples, |A2| from 0 to 600; Fig. 7: SD-3, 600 samples on a grid of mixes; both
split 8 : 2 as the paper does. Fig. 3: all ten digits, 10 000 MNIST images (theirs are not public),
a share of the labels wrong. And the fourth moment in place of the variance (S4 §5).

    python papers/s4_mix.py [5 7 3 moments]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import s4_tasks
import torch
from figure import curves
from record import record
from scipy.stats import pearsonr
from tasks import halved

from datassay.collect import output_score
from datassay.data import SampleSet, sd_mixture
from datassay.models import linear, n_outputs
from datassay.score import geometry_influence, influence_variance
from datassay.train import fitter

RIDGE, DAMPING = 1e-4, 0.01
REPEATS = 5


def measured(train: SampleSet, test: SampleSet, ridge: float = RIDGE) -> tuple[float, float]:
    """V of the training samples and the test accuracy of the fit to them."""
    model = linear(train.input_shape, n_outputs(train))
    fit = fitter(model, train, [test], loss="cross_entropy", ridge=ridge)
    fitted = fit.fit(torch.arange(len(train)))
    pairs = geometry_influence(fitted.geometry, train.ids, ridge, DAMPING)
    return influence_variance(pairs), output_score(fitted.others[0], test)


def split(samples: SampleSet, seed: int) -> tuple[SampleSet, SampleSet]:
    """8 : 2 at random, as the paper's Figs 5 and 7; parts with one class only cannot occur."""
    order = np.random.default_rng(seed).permutation(len(samples))
    cut = len(samples) * 8 // 10
    return samples.subset(order[:cut]), samples.subset(order[cut:])


def entropy(sizes: tuple[int, ...]) -> float:
    share = np.array([s for s in sizes if s]) / sum(sizes)
    return float(-(share * np.log(share)).sum())


def over_mixes(figure: int, mixes: list[tuple[int, ...]], repeats: int) -> list[list[float]]:
    """Mean V, its deviation and mean accuracy of each mix; recorded."""
    start, rows = time.perf_counter(), []
    for sizes in mixes:
        found = [measured(*split(sd_mixture(sizes, seed=s), s)) for s in range(repeats)]
        v, accuracy = np.array(found).T
        rows.append([v.mean(), v.std(ddof=1), accuracy.mean()])
    variance, _, accuracy = np.array(rows).T
    mixed = np.array([entropy(s) for s in mixes])
    record(
        f"papers/s4_mix/fig {figure}",
        mixes=mixes,
        repeats=repeats,
        variance=variance,
        accuracy=accuracy,
        variance_at_most=variance.max(),
        most_mixed_at=mixes[int(variance.argmax())],
        variance_pure=[variance[i] for i, s in enumerate(mixes) if max(s) == sum(s)],
        correlation_with_accuracy=pearsonr(variance, accuracy)[0],
        correlation_with_entropy=pearsonr(variance, mixed)[0],
        seconds=time.perf_counter() - start,
    )
    by_entropy = np.argsort(mixed)
    curves(
        f"s4_mix_{figure}_entropy",
        f"S4 Fig. {figure}'s mixes: V[X] against the entropy of the mix",
        {"ours": (mixed[by_entropy], variance[by_entropy])},
        x_title="entropy, nats",
        y_title="V[X]",
    )
    return rows


def figure_5() -> None:
    seconds = np.arange(0, 601, 60)
    rows = np.array(over_mixes(5, [(600 - int(b), int(b)) for b in seconds], REPEATS))
    theirs = s4_tasks.published(5)
    lines = {"ours": (seconds, rows[:, 0]), "published": (theirs["a"], theirs["E_p"])}
    title = "S4 Fig. 5: V[X] against |A2| of 600"
    curves("s4_mix_5", title, lines, x_title="|A2|", y_title="V[X]")
    lines = {"ours": (seconds, rows[:, 2]), "published": (theirs["a"], theirs["E_acc"])}
    title = "S4 Fig. 5: test accuracy against |A2| of 600"
    curves("s4_mix_5_accuracy", title, lines, x_title="|A2|", y_title="test accuracy")


def figure_7() -> None:
    grid = range(0, 601, 100)
    over_mixes(7, [(600 - b - c, b, c) for b in grid for c in grid if b + c <= 600], 3)


def figure_3() -> None:
    """14 x 14 pixels, so that H has 1970 rows instead of 7850; ridge 1e-3."""
    start, rates, rows = time.perf_counter(), (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9), []
    for rate in rates:
        found = []
        for seed in range(3):
            train, test = s4_tasks.idx_noisy("mnist", 10_000, rate, "uniform", seed)
            found.append(measured(halved(train), halved(test), ridge=1e-3))
        rows.append(np.mean(found, 0))
    variance, accuracy = np.array(rows).T
    record(
        "papers/s4_mix/fig 3",
        rates=rates,
        repeats=3,
        variance=variance,
        accuracy=accuracy,
        correlation_with_accuracy=pearsonr(variance, accuracy)[0],
        seconds=time.perf_counter() - start,
    )
    title = "S4 Fig. 3 on MNIST: V[X] against the share of wrong labels"
    theirs = s4_tasks.published(3)
    curves(
        "s4_mix_3",
        title,
        {
            "ours": (rates, variance / variance.max()),
            "published": (theirs["a"], theirs["E_p"] / theirs["E_p"].max()),
        },
        x_title="share of wrong labels",
        y_title="V[X] / its largest",
    )


def moments() -> None:
    """Purification of SD-2 by the raw fourth moment and by the variance, both at a fixed model."""
    for seed in range(3):
        train, test = sd_mixture((700, 300), seed=seed), sd_mixture((2000,), seed=1000 + seed)
        fit = fitter(linear((40,), 4), train, [test], loss="cross_entropy", ridge=RIDGE)
        for name, power in (("second", 2), ("fourth", 4), ("sixth", 6)):
            keep, scores, last = torch.arange(len(train)), [], None
            for _ in range(41):
                last = fit.fit(keep, last)
                scores.append(output_score(last.others[0], test))
                rows = geometry_influence(
                    last.geometry.subset(keep), train.ids[keep.numpy()], RIDGE, DAMPING
                ).rows
                x = -(rows @ rows.T)
                x.fill_diagonal_(0)
                # What z's pairs add to Σ X^power; removing the largest lowers the moment most.
                ranked = x.pow(power).sum(1).argsort(descending=True)
                keep = keep[ranked[10:].sort().values]
            record(
                f"papers/s4_mix/{name} raw moment, SD-2 700/300",
                seed=seed,
                start=scores[0],
                peak=max(scores),
                peak_removed=10 * int(np.argmax(scores)),
            )


def main() -> None:
    made = {"5": figure_5, "7": figure_7, "moments": moments, "3": figure_3}
    for name in sys.argv[1:] or made:
        made[name]()


if __name__ == "__main__":
    main()
