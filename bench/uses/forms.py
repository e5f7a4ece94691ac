"""What projecting, sharing a kernel and less precise products change in the scores.

"averaged, ..." is on digits: one shared kernel, and a projection, instead of the joint one. The
others are Fashion-MNIST's run over 60 000 samples, 400 of them (or `--set n=400,1000,3000`) scored
from its features, for growing p, against an exact kernel: rank correlations of information, label
scores and mean influence, with 95 % intervals. "products": 7500 samples, 400 coordinates a tensor;
averaged features with products in float32 and bfloat16 against float64. "landmarks": 4500 images
of Fashion-MNIST by each form of the averaged kernel. "embeddings": 2000 photographs or texts, as
pixels or word counts and embedded. A tenth of the labels of both is wrong (AUROC).
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from bench.data import CIFAR_TRAIN, cats_dogs, cifar10, folder, some, texts
from bench.frame import Case, Options, Task
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from datassay.collect import Backbone, Linearization, collect
from datassay.data import add_label_noise, load
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

N_DIGITS = 400
FORMS = {
    "joint": {"outputs": "joint", "projection": None},
    "averaged": {"outputs": "averaged", "projection": None},
    "projected": {"outputs": "joint", "projection": 1000},
}
# Of rows per output the kernels are ten times as large.
JOINT = {"n_features": (512, 1024, 2048, 4096)}
NO_LIMIT = 1e12  # bytes: what is too much for this machine is measured too, on a few samples


def shared_kernel(width: int, options: Options) -> Iterator[tuple[str, dict]]:
    """On digits, MLPs of growing width, 10 outputs."""
    train, val = load("digits")
    train = train.subset(slice(0, N_DIGITS))
    model = build_model(f"mlp:width={width}", train)
    results = {name: leave_one_out(collect(model, train, val, **f)) for name, f in FORMS.items()}
    exact = results["joint"].prediction_change
    rank = {n: float(spearmanr(exact, r.prediction_change)[0]) for n, r in results.items()}
    agree = (results["joint"].held_out.argmax(1) == results["averaged"].held_out.argmax(1)).mean()
    yield f"averaged/digits width {width}", {
        "n": N_DIGITS, "k": 10, "width": width, "spearman_averaged": rank["averaged"],
        "spearman_projected": rank["projected"], "held_out_class_agreement": float(agree),
    }  # fmt: skip


def curve(name: str, model: str, options: Options, **settings) -> Iterator[tuple[str, dict]]:
    """The correlation curve of a form."""
    train, val = load(folder("fashion_mnist"))
    for n in options.value("n", (400,)):
        result = projection_quality(
            build_model(model, train), train, val, memory=NO_LIMIT, n_samples=n, **settings
        )
        figures = {}
        for s in SCORES:
            figures |= {
                f"spearman_{s}": result.correlation[s].mean(1), f"low_{s}": result.low[s],
                f"high_{s}": result.high[s], f"unprojected_{s}": result.unprojected[s],
            }  # fmt: skip
        yield f"fidelity/{name}" + (f", {n} samples" if n != 400 else ""), {
            "n": len(train), "scored": result.n_samples, "k": 10, "reference": result.reference,
            "p": result.n_features, "draws": settings["draws"], **figures,
        }  # fmt: skip


def scores(lin: Linearization) -> dict[str, np.ndarray]:
    loo, issues = leave_one_out(lin), label_issues(lin)
    influence = linear_influence(lin, ridge=issues.ridge)
    return {
        "information": loo.prediction_change, "weight_change": loo.weight_change,
        "label_issues": issues.score, "influence_mean": influence.mean,
        "influence_variance": influence.variance,
    }  # fmt: skip


def products(options: Options) -> Iterator[tuple[str, dict]]:
    n, each = options.value("size", 7500), options.value("projection", 400)
    train, val = load(folder("fashion_mnist"))
    train = train.subset(np.random.default_rng(0).permutation(len(train))[:n])
    model, how = build_model("mlp", train), {"outputs": "averaged", "products": "float64"}
    lin, exact = collect(model, train, val, projection=each, **how), None
    for kind in ("float64", "float32", "bfloat16"):
        started = time.perf_counter()
        form = replace(lin.form, products=replace(lin.form.products, precision=kind))
        ours = scores(replace(lin, form=form))
        exact, seconds = exact or ours, time.perf_counter() - started
        yield f"fidelity/products {kind}", {
            "n": n, "p": lin.features.shape[1], "seconds": seconds,
            **{f"spearman_{k}": float(rank_correlation(ours[k], exact[k])) for k in exact},
            **{f"error_{k}": float(np.abs(ours[k] / exact[k] - 1).max())
               for k in ("information", "weight_change")},
        }  # fmt: skip


def landmarks(options: Options) -> Iterator[tuple[str, dict]]:
    train, val = map(some, load(folder("fashion_mnist")), (4500, 1000), (0, 0))
    noisy, exact = add_label_noise(train, 0.1, seed=0), None
    forms = {"exact": ("averaged", None), "landmarks": ("landmarks", 1024)}
    for name, (outputs, each) in (forms | {"coordinates": ("averaged", 1787)}).items():
        lin = collect(build_model("mlp", noisy), noisy, val, outputs=outputs, projection=each)
        ours = leave_one_out(lin).prediction_change, label_issues(lin).score
        exact, auroc = exact or ours, roc_auc_score(noisy.y != noisy.true_y, ours[1])
        pairs = zip(("information", "label_issues"), ours, exact, strict=True)
        ranks = {f"spearman_{k}": float(rank_correlation(a, b)) for k, a, b in pairs}
        yield f"landmarks/{name}", {"form": lin.form.summary, "auroc": auroc, **ranks}


def embeddings(options: Options) -> Iterator[tuple[str, dict]]:
    photographs = {"cifar10": cifar10(*CIFAR_TRAIN)[:2], "cats_dogs": cats_dogs()}
    for name, (x, y) in (photographs | {"rt": texts("rt")}).items():
        order = np.random.default_rng(0).permutation(len(y))[:2000]
        auroc = {}
        for way, encode in (("plain", None), ("embedded", Backbone())):
            train, val = load((np.asarray(x)[order], y[order]), encode=encode)
            noisy = add_label_noise(train, 0.1, seed=0)
            score = label_issues(collect(build_model("auto", noisy), noisy, val)).score
            auroc[way] = roc_auc_score(noisy.y != noisy.true_y, score)
        yield f"embeddings/{name}", {"n": len(train), **auroc}


SAME = {"outputs": "averaged", "reference": "averaged", "draws": 2, "n_features": N_FEATURES[2:]}
TASK = Task(
    measure="what the form of the Jacobians changes in the scores",
    cases={
        **{f"averaged, width {w}": Case(partial(shared_kernel, w)) for w in (64, 256, 1024)},
        **{
            f"{model} {way} features": Case(
                partial(curve, f"{model} {way} features", model, outputs=way, draws=3, **more)
            )
            for model in ("mlp", "cnn")
            for way, more in (("averaged", {}), ("joint", JOINT))
        },
        "mlp averaged kernel": Case(partial(curve, "mlp averaged features", "mlp", **SAME)),
        "products": Case(products),
        "landmarks": Case(landmarks),
        "embeddings": Case(embeddings),
    },
)
