"""What averaged features and less precise products change in the scores: rank correlations.

`python fidelity.py outputs`: Fashion-MNIST, 400 training and 500 validation images, 10 outputs:
information, weight change and label scores of all n k rows, of the output-averaged kernel, and of
averaged features, one row a sample of p features, against the joint exact kernel; and the error
of drawing one output a feature instead of adding all up under random signs.
`python fidelity.py products 7500 400`: n samples, coordinates a tensor; averaged features with
products in float32 and bfloat16 against float64.
"""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from record import record
from scipy.stats import spearmanr

from datassay.collect.collect import collect
from datassay.collect.linearization import Linearization
from datassay.data.load import load
from datassay.models.build import build_model
from datassay.score.label_issues import label_issues
from datassay.score.leave_one_out import leave_one_out
from datassay.score.linear_influence import linear_influence

FOLDER = Path(os.environ.get("DATASSAY_DATA", ".")) / "fashion_mnist"
EACH = (200, 800, 1787)


def sets(n: int, m: int):
    train, val = load(FOLDER)
    return train.subset(np.random.default_rng(0).permutation(len(train))[:n]), val.subset(
        np.arange(m)
    )


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
    return {f"spearman_{name}": float(spearmanr(ours[name], exact[name])[0]) for name in exact}


def mixed(joint: Linearization, like: Linearization, way: str) -> Linearization:
    """Averaged features made of joint ones, as the kernel of so few samples."""
    k = joint.outputs.shape[1]
    g = torch.Generator().manual_seed(1)
    p = joint.features.shape[1]
    signs = torch.randint(2, (k, p), generator=g).double() * 2 - 1
    one = torch.randint(k, (p,), generator=g)

    def mix(features):
        rows = features.double().reshape(-1, k, p)
        if way == "signs":
            return (rows * signs).sum(1) / k**0.5
        return rows[:, one, torch.arange(p)]

    train, val = mix(joint.features), mix(joint.val_features)
    return replace(like, kernel=train @ train.T, val_kernel=val @ train.T)


def outputs(model_name: str = "mlp") -> None:
    train, val = sets(400, 500)
    model = build_model(model_name, train)
    exact = scores(collect(model, train, val, outputs="joint", projection=None))
    averaged = collect(model, train, val, outputs="averaged", projection=None)
    figures = {"n": len(train), "m": len(val), "k": 10}
    found = scores(averaged)
    record(f"fidelity/{model_name} averaged kernel", **figures, **ranks(found, exact))
    for each in EACH:
        joint = collect(model, train, val, outputs="joint", projection=each, memory=64e9)
        if joint.features is None:  # no more rows than features: nothing to mix
            continue
        for way in ("signs", "one output"):
            p = joint.features.shape[1]
            ours = scores(mixed(joint, averaged, way))
            to_joint = ranks(ours, exact)
            to_averaged = {f"{n}_to_averaged": r for n, r in ranks(ours, found).items()}
            name = f"fidelity/{model_name} averaged features, {way}"
            record(name, **figures, p=p, **to_joint, **to_averaged)


def products(n: int, each: int) -> None:
    train, val = sets(n, 10_000)
    model = build_model("mlp", train)
    lin = collect(model, train, val, outputs="averaged", projection=each, products="float64")
    exact = None
    for kind in ("float64", "float32", "bfloat16"):
        started = time.perf_counter()
        ours = scores(replace(lin, form=replace(lin.form, products=kind)))
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
    if sys.argv[1:2] == ["products"]:
        products(*(int(a) for a in sys.argv[2:4]))
    else:
        outputs(*sys.argv[2:3])
