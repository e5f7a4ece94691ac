"""S1's measures of information on the same samples: eq. 1, its bound, and each noise (eqs. 7, 15).

200 samples (wine 90), a tenth of the labels wrong, are trained on; 50 (30) stand for those that
could be in their place; 100 (50) are asked. MLP(256), averaged outputs, three seeds. Spearman's
correlation over samples with "functional", and the area under the curve of wrong labels. Columns of
tables are standardised.

"bounds": linear fits to five halves of breast cancer (284 samples, features of length about 1,
weight decay 1 of the sum loss), labels as given and at random, noise σ in the weights: how much
higher the accuracy on training samples is than on new ones, its bound, and that on new ones.
"""

import time
from functools import partial

import numpy as np
import torch
from bench.frame import Case, Options, Task
from scipy.stats import norm, spearmanr
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

import datassay as da
from datassay.models import linear, mlp
from datassay.score import marginal_information, overfitting_bound

SIZES = {"digits": (200, 50, 100), "wine": (90, 30, 50), "breast_cancer": (200, 50, 100)}
BATCH, STEPS = 32, 2000


def problem(name: str, seed: int):
    """The linearisation of n + q samples with m queries, and which of the n labels are wrong."""
    n, q, m = SIZES[name]
    parts, g = da.load(name), np.random.default_rng(seed)
    x, y = (np.concatenate([getattr(p, key) for p in parts]) for key in "xy")
    order = g.permutation(len(x))[: n + q + m]
    x, y = x[order].reshape(len(order), -1).astype("float32"), y[order]
    x = x / x.max() if name == "digits" else (x - x.mean(0)) / x.std(0)
    wrong, k = np.zeros(n, bool), int(y.max()) + 1
    wrong[g.permutation(n)[: n // 10]] = True
    y[:n][wrong] = (y[:n][wrong] + g.integers(1, k, wrong.sum())) % k
    torch.manual_seed(seed)
    train, val = (x[: n + q], y[: n + q]), (x[n + q :], y[n + q :])
    return da.collect(mlp((x.shape[1],), k, width=256), train, val, outputs="averaged"), wrong


def measured(name: str, options: Options) -> dict[str, object]:
    results: dict[str, list[float]] = {}
    for seed in range(options.seed, options.seed + (options.repeats or 3)):
        lin, wrong = problem(name, seed)
        fresh = np.arange(len(wrong), len(lin))
        part = lin.subset(np.arange(len(wrong)))
        loo = da.leave_one_out(part, steps=STEPS)
        run = {"loo": loo, "batch_size": BATCH}
        measures = {
            "functional": da.sample_information(part, loo=loo).information,
            "isotropic": da.sample_information(part, smoothing="isotropic", loo=loo).information,
            "sgd_outputs": da.sample_information(part, smoothing="sgd_outputs", **run).information,
            "langevin": da.sample_information(part, smoothing="langevin", **run).information,
        }
        for sigma in (1.0, 0.1):
            start = time.perf_counter()
            eq1 = marginal_information(lin, fresh, sigma=sigma, steps=STEPS, lr=loo.run.step)
            figures = {
                "seconds": time.perf_counter() - start,
                "of its bound": eq1.information.mean() / eq1.left_out.mean(),
                "above its bound": np.mean(eq1.information > eq1.left_out + 3 * eq1.standard_error),
            }
            measures[f"eq. 1, sigma {sigma:g}"] = eq1.information
            for key, value in figures.items():
                results.setdefault(f"eq. 1, sigma {sigma:g}, {key}", []).append(float(value))
        own = np.mean(measures["sgd_outputs"] < part.outputs.shape[1] / 2)
        results.setdefault("below SGD's own draw", []).append(float(own))
        for key, value in measures.items():
            rank = spearmanr(value, measures["functional"])[0]
            results.setdefault(f"{key}, rank correlation", []).append(float(rank))
            auroc = float(roc_auc_score(wrong, value))
            results.setdefault(f"{key}, wrong labels", []).append(auroc)
    return {key: [round(v, 4) for v in values] for key, values in results.items()}


def bounds(options: Options) -> dict[str, object]:
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0) / np.sqrt(x.shape[1])
    results: dict[str, list[list[float]]] = {}
    for seed in range(options.seed, options.seed + (options.repeats or 5)):
        g = np.random.default_rng(seed)
        train, new = np.split(g.permutation(len(x)), [len(x) // 2])
        for name, labels in {"given": y, "random": g.integers(0, 2, len(y))}.items():
            parts = [(x[i].astype("float32"), labels[i]) for i in (train, new)]
            model = linear((x.shape[1],), 2)
            torch.nn.utils.vector_to_parameters(torch.zeros(2 * x.shape[1] + 2), model.parameters())
            lin = da.collect(model, *parts, outputs="joint", projection=None)
            loo = da.leave_one_out(lin, weight_decay=1.0, dynamics="converged")
            phi = [np.column_stack([part, np.ones(len(part))]) for part, _ in parts]
            sign = [2.0 * z - 1 for _, z in parts]  # the difference of the two outputs' targets
            w = np.linalg.solve(phi[0].T @ phi[0] + np.eye(phi[0].shape[1]), phi[0].T @ sign[0])
            for sigma in (0.01, 0.1, 0.2):
                info = da.sample_information(lin, loo=loo, smoothing="isotropic", sigma=sigma)
                old, fresh = (
                    norm.cdf(s * (p @ w) / (np.sqrt(2) * sigma * np.linalg.norm(p, axis=1))).mean()
                    for p, s in zip(phi, sign, strict=True)
                )
                sure = np.mean(sign[1] * (phi[1] @ w) > 0)
                row = [overfitting_bound(info), old - fresh, fresh, sure]
                results.setdefault(f"{name}, sigma {sigma:g}", []).append(row)
    names = ("bound", "gap", "accuracy", "accuracy without noise")
    return {f"{key}, {name}": round(float(value), 4) for key, rows in results.items()
            for name, value in zip(names, np.mean(rows, axis=0), strict=True)}  # fmt: skip


TASK = Task(
    measure="S1's measures of information compared",
    cases={
        **{name: Case(partial(measured, name)) for name in SIZES},
        "bounds": Case(bounds),
    },
    lines="papers/s1_measures/",
)
