"""The last section of a sampling's page: equations, where they are from, what we decided."""

from __future__ import annotations

from datassay.act.sample.comparison import SamplingComparison
from datassay.commands.sample.findings import SamplingFindings
from datassay.report.wording import count

DERIVATIVES = {
    "autograd": "Exact, by automatic differentiation in double precision.",
    "finite": (
        "Central differences on the smallest stencil of each partial derivative; the step of order "
        "m is 2.2e-16 to the power of 1/(m + 2), in widths of the domain, and the error of the "
        "order of the step squared. At the edge of the domain the stencil is moved inwards."
    ),
}
BOUND = (
    "J ≤ Σ_i (|f′(X_i)| + K)² |S_i|³/3 for a K-Lipschitz model that is right at the points (S0 "
    "App. B, eq. 9; its eq. 1 prints ¼ instead of ⅓). Cells S_i end half-way between points, "
    "lengths are shares of the domain. ⅓ holds wherever X_i lies in its cell; for one in the "
    "middle ¹⁄₁₂ would do. K = 0 is the function's share alone; a network that follows the "
    "function needs a K of at least its largest slope, which weighs all cells more alike."
)


def notes(findings: SamplingFindings) -> tuple[tuple[str, str], ...]:
    """Terms and what they mean in this run."""
    sample = findings.sample
    n, k = len(sample.index), len(sample.density.weight)
    pairs = [
        (
            "Taylor index Df",
            f"Df(x) = Σ ε^k ‖∂^k f(x)‖² / k! over the multi-indices 1 ≤ |k| ≤ {sample.order} (S0 "
            "eq. 2 and 6), summed over the outputs: about the variance of f(x + noise) for "
            f"Gaussian noise of variance ε = {sample.epsilon[0]:g}, in units of the "
            "input squared. ε only weighs the orders against each other.",
        ),
        ("Derivatives", DERIVATIVES[sample.derivatives]),
        (
            "Density",
            f"A Gaussian mixture of {count(k, 'component')} fitted to the "
            f"{sample.density.n_fitted:,} of {n:,} initial points whose Df is at least a hundredth "
            "of the largest, each as often as its Df says (S0 Algorithm 2 and its code). Its "
            "variances are at least those of the cell that an initial point stands for, which S0 "
            "does not ask for: without it components shrink to single points.",
        ),
        (
            "Acceptance",
            "New points outside the domain are drawn again, so that they follow the mixture cut "
            "to the domain; the acceptance is the share of draws that lay inside.",
        ),
    ]
    if findings.comparison is not None:
        pairs.append(("Does it help", _comparison(findings, findings.comparison)))
    if findings.bounds:
        pairs.append(("Bound", BOUND))
    return tuple(pairs)


def _comparison(findings: SamplingFindings, comparison: SamplingComparison) -> str:
    how = "evenly spaced" if len(findings.inputs) == 1 else "uniform"
    return (
        f"{count(comparison.largest.shape[1], 'run')}, each with other draws and another start: "
        f"networks of 2 layers of 32 ReLU units learn from {comparison.n_points:,} points by Adam, "
        "2,000 updates of at most 256 points. In a run both designs share the initial points and "
        "the starting weights; the other points are uniform or Taylor-based. Errors are measured "
        f"at {comparison.n_test:,} {how} points that no network has seen. Intervals are of 95 %, "
        "by Student's t; that of the change is of the differences run by run. Another network or "
        "longer training can turn out otherwise."
    )
