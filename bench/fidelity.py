"""What projecting, sharing a kernel and less precise products change in the scores.

`python fidelity.py outputs mlp averaged 3` (or cnn; joint; draws): Fashion-MNIST's run over 60 000
samples, 400 of them scored from its features, for growing p, against the joint exact kernel: rank
correlations of information, label scores and mean influence, with 95 % intervals.
`python fidelity.py samples 400 1000 3000`: the same for more samples, averaged features against
the exact averaged kernel: whether what 400 samples say of p holds for more.
`python fidelity.py products 7500 400`: n samples, coordinates a tensor; averaged features with
products in float32 and bfloat16 against float64.
"""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from record import record

from datassay.collect import Linearization, collect
from datassay.data import load
from datassay.models import build_model
from datassay.score import (
    N_FEATURES,
    SCORES,
    label_issues,
    leave_one_out,
    linear_influence,
    projection_quality,
    rank_correlation,
)

FOLDER = Path(os.environ.get("DATASSAY_DATA", ".")) / "fashion_mnist"
# Of rows an output the kernels are ten times as large.
JOINT_FEATURES = (512, 1024, 2048, 4096)
# Bytes: what is too much for this machine is measured too, on a few samples.
NO_LIMIT = 1e12


def scores(lin: Linearization) -> dict[str, np.ndarray]:
    loo, issues = leave_one_out(lin), label_issues(lin)
    influence = linear_influence(lin, ridge=issues.ridge)
    return {
        "information": loo.prediction_change,
        "weight_change": loo.weight_change,
        "label_issues": issues.score,
        "influence_mean": influence.mean,
        "influence_variance": influence.variance,
    }


def ranks(ours: dict[str, np.ndarray], exact: dict[str, np.ndarray]) -> dict[str, float]:
    return {f"spearman_{name}": float(rank_correlation(ours[name], exact[name])) for name in exact}


def curve(name: str, model_name: str, **settings) -> None:
    """One line: the correlation curve of a form."""
    train, val = load(FOLDER)
    started = time.perf_counter()
    found = projection_quality(
        build_model(model_name, train), train, val, memory=NO_LIMIT, **settings
    )
    figures = {"draws": settings["draws"], "seconds": time.perf_counter() - started}
    for s in SCORES:
        figures |= {
            f"spearman_{s}": found.correlation[s].mean(1),
            f"low_{s}": found.low[s],
            f"high_{s}": found.high[s],
            f"unprojected_{s}": found.unprojected[s],
        }
    record(
        f"fidelity/{name}",
        n=len(train),
        scored=found.n_samples,
        k=10,
        reference=found.reference,
        p=found.n_features,
        **figures,
    )


def outputs(model_name: str, way: str, draws: str = "3") -> None:
    joint = {"n_features": JOINT_FEATURES} if way == "joint" else {}
    curve(f"{model_name} {way} features", model_name, outputs=way, draws=int(draws), **joint)


def samples(*sizes: str) -> None:
    for n in sizes:
        curve(
            f"mlp averaged features, {n} samples",
            "mlp",
            outputs="averaged",
            reference="averaged",
            n_samples=int(n),
            n_features=N_FEATURES[2:],
            draws=2,
        )


def products(size: str, each: str) -> None:
    n = int(size)
    train, val = load(FOLDER)
    train = train.subset(np.random.default_rng(0).permutation(len(train))[:n])
    model = build_model("mlp", train)
    lin = collect(model, train, val, outputs="averaged", projection=int(each), products="float64")
    exact = None
    for kind in ("float64", "float32", "bfloat16"):
        started = time.perf_counter()
        products = replace(lin.form.products, precision=kind)
        ours = scores(replace(lin, form=replace(lin.form, products=products)))
        seconds = time.perf_counter() - started
        exact = exact or ours
        worst = {
            f"error_{name}": float(np.abs(ours[name] / exact[name] - 1).max())
            for name in ("information", "weight_change")
        }
        record(
            f"fidelity/products {kind}",
            n=n,
            p=lin.features.shape[1],
            seconds=seconds,
            **ranks(ours, exact),
            **worst,
        )


if __name__ == "__main__":
    commands = {"outputs": outputs, "samples": samples, "products": products}
    commands[sys.argv[1]](*sys.argv[2:])
