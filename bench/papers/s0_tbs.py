"""S0 Table 6: 8 grid points and 8 more, uniform or Taylor-based, for a network of 8 ReLU units.

40 runs a design, Adam as in Keras, mean squared error, all runs in one batched program. The paper
does not say how many epochs; UPDATES full batches here. Inputs in [0, 1] and biases of 0 leave
half of the units without any effect from the start, so that the networks fail whatever the points;
"centred" asks what is left of the difference with inputs moved to [-1, 1].

    python papers/s0_tbs.py [runs [updates]]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from figure import curves
from record import record
from s0_designs import keras_networks, summary
from torch import nn

from datassay.act import compare_designs, taylor_index, taylor_sample
from datassay.collect import derivatives, point_function
from datassay.data import function_problem
from datassay.models import Affine
from datassay.train import Recipe

N, EPSILON, COMPONENTS, ORDER, UPDATES = 8, 1e-3, 3, 2, 5000
N_TEST = 1000
# L2, half its interval, L infinity, half its interval.
PAPER = {
    "runge": {"uniform": [1.45e-2, 0.62e-2, 5.31e-2, 0.86e-2],
              "Taylor": [1.13e-2, 0.73e-2, 3.87e-2, 0.48e-2]},
    "tanh": {"uniform": [0.139, 0.067, 0.275, 0.078], "Taylor": [0.095, 0.050, 0.225, 0.061]},
}  # fmt: skip


def measured(name: str, repeats: int, updates: int, centred: bool = False) -> None:
    start, problem = time.perf_counter(), function_problem(name)
    f, how = problem.function, {"order": ORDER, "epsilon": EPSILON, "n_components": COMPONENTS}
    g = point_function(f, np.full((1, 1), 0.5))
    found = [
        taylor_sample(f, (0, 1), n_initial=N, n_new=N, initial="grid", seed=s, **how)
        for s in range(repeats)
    ]
    grid = found[0].x[:N]
    plain = [
        np.concatenate([grid, np.random.default_rng([7, s]).uniform(size=(N, 1))])
        for s in range(repeats)
    ]
    test = np.linspace(0, 1, N_TEST)[:, None]
    designs = {"uniform": [(x, g(x)) for x in plain], "Taylor": [(s.x, s.y) for s in found]}
    fine = [
        taylor_sample(f, (0, 1), n_initial=1000, n_new=N, initial="grid", seed=s, **how)
        for s in range(repeats)
    ]
    denser = [np.concatenate([grid, s.x[s.is_new]]) for s in fine]
    designs["Taylor, Df at 1000 points"] = [(x, g(x)) for x in denser]
    even = np.linspace(0, 1, 2 * N)[:, None]
    designs["grid of 16"] = [(even, g(even))] * repeats
    recipe = Recipe(steps=updates, batch_size=None, loss="mse")
    networks = keras_networks(1, (8,), 1, repeats)
    if centred:
        networks = [nn.Sequential(Affine(*torch.tensor([2.0, -1.0])), *n) for n in networks]
    result = compare_designs(designs, (test, g(test)), networks, recipe, scale_targets=False)
    record(
        f"papers/s0_tbs/table 6 {name}{' centred' * centred}",
        runs=repeats,
        updates=updates,
        epsilon=EPSILON,
        order=ORDER,
        components=COMPONENTS,
        ours=summary(result),
        theirs=PAPER[name],
        seconds=time.perf_counter() - start,
    )
    index = taylor_index(derivatives(g, test, ORDER, bounds=found[0].domain)[1], EPSILON)
    lines = {"f": g(test)[:, 0], "Df, its largest value 1": index / index.max()}
    title = f"S0 Fig. 4: {name} and its Taylor index"
    lines = {label: (test[:, 0], values) for label, values in lines.items()}
    curves(f"s0_tbs_{name}", title, lines, x_title="x", y_title="")


if __name__ == "__main__":
    given = [int(a) for a in sys.argv[1:]]
    for problem_name in PAPER:
        for moved in (False, True):
            measured(problem_name, *(given + [40, UPDATES][len(given) :]), centred=moved)
