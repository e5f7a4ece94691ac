"""S0 Table 7: the Bateman equations learnt from uniform and from Taylor-based points.

20 networks a design instead of 50, N = N' = 4000 instead of 25 000, 20 000 updates of 512 points
instead of 40 000 of 50 000. All networks are one batched program. "printed" takes eq. 2 at its
word: ‖·‖ is the squared norm, so that the vector 5e-4 (1, 1, 1) is our ε = 3 · (5e-4)². "variance"
takes ε = 5e-4 as the variance that S0's App. B has, with our floor to the mixture's variances and
with scikit-learn's. `--set updates=10000`.
"""

from functools import partial

import numpy as np
import torch
from bench.frame import Case, Options, Row, Task
from bench.stats import mean_half, rounded
from torch import nn

from datassay.act import SamplingComparison, compare_designs, taylor_sample
from datassay.data import function_problem
from datassay.train import Recipe

N, EPSILON, COMPONENTS, ORDER, BATCH = 4000, 5e-4, 10, 2, 512
PRINTED = 3 * EPSILON**2
N_TEST, SIDE, TIMES = 50_000, 40, 41
PAPER = {
    "uniform": {"L2": [1.22e-4, 0.13e-4], "Linf": [0.528, 0.047]},
    "Taylor": {"L2": [1.14e-4, 0.15e-4], "Linf": [0.296, 0.037]},
    "AEG": [2.51e-2, 0.07e-2],
    "AEL": [0.42e-2, 0.008e-2],
}
DESIGNS = {
    "printed": {"Taylor": {"epsilon": PRINTED}},
    "variance": {
        "Taylor": {"epsilon": EPSILON},
        "Taylor, scikit-learn's floor": {"epsilon": EPSILON, "floor": 1e-6},
    },
}


def keras_networks(n_inputs: int, widths: tuple[int, ...], n_outputs: int, repeats: int):
    """ReLU networks as Keras starts them: Glorot's uniform weights, biases 0; one per seed."""
    networks = []
    for seed in range(repeats):
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for size, width in zip((n_inputs, *widths[:-1]), widths, strict=True):
            layers += [nn.Linear(size, width), nn.ReLU()]
        network = nn.Sequential(*layers, nn.Linear(widths[-1], n_outputs))
        for layer in network:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        networks.append(network)
    return networks


def compared(problem, reading: str, repeats: int, updates: int) -> tuple[SamplingComparison, dict]:
    """Networks on uniform points, and on each of the reading's designs."""
    low, high = problem.domain.T

    def uniform(seed: int, n: int):
        x = np.random.default_rng([7, seed]).uniform(low, high, (n, 3))
        return x, problem.function(x).numpy()

    how = {"order": ORDER, "n_components": COMPONENTS, "n_initial": N, "n_new": N}
    designs, facts = {"uniform": [uniform(s, 2 * N) for s in range(repeats)]}, {}
    for name, own in DESIGNS[reading].items():
        results = [
            taylor_sample(problem.function, problem.domain, seed=s, **how, **own)
            for s in range(repeats)
        ]
        designs[name] = [(one.x, one.y) for one in results]
        fitted = [one.density.n_fitted for one in results]
        accepted = np.mean([one.acceptance for one in results])
        last = np.mean([one.terms[:, -1].sum() / one.index.sum() for one in results])
        names = "points in the fit, least and mean; acceptance; share of order 2 in Df"
        facts[f"{name}: {names}"] = rounded([min(fitted), np.mean(fitted), accepted, last])
    recipe = Recipe(steps=updates, batch_size=BATCH, loss="mse")
    networks, test = keras_networks(3, (32, 32), 2, repeats), uniform(10**6, N_TEST)
    return compare_designs(designs, test, networks, recipe, scale_targets=False), facts


def gains(result: SamplingComparison, problem) -> np.ndarray:
    """Z of each run, [S, SIDE, SIDE], uniform minus Taylor."""
    (u, eta), _, (_, t) = problem.domain
    axes = np.linspace(u, eta, SIDE), np.linspace(u, eta, SIDE), np.linspace(0, t, TIMES)
    x = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)  # u₀ first, then η₀
    apart = result.outputs(x)[:2] - problem.function(x).numpy()
    worst = (apart**2).sum(-1).reshape(*apart.shape[:2], SIDE, SIDE, TIMES).max(-1)
    return worst[0] - worst[1]


def table_7(reading: str, options: Options) -> dict[str, object]:
    repeats, updates = options.repeats or 20, options.value("updates", 20_000)
    problem = function_problem("bateman")
    result, facts = compared(problem, reading, repeats, updates)
    z = gains(result, problem)
    ours = {  # mean, half its interval and median of both errors
        f"{name} {label}": rounded([*mean_half(values), np.median(values)])
        for name, l2, worst in zip(
            result.names, result.root_mean_square, result.largest, strict=True
        )
        for label, values in (("L2", l2**2), ("Linf", worst))
    }
    return {
        "runs": repeats, "points": 2 * N, "updates": updates, "batch": BATCH,
        "designs": DESIGNS[reading], "largest": [rounded(values) for values in result.largest],
        "order": ORDER, "components": COMPONENTS, "ours": ours, "theirs": PAPER, "facts": facts,
        "AEG": mean_half(np.maximum(z, 0).mean((1, 2))),
        "AEL": mean_half(np.maximum(-z, 0).mean((1, 2))),
    }  # fmt: skip


def rows(lines: dict[str, dict]) -> Row:
    ours = lines["papers/s0_bateman/table 7 printed"]["ours"]
    worst, mean = (
        [ours[f"{name} {norm}"][0] for name in ("uniform", "Taylor")] for norm in ("Linf", "L2")
    )
    return Row(
        "Bateman equations from 8000 points, 20 networks: largest error, all points uniform, "
        "half of them drawn where the solution changes (mean squared error)",
        f"{worst[0]:.3f}, {worst[1]:.3f} ({1e5 * mean[0]:.1f}e-5, {1e5 * mean[1]:.1f}e-5)",
    )


TASK = Task(
    measure="S0 Table 7: the Bateman equations from Taylor-based points",
    cases={f"table 7 {reading}": Case(partial(table_7, reading)) for reading in DESIGNS},
    lines="papers/s0_bateman/",
    rows=rows,
)
