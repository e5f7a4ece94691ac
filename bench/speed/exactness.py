"""leave_one_out against delete-and-redecompose: the largest error as a share of what is allowed.

Allowed is 1e-8 (|b| + 1e-6 max|b|), so a share below 1 passes. The oracle is the tests' own.
"""

import itertools
import sys
from functools import partial

import numpy as np
import torch
from bench.frame import HERE, Case, Options, Row, Task

from datassay.score import leave_one_out

sys.path.insert(0, str(HERE.parent / "tests"))

KINDS = ("flow", "descent", "converged")
SHAPES = {1: (60, 1), 3: (20, 3), 10: (12, 10)}  # k → (n, rows per sample)


def share(ours, oracle) -> float:
    oracle = np.asarray(oracle)
    allowed = 1e-8 * (np.abs(oracle) + 1e-6 * np.abs(oracle).max())
    return float((np.abs(np.asarray(ours) - oracle) / allowed).max())


def one(kind: str, k: int, penalty: float, tau: float, p: int, dual: bool) -> float:
    from helpers.linearizations import brute_force, linearization, random_jacobians

    n, b = SHAPES[k]
    phi, r, val = random_jacobians(n, b, 1, p, 20, seed=k, decay=0.5)
    largest = float(torch.linalg.matrix_norm(phi.flatten(0, 1), 2) ** 2) + penalty
    # Descent takes the steps that reach the time τ at η·λ_max = 1.6, where modes oscillate.
    eta = 1.6 / largest if kind == "descent" else tau
    steps = max(1, round(tau / eta)) if kind == "descent" else 1
    oracle = brute_force(phi, r, val, kind, eta, steps, penalty)
    lin = linearization(phi, r, val, dual=dual)
    ours = leave_one_out(lin, lr=eta, steps=steps, weight_decay=penalty, dynamics=kind)
    names = ("held_out", "prediction_change", "weight_change")
    return max(share(getattr(ours, name), value) for name, value in zip(names, oracle, strict=True))


def largest(kind: str, options: Options) -> dict[str, object]:
    forms = ((150, True), (25, True), (25, False))  # wide features, rank-deficient dual, primal
    times = (1e-3, 0.1, 2.0, 1e3)
    shares = {
        (k, penalty, tau, p, dual): one(kind, k, penalty, tau, p, dual)
        for k, penalty, tau, (p, dual) in itertools.product(SHAPES, (0.0, 0.5), times, forms)
    }
    worst = max(shares, key=lambda key: shares[key])
    return {
        "cases": len(shares),
        "error_share_of_allowed": shares[worst],
        "median_share": float(np.median(list(shares.values()))),
        "worst_case": str(dict(zip(("k", "penalty", "tau", "p", "dual"), worst, strict=True))),
    }


def rows(lines: dict[str, dict]) -> Row:
    exact = [lines[f"exactness/{kind}"] for kind in KINDS]
    what = (f"Leave-one-outs, worst error of {sum(x['cases'] for x in exact)} cases, as a share of "
            "the allowed 1e-8 (\\|b\\| + 1e-6 max\\|b\\|)")  # fmt: skip
    return Row(what, f"{max(x['error_share_of_allowed'] for x in exact):.2f}")


TASK = Task(
    measure="errors of leave-one-outs, as a share of what is allowed",
    cases={kind: Case(partial(largest, kind)) for kind in KINDS},
    lines="exactness/",
    rows=rows,
)
