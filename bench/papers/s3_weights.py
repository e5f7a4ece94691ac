"""S3 §3.5: are a trained network's tensor weights a regression's? Tables 3.8, 3.9, Figs 3.13-3.18.

The text draws teachers' weights from the normal law of standard deviation 1/sqrt(d): units of norm
1, for which a regression's activation is 0.199 + 0.5 u + 0.199 u². What it prints, 0.114 + 0.498 u
+ 0.352 u², is that of units of norm 0.577, which weights uniform in +-1/sqrt(d) have (its chapter
2, and torch's start). Both laws are measured.

    python papers/s3_weights.py [runs [samples [--small]]]      --small: only d = 5, degree 4
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from figure import curves, scatters
from record import record
from s0_designs import rounded
from s3_students import LAWS, Problems, outputs, problems, r2, regression, students

from datassay.act import mean_interval
from datassay.polynomial import (
    Polynomial,
    l2_activation,
    minimax_activation,
    posterior_activation,
    tensor_weights,
    weight_match,
)

WIDTH, EPOCHS, DEGREE = 100, 20, 3
N_TEST, N_DRAWN = 10_000, 800
# S3 names no step: the first comes to its R² of 96.7 %, the second to the regression's, and Adam
# goes on to the teacher.
STUDENTS = {
    "SGD 6e-5": ("sgd", 6e-5),
    "SGD 1e-3": ("sgd", 1e-3),
    "Adam 5e-3": ("adam", 5e-3),
}
PRINTED = {
    "L2 as S3 prints it": [0.188, 0.5, 0.21],
    "Linf as S3 prints it": [0.096, 0.5, 0.3],
    "posterior as S3 prints it": [0.114, 0.498, 0.352, -1.1e-3],
}
THEIRS = {
    "student R2 in, out": [0.968, 0.967],
    "regression R2 in, out": [0.979, 0.975],
    "L2": [0.9983, 0.815, 0.0026],
    "Linf": [0.9984, 0.965, 0.0026],
    "posterior": [0.9984, 0.9853, 0.0031],
    "d = 5, degree 4": 0.78,
}
MEASURES = ("determination", "determination_from_zero", "squared_correlation")


def prior_activations(scale: float, degree: int) -> dict[str, np.ndarray]:
    """The approximations that need no regression; the last knows the norm of the units."""
    own = l2_activation("relu", degree, half_width=8 * scale, scale=scale)
    priors = {"L2": l2_activation("relu", degree), "Linf": minimax_activation("relu", degree)}
    found = {name: p.coef for name, p in {**priors, "L2 at the units' norm": own}.items()}
    if degree == DEGREE:
        found |= {k: np.array(v) for k, v in PRINTED.items()}
    return found


def compared(fits: list[Polynomial], networks: torch.Tensor, degree: int) -> dict[str, object]:
    """Means and half intervals over the runs, a list of degrees for each measure."""
    rows: dict[str, list] = {}
    ones = np.ones((networks.shape[2], 1))
    for fit, network in zip(fits, networks.double().numpy(), strict=True):
        beta, terms = fit.monomial_coef, fit.monomials
        norm = float(np.sqrt((network**2).sum(0).mean()))
        for counted in (True, False):
            told = "" if counted else ", no multiplicities"
            posterior = posterior_activation(beta, network, ones, terms, multiplicities=counted)
            rows.setdefault(f"posterior polynomial{told}", []).append(posterior)
            tried = {**prior_activations(norm, degree), "posterior": posterior}
            for name, a in tried.items():
                tensor = tensor_weights(network, ones, a, terms, multiplicities=counted)
                match = weight_match(beta, tensor, terms)
                for measure in MEASURES if name == "posterior" else MEASURES[:1]:
                    rows.setdefault(f"{name}{told}: {measure}", []).append(getattr(match, measure))
    return {name: summary(values) for name, values in rows.items()}


def summary(values: list[np.ndarray]) -> list[list[float]]:
    """[mean, half of its 95 % interval] of each entry."""
    return [rounded(mean_interval(column)) for column in np.array(values).T]


def fitted(given: Problems, degree: int) -> tuple[list[Polynomial], list[float], torch.Tensor]:
    """Regressions on the teachers' outputs, their in-sample R², outputs out of sample."""
    y = outputs(given.x.double(), given.teacher.double())
    each = zip(given.x, y, strict=True)
    found = [regression(x.double().numpy(), target.numpy(), degree) for x, target in each]
    fits, inside = map(list, zip(*found, strict=True))
    pairs = zip(fits, given.x_test.double().numpy(), strict=True)
    told = [fit.outputs(rows)[:, 0] for fit, rows in pairs]
    return fits, inside, torch.tensor(np.array(told))


