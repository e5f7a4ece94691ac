"""S1's measures of information on the same samples: eq. 1, its bound, and each noise (eqs. 7, 15).

200 samples (wine 90), a tenth of the labels wrong, are trained on; 50 (30) stand for those that
could be in their place; 100 (50) are asked. MLP(256), averaged outputs, three seeds. Spearman's
correlation over samples with "functional", and the area under the curve of wrong labels. Columns of
tables are standardised.
"""

import time
from functools import partial

import numpy as np
import torch
from bench.frame import Case, Options, Task
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

import datassay as da
from datassay.models import mlp
from datassay.score import marginal_information

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


TASK = Task(
    measure="S1's measures of information compared",
    cases={name: Case(partial(measured, name)) for name in SIZES},
    lines="papers/s1_measures/",
)
