"""Active Bias, VBSW and both (S0 Table 5) with LeNet-5 on 10 000 images of Fashion-MNIST.

Vanilla and Active Bias networks of one seed start alike and see the same batches. On each, the last
layer is retrained from 10 seeds under local-variance weights and, as a control, under uniform ones.
Every figure is of the last epoch on all 10 000 test images, which nothing was chosen on.

    python papers/s0_active_bias.py [seeds]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from record import record
from tasks import draw, idx_images

from datassay.act import (
    HeadProblem,
    batched_active_bias,
    head_problem,
    local_variance_weights,
    mean_interval,
)
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.train import HeadRecipe, PredictionHistory, Recipe, train_networks

N, EPOCHS, WARM_UP, BATCH = 10_000, 15, 3, 64
N_NEIGHBORS, RATIO, RETRAININGS = 20, 40, 10
HEAD = HeadRecipe(epochs=10, batch_size=BATCH)


def trained(train: SampleSet, seed: int, *, active: bool) -> torch.nn.Module:
    """LeNet-5 with Adam, its batches weighted by Active Bias after the warm-up or not at all."""
    model = build_model("lenet5", train, seed=seed)
    history, labels = PredictionHistory(len(train)), torch.as_tensor(train.y)

    def weight(at: torch.Tensor) -> torch.Tensor:
        found = batched_active_bias(history, min_visits=WARM_UP)
        return len(train) * found.gather(1, at)

    networks = train_networks(
        [model],
        train,
        torch.arange(len(train))[None],
        Recipe(steps=EPOCHS * (len(train) // BATCH), batch_size=BATCH),
        seed=seed,
        sample_weight=weight if active else None,
        observe=(lambda at, outputs: history.record(at, outputs, labels)) if active else None,
    )
    model.load_state_dict({name: w[0] for name, w in networks.state.items()})
    return model


def retrained(problem: HeadProblem, test: SampleSet) -> tuple[float, np.ndarray]:
    """Test accuracy of the network as it is, and [retrainings, 2]: local variance and uniform."""
    features, y = problem.head.features(test), torch.as_tensor(test.y)
    found = local_variance_weights(
        problem.features.double().numpy(), problem.labels, N_NEIGHBORS, RATIO
    )
    weights = np.stack([found, np.full(len(found), 1 / len(found))])
    heads = problem.train(weights, HEAD, seeds=tuple(range(RETRAININGS)), stopped=False)
    right = heads.outputs(features).argmax(3) == y
    before = (problem.head.outputs(features).argmax(1) == y).double().mean()
    return float(before), right.double().mean(2).numpy()


def best_mean_error(values: np.ndarray) -> list[float]:
    """As the paper prints: the best, the mean, and the mean's standard error, in percent."""
    error = values.std(ddof=1) / np.sqrt(values.size)
    return [100 * values.max(), 100 * values.mean(), 100 * error]


def interval(values: np.ndarray) -> list[float]:
    """Mean and the ends of its 95 % interval by Student's t, in percent."""
    mean, half = mean_interval(values)
    return [100 * (mean + shift) for shift in (0, -half, half)]


def main(n_seeds: int) -> None:
    start = time.perf_counter()
    test = draw(idx_images, (10_000,), 0, "fashion_mnist", "test")[0]
    before, after = np.empty((2, n_seeds)), np.empty((2, n_seeds, RETRAININGS, 2))
    for seed in range(n_seeds):
        train = draw(idx_images, (N,), seed, "fashion_mnist")[0]
        for i, active in enumerate((False, True)):
            model = trained(train, seed, active=active)
            before[i, seed], after[i, seed] = retrained(head_problem(model, train), test)
            print(seed, active, before[i, seed], after[i, seed].mean(0), flush=True)
    gains = (after - before[:, :, None, None]).max(2)  # [method, seed, weighting]
    means = after.mean(2)
    figures = {}
    for i, name in enumerate(("vanilla", "active_bias")):
        figures |= {
            name: best_mean_error(before[i]),
            f"{name}_vbsw": best_mean_error(after[i, ..., 0]),
            f"{name}_uniform": best_mean_error(after[i, ..., 1]),
            f"{name}_vbsw_gain_per_model": best_mean_error(gains[i, :, 0]),
            f"{name}_uniform_gain_per_model": best_mean_error(gains[i, :, 1]),
            f"{name}_vbsw_minus_{name}": interval(means[i, :, 0] - before[i]),
            f"{name}_vbsw_minus_uniform": interval(means[i, :, 0] - means[i, :, 1]),
        }
    record(
        "papers/s0_active_bias",
        n=N,
        seeds=n_seeds,
        epochs=EPOCHS,
        retrainings=RETRAININGS,
        **figures,
        active_bias_minus_vanilla=interval(before[1] - before[0]),
        both_minus_vanilla=interval(means[1, :, 0] - before[0]),
        seconds=time.perf_counter() - start,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
