"""Influence over pairs: how true the orders of removal are, what they cost, how far they stream.

python divide.py [fidelity speed streaming theorem damping]     some of the cases, or all

damping needs DATASSAY_DATA. All models are softmax regressions with a bias on SD-2 (S4 §4), 700/300
or the same share of fewer samples; "published" training is S4's: Adam 1e-3, batches of 64 in
order, no penalty, until the loss is 0.1 or for 1000 epochs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from record import peak_mib, record
from scipy.stats import spearmanr
from torch import nn

from datassay.collect import OutputGeometry, output_geometry
from datassay.data import SampleSet, sd_mixture
from datassay.score import (
    RemovalEffects,
    geometry_effects,
    geometry_influence,
    gradient_moments,
    pair_moments,
)
from datassay.train import fit_convex

SEEDS = 3
DAMPING = 0.01
STREAMED = (60_000, 4096)


def ridge_fit(samples: SampleSet, ridge: float) -> OutputGeometry:
    """At the minimum of the mean loss with this ridge."""
    outputs = samples.n_classes or 1
    loss = "cross_entropy" if samples.is_classification else "mse"
    at = output_geometry(nn.Linear(samples.x.shape[1], outputs), samples, loss)
    return at.moved(fit_convex(at.features, at.targets, loss, ridge).weights[0])


def published_fit(samples: SampleSet, seed: int) -> OutputGeometry:
    """Where S4's training ends."""
    torch.manual_seed(seed)
    model = nn.Linear(samples.x.shape[1], samples.n_classes)
    x, y = torch.as_tensor(samples.x).float(), torch.as_tensor(samples.y)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(1000):
        losses = []
        for some, labels in zip(x.split(64), y.split(64), strict=True):
            loss = nn.functional.cross_entropy(model(some), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if np.mean(losses) <= 0.1:
            break
    return output_geometry(model, samples)


def effects(at: OutputGeometry, order: str, ridge: float, damping: float) -> RemovalEffects:
    ids = np.arange(len(at))
    return geometry_effects(at, ids, ridge=ridge, damping=damping, order=order)


def agreement(truth: RemovalEffects, other: RemovalEffects) -> float:
    return float(spearmanr(truth.effect, other.effect).statistic)


def common(a: RemovalEffects, b: RemovalEffects, top: int = 10) -> int:
    return len(set(a.ranking[:top]) & set(b.ranking[:top]))


def fidelity() -> None:
    """Ranks against true leave-one-out, and against the published step where nothing is exact."""
    sets = [sd_mixture((350, 150), seed=seed) for seed in range(SEEDS)]
    cases = [(r, d, "retrain") for r in (1e-2, 1e-3) for d in (0.0, DAMPING)]
    for ridge, damping, truth in [*cases, (0.0, DAMPING, "step")]:
        rows = {"fixed": [], "adjoint": []}
        shared, means = [], []
        for seed, samples in enumerate(sets):
            at = ridge_fit(samples, ridge) if ridge else published_fit(samples, seed)
            exact = effects(at, truth, ridge, damping)
            found = {order: effects(at, order, ridge, damping) for order in rows}
            for order in rows:
                rows[order].append(agreement(exact, found[order]))
            shared.append(common(exact, found["adjoint"]))
            means.append(exact.mean_effect)
        record(
            f"divide/fidelity ridge {ridge:g} damping {damping:g}",
            n=500,
            seeds=SEEDS,
            against=truth,
            spearman_fixed=rows["fixed"],
            spearman_adjoint=rows["adjoint"],
            spearman_adjoint_lowest_seed=min(rows["adjoint"]),
            top_ten_in_common=shared,
            mean_effect=means,
        )


def speed() -> None:
    """One step of purification, n = 1000, after the published training: same run, same arrays."""
    for seed in range(SEEDS):
        samples = sd_mixture((700, 300), seed=seed)
        at = published_fit(samples, seed)
        found, seconds = {}, {}
        # Interleaved, so that a busy machine slows all of them.
        for order in ("adjoint", "fixed", *("step", *("fixed", "adjoint") * 3) * 2):
            start = time.perf_counter()
            found[order] = effects(at, order, 0.0, DAMPING)
            took = time.perf_counter() - start
            seconds[order] = min(took, seconds.get(order, took))
        record(
            f"divide/speed seed {seed}",
            n=1000,
            features=41,
            classes=4,
            damping=DAMPING,
            seconds_fixed=seconds["fixed"],
            seconds_adjoint=seconds["adjoint"],
            seconds_step=seconds["step"],
            ratio_adjoint=seconds["step"] / seconds["adjoint"],
            ratio_fixed=seconds["step"] / seconds["fixed"],
            top_ten_adjoint=common(found["step"], found["adjoint"]),
            top_ten_fixed=common(found["step"], found["fixed"]),
            spearman_adjoint=agreement(found["step"], found["adjoint"]),
            spearman_fixed=agreement(found["step"], found["fixed"]),
        )


def streaming() -> None:
    """Two passes over a file of gradients, in a process that does nothing else."""
    n, p = STREAMED
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gradients"
        rng = np.random.default_rng(0)
        scale = np.arange(1, p + 1, dtype=np.float32) ** -0.5
        with path.open("wb") as file:
            for _ in range(0, n, 1000):
                heavy = rng.standard_exponential((1000, 1), dtype=np.float32)
                rows = rng.standard_normal((1000, p), dtype=np.float32)
                (heavy * rows * scale).tofile(file)
        rates = [_dgemm_rate(p)]
        alone = subprocess.run(
            [sys.executable, __file__, "--stream", str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
        figures = json.loads(alone.stdout)
        rates.append(_dgemm_rate(p))
    rate, cpu_rate = np.max(rates, 0)
    floor, cpu_floor = 3 * n * p**2 / rate, 3 * n * p**2 / cpu_rate
    record(
        "divide/streaming moments",
        n=n,
        p=p,
        passes=2,
        **figures,
        gigaflops_dgemm=rate / 1e9,
        floor_seconds=floor,
        ratio_to_floor=figures["seconds"] / floor,
        ratio_to_floor_cpu_seconds=figures["cpu_seconds"] / cpu_floor,
    )


def stream(path: str) -> None:
    """Moments of the file, as JSON."""
    n, p = STREAMED
    torch.zeros(1)
    base = peak_mib()
    calls = []

    def chunks() -> list[np.memmap]:
        calls.append(1)
        return [np.memmap(path, np.float32, "r", shape=(n, p))]

    start, cpu = time.perf_counter(), time.process_time()
    found = gradient_moments(chunks, damping=DAMPING)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert len(calls) == 2
    # The file's own pages count too while they are mapped, though the kernel may drop them.
    cost = {"seconds": seconds, "cpu_seconds": cpu, "peak_mib": peak_mib(), "imports_mib": base}
    names = ("mean", "variance", "skewness", "kurtosis", "skewness_error", "kurtosis_error")
    print(json.dumps(cost | {name: getattr(found, name) for name in names}))


def _dgemm_rate(p: int, rows: int = 1024) -> tuple[float, float]:
    """Operations a second, and a CPU second, of a product as large as the streaming ones."""
    a = torch.rand(rows, p, dtype=torch.float64)
    b = torch.rand(rows, p, dtype=torch.float64)
    out = torch.empty(p, p, dtype=torch.float64)
    seconds = []
    for _ in range(6):
        start, cpu = time.perf_counter(), time.process_time()
        torch.mm(a.T, b, out=out)
        seconds.append((time.perf_counter() - start, time.process_time() - cpu))
    best, best_cpu = np.min(seconds, 0)
    return 2 * rows * p**2 / best, 2 * rows * p**2 / best_cpu


def theorem() -> None:
    """(n − 2)/V times the mean effect of true removal, in print +2 (S4's Theorem 2)."""
    softmax = [ridge_fit(sd_mixture((140, 60), seed=s), 1e-2) for s in range(SEEDS)]
    squares = [ridge_fit(_regression(200, s), 1e-6) for s in range(SEEDS)]
    for name, fits, ridge in (("softmax", softmax, 1e-2), ("least squares", squares, 1e-6)):
        for damping in (0.0, DAMPING):
            found = [effects(at, "retrain", ridge, damping).mean_effect for at in fits]
            record(
                f"divide/theorem 2 {name} damping {damping:g}",
                n=200,
                seeds=SEEDS,
                ridge=ridge,
                mean_effect=found,
                in_print=2.0,
            )


def _regression(n: int, seed: int) -> SampleSet:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    return SampleSet(x, x @ rng.normal(size=5) + rng.normal(size=n), np.arange(n))


def damping() -> None:
    """V on the paper's own mixture, beside the values in our reference (83.2, 55.3, 10.4)."""
    sys.path.insert(0, str(Path(__file__).parent / "papers"))
    from s4_tasks import paper_sd

    dampings = (0.001, 0.01, 0.1)
    for which, reference in (("2spec", (83.2, 55.3, 10.4)), ("pure", (None, 5.25, None))):
        samples, _ = paper_sd(which)
        fits = {"published": published_fit(samples, 0), "minimum": ridge_fit(samples, 1e-6)}
        values = {
            name: [
                pair_moments(geometry_influence(at, samples.ids, 0.0, d)).variance for d in dampings
            ]
            for name, at in fits.items()
        }
        record(
            f"divide/damping {which}",
            n=len(samples),
            damping=dampings,
            variance_published_training=values["published"],
            variance_at_the_minimum=values["minimum"],
            reference=reference,
        )


CASES = {case.__name__: case for case in (fidelity, speed, streaming, theorem, damping)}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stream"]:
        stream(sys.argv[2])
    else:
        for chosen in sys.argv[1:] or CASES:
            CASES[chosen]()
