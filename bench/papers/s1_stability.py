"""How much information depends on the network (S1 Fig. 5): architecture, start, training length.

Cats against dogs, 1000 training samples as in the paper, photographs halved to 32 x 32, and five
initialisations. The paper's networks are pretrained on ImageNet and share most of their weights
over initialisations; ours start from random weights, all of them.
"""

from __future__ import annotations

import numpy as np
from bench.data import pets
from bench.frame import Case, Options, Task
from bench.papers.figure import heatmaps

import datassay as da
from datassay.score import Stability, stability

SEEDS = 5
NETWORKS = {
    "linear": "linear",
    "MLP(1024)": "mlp:width=1024",
    "MLP(512)²": "mlp:width=512,depth=2",
    "LeNet-5": "lenet5",
}
LENGTHS = (200, 1000, 5000, 20_000, 100_000)


def spread(values: np.ndarray) -> tuple[float, float]:
    """Mean and deviation of the entries above the diagonal."""
    above = values[np.triu_indices(len(values), 1)]
    return float(above.mean()), float(above.std(ddof=1))


def matrices(name: str, found: Stability) -> dict[str, object]:
    names = ("pearson", "pearson_spread", "spearman")
    return {f"{name}s": list(found.names)} | {
        f"{name}_{key}": getattr(found, key).round(3) for key in names
    }


def figure_5(options: Options) -> dict[str, object]:
    train, val = pets((1000, 500), 0)
    by_network: dict[str, list[np.ndarray]] = {name: [] for name in NETWORKS}
    by_length: dict[str, list[np.ndarray]] = {str(t): [] for t in LENGTHS}
    for seed in range(SEEDS):
        for name, network in NETWORKS.items():
            lin = da.collect(da.build_model(network, train, seed=seed), train, val)
            by_network[name].append(da.sample_information(lin).information)
            if name == "MLP(1024)":
                for t in LENGTHS:
                    by_length[str(t)].append(da.sample_information(lin, steps=t).information)
    architectures = stability({k: np.stack(v) for k, v in by_network.items()})
    lengths = stability({k: np.stack(v) for k, v in by_length.items()})
    starts = {
        name: stability({str(s): v for s, v in enumerate(found)})
        for name, found in by_network.items()
    }
    heatmaps(
        "s1_stability_5",
        "S1 Fig. 5: correlation of information, cats vs dogs, mean of 5 initialisations",
        {
            "architecture (Pearson)": (architectures.names, architectures.pearson),
            "training steps (Pearson)": (lengths.names, lengths.pearson),
        },
    )
    return {
        "n": 1000, "seeds": SEEDS,
        **matrices("architecture", architectures), **matrices("length", lengths),
        "initialisation_pearson": {k: spread(v.pearson) for k, v in starts.items()},
        "initialisation_spearman": {k: spread(v.spearman) for k, v in starts.items()},
    }  # fmt: skip


TASK = Task(
    measure="S1 Fig. 5: how information depends on the network",
    cases={"cats vs dogs": Case(figure_5)},
    lines="s1_stability/",
)