def measured(
    law: str, d: int, degree: int, runs: int, n: int, trained: tuple[str, ...] = tuple(STUDENTS)
) -> dict[str, object]:
    start = time.perf_counter()
    given = problems(law, d, WIDTH, n, N_TEST, runs)
    truth = [outputs(x, given.teacher) for x in (given.x, given.x_test)]
    fits, inside, predicted = fitted(given, degree)
    shared = {
        "law": law, "d": d, "m": WIDTH, "n": n, "degree": degree, "runs": runs,
        "regression_r2": [
            rounded(mean_interval(np.array(r))) for r in (inside, r2(truth[1], predicted))
        ],
    }  # fmt: skip
    networks = {k: students(given, *STUDENTS[k], EPOCHS) for k in trained}
    networks["teacher"] = given.teacher
    for name, network in networks.items():
        told = [outputs(x, network) for x in (given.x, given.x_test)]
        record(
            f"papers/s3_weights/{law} d={d} {name}",
            **shared,
            network_r2=[
                rounded(mean_interval(np.array(r2(y, f)))) for y, f in zip(truth, told, strict=True)
            ],
            ours=compared(fits, network, degree),
            theirs=THEIRS,
            seconds=time.perf_counter() - start,
        )
    student = networks[trained[0]][:1]
    seen = {"in-sample": given.x[:1, :N_DRAWN], "out-of-sample": given.x_test[:1, :N_DRAWN]}
    return {
        "fit": fits[0],
        "student": student[0].double().numpy(),
        "outputs": {
            label: (fits[0].outputs(x[0].double().numpy())[:, 0], outputs(x, student)[0].numpy())
            for label, x in seen.items()
        },
    }


def drawn(cases: dict[str, dict]) -> None:
    """Figs 3.13 to 3.18; the first run of each law."""
    u, ones = np.linspace(-3, 3, 121), np.ones((WIDTH, 1))
    l2, largest = l2_activation("relu", DEGREE), minimax_activation("relu", DEGREE)
    lines = {"ReLU": np.maximum(u, 0), "L2": l2.values(u), "L∞": largest.values(u)}
    curves(
        "s3_weights_3_13",
        "S3 Fig. 3.13: ReLU and its polynomials",
        {k: (u, v) for k, v in lines.items()},
        x_title="u",
        y_title="",
    )
    posterior = {
        law: posterior_activation(
            c["fit"].monomial_coef, c["student"], ones, c["fit"].monomials
        )
        for law, c in cases.items()
    }  # fmt: skip
    for law, a in posterior.items():
        lines[f"posterior, {law}"] = np.polynomial.polynomial.polyval(u, a)
    curves(
        "s3_weights_3_17",
        "S3 Fig. 3.17: priors and posteriors, by the teachers' law",
        {k: (u, v) for k, v in lines.items()},
        x_title="u",
        y_title="",
    )
    scatters(
        "s3_weights_3_14",
        "S3 Fig. 3.14: outputs of student and regression",
        {f"{law} weights": c["outputs"] for law, c in cases.items()},
        x_title="regression",
        y_title="student",
    )
    figures = {"3_15": ("L2", l2.coef), "3_16": ("L∞", largest.coef), "3_18": ("posterior", None)}
    for number, (name, prior) in figures.items():
        rows = {}
        for law, c in cases.items():
            beta, terms = c["fit"].monomial_coef, c["fit"].monomials
            a = posterior[law] if prior is None else prior
            tensor = tensor_weights(c["student"], ones, a, terms)
            rows[f"{law} weights"] = {
                f"degree {t}": (beta[terms.degree == t, 0], tensor[terms.degree == t, 0])
                for t in range(1, DEGREE + 1)
            }
        scatters(
            f"s3_weights_{number}",
            f"S3 Fig. {number.replace('_', '.')}: tensor weights, {name} polynomial",
            rows,
            x_title="regression",
            y_title="student",
        )


if __name__ == "__main__":
    given_runs, given_n = [int(a) for a in sys.argv[1:3]] + [6, 50_000][len(sys.argv[1:3]) :]
    torch.set_num_threads(1)
    if "--small" not in sys.argv:
        drawn({law: measured(law, 20, DEGREE, given_runs, given_n) for law in LAWS})
    for each in LAWS:
        measured(each, 5, 4, given_runs, given_n, ("SGD 6e-5", "SGD 1e-3"))
