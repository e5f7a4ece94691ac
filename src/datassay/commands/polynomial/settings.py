"""What the job of `datassay polynomial` can be told, and what is refused before any work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.polynomial.fit import SOLVERS
from datassay.polynomial.normal_equations import PRECISIONS
from datassay.polynomial.surrogate import grey_shape

WINDOW = 3


@dataclass(frozen=True, slots=True)
class PolynomialSettings:
    """What the job can be told; every default is what `datassay polynomial DATA` does.

    Attributes:
        degree: k, the most inputs in a product.
        window: side of the square that covers the pixels of one product; "auto" is 3 for grey
            images and none for others; None: all products.
        solver: "exact" or "batched".
        ridge: of the exact fit; "auto" has the smallest leave-one-out error.
        n_batches: of the batched fit.
        batch_size: of the batched fit.
        precision: of the products of features.
        store: folder that makes the exact fit resumable; None keeps nothing.
        model: file of a surrogate to score instead of fitting; None: fit.
        seed: of batches, leave-one-out rows, corruptions and the samples shown.
        command: what to print on the page as the command to repeat this.
    """

    degree: int = 2
    window: int | str | None = "auto"
    solver: str = "exact"
    ridge: float | str = "auto"
    n_batches: int = 60
    batch_size: int = 2000
    precision: str = "auto"
    store: Path | None = None
    model: Path | None = None
    seed: int = 0
    command: str = ""

    def window_of(self, samples: SampleSet) -> int | None:
        """The window for these samples.

        Args:
            samples: images or rows.

        Returns:
            Its side, or None for all products.
        """
        if self.window == "auto":
            shape = grey_shape(samples)
            return None if shape is None else min(WINDOW, _largest_odd(min(shape)))
        assert not isinstance(self.window, str)
        return self.window


def check_polynomial_settings(settings: PolynomialSettings, train: SampleSet) -> None:
    """Refuse, before any work is done, what cannot be.

    Args:
        settings: of the job.
        train: the training samples.

    Raises:
        SettingError: a setting is outside its rule, or two do not go together.
    """
    for name, value, allowed in (
        ("solver", settings.solver, SOLVERS),
        ("precision", settings.precision, PRECISIONS),
    ):
        if value not in allowed:
            raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    if settings.degree < 1:
        raise SettingError(f"degree must be at least 1; got {settings.degree}.")
    if settings.ridge != "auto" and not _is_ridge(settings.ridge):
        raise SettingError(
            f"ridge must be 'auto' or a number of at least 0; got {settings.ridge!r}."
        )
    if settings.solver == "batched" and not 2 <= settings.batch_size <= len(train):
        raise SettingError(
            f"batch-size must be at least 2 and at most the {len(train):,} training samples; got "
            f"{settings.batch_size:,}."
        )
    if settings.solver == "batched" and settings.n_batches < 1:
        raise SettingError(f"n-batches must be at least 1; got {settings.n_batches}.")
    if settings.solver == "batched" and (
        settings.store is not None or settings.precision == "bfloat16" or settings.ridge != "auto"
    ):
        raise SettingError(
            "store, ridge and bfloat16 are for the exact solver; got them with 'batched'. Leave "
            "them out."
        )
    if settings.model is not None and settings.store is not None:
        raise SettingError("model is scored as it is, store is for a fit; got both. Leave one out.")


def _is_ridge(value: float | str) -> bool:
    return not isinstance(value, str) and 0 <= value < float("inf")


def _largest_odd(size: int) -> int:
    return size if size % 2 else size - 1
