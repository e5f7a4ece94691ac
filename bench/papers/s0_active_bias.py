"""Active Bias, VBSW and both (S0 Table 5) with LeNet-5 on 10 000 images of Fashion-MNIST.

Vanilla and Active Bias networks of one seed start alike and see the same batches. On each, the last
layer is retrained from 10 seeds under local-variance weights and, as a control, under uniform ones.
Every figure is of the last epoch on all 10 000 test images, which nothing was chosen on.
"""

from functools import partial

import numpy as np
import torch
from bench.data import draw, idx_images
from bench.frame import Case, Options, Task
from bench.networks import taken, trained_on_all
from bench.stats import best_mean_error, interval

from datassay.act import HeadProblem, batched_active_bias, head_problem, local_variance_weights
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.train import HeadRecipe, PredictionHistory, Recipe

N, EPOCHS, WARM_UP, BATCH, SEEDS = 10_000, 15, 3, 64, 5
N_NEIGHBORS, RATIO, RETRAININGS = 20, 40, 10
HEAD = HeadRecipe(epochs=10, batch_size=BATCH)
best, ends = partial(best_mean_error, scale=100), partial(interval, scale=100)


def trained(train: SampleSet, seed: int, *, active: bool) -> torch.nn.Module:
    """LeNet-5 with Adam, its batches weighted by Active Bias after the warm-up or not at all."""
    model = build_model("lenet5", train, seed=seed)
    history, labels, how = PredictionHistory(len(train)), torch.as_tensor(train.y), {}

    def weight(index: torch.Tensor) -> torch.Tensor:
        result = batched_active_bias(history, min_visits=WARM_UP)
        return len(train) * result.gather(1, index)

    if active:
        observe = lambda position, outputs: history.record(position, outputs, labels)  # noqa: E731
        how = {"sample_weight": weight, "observe": observe}
    recipe = Recipe(steps=EPOCHS * (len(train) // BATCH), batch_size=BATCH)
    return taken(trained_on_all([model], train, recipe, seed, **how), model)


def retrained(problem: HeadProblem, test: SampleSet) -> tuple[float, np.ndarray]:
    """Test accuracy of the network as it is, and [retrainings, 2]: local variance and uniform."""
    features, y = problem.head.features(test), torch.as_tensor(test.y)
    rows = problem.features.double().numpy()
    result = local_variance_weights(rows, problem.labels, N_NEIGHBORS, RATIO)
    weights = np.stack([result, np.full(len(result), 1 / len(result))])
    heads = problem.train(weights, HEAD, seeds=tuple(range(RETRAININGS)), stopped=False)
    right = heads.outputs(features).argmax(3) == y
    before = (problem.head.outputs(features).argmax(1) == y).double().mean()
    return float(before), right.double().mean(2).numpy()


def table_5(options: Options) -> dict[str, object]:
    seeds = options.repeats or SEEDS
    test = draw(idx_images, (10_000,), 0, "fashion_mnist", "test")[0]
    before, after = np.empty((2, seeds)), np.empty((2, seeds, RETRAININGS, 2))
    for seed in range(seeds):
        train = draw(idx_images, (N,), seed, "fashion_mnist")[0]
        for i, active in enumerate((False, True)):
            model = trained(train, seed, active=active)
            before[i, seed], after[i, seed] = retrained(head_problem(model, train), test)
    gains = (after - before[:, :, None, None]).max(2)  # [method, seed, weighting]
    means, figures = after.mean(2), {}
    for i, name in enumerate(("vanilla", "active_bias")):
        figures |= {
            name: best(before[i]),
            f"{name}_vbsw": best(after[i, ..., 0]),
            f"{name}_uniform": best(after[i, ..., 1]),
            f"{name}_vbsw_gain_per_model": best(gains[i, :, 0]),
            f"{name}_uniform_gain_per_model": best(gains[i, :, 1]),
            f"{name}_vbsw_minus_{name}": ends(means[i, :, 0] - before[i]),
            f"{name}_vbsw_minus_uniform": ends(means[i, :, 0] - means[i, :, 1]),
        }
    return {
        "n": N, "seeds": seeds, "epochs": EPOCHS, "retrainings": RETRAININGS, **figures,
        "active_bias_minus_vanilla": ends(before[1] - before[0]),
        "both_minus_vanilla": ends(means[1, :, 0] - before[0]),
    }  # fmt: skip


TASK = Task("S0 Table 5: Active Bias and VBSW", {"s0_active_bias": Case(table_5)}, lines="papers/")
