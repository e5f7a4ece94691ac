"""Settings of polynomial regression, each default once; nothing heavy is imported here."""

from dataclasses import dataclass

SOLVERS = ("exact", "batched")
PRECISIONS = ("auto", "float32", "float64", "bfloat16")  # of the sums


@dataclass(frozen=True)
class Regression:
    """The products of inputs, and how their coefficients are fitted.

    Attributes:
        degree: k, the most inputs in a product.
        solver: "exact" or "batched".
        ridge: of the exact fit; "auto" has the smallest leave-one-out error.
        n_batches: of the batched fit.
        batch_size: of the batched fit.
        precision: of the products of features: "auto", "float64", "float32" or "bfloat16".
        store: folder that makes the exact fit resumable; None keeps nothing.
        seed: of batches and leave-one-out rows.
    """

    degree: int = 2
    solver: str = "exact"
    ridge: float | str = "auto"
    n_batches: int = 60
    batch_size: int = 2000
    precision: str = "auto"
    store: str | None = None
    seed: int = 0
