"""One set of normal equations solved for many ridges: by its eigenvalues, or by a few factors."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh, get_blas_funcs, get_lapack_funcs

from datassay.errors import DataError
from datassay.polynomial.normal_equations import NormalEquations


@dataclass(frozen=True, slots=True, eq=False)
class Centred:
    """The normal equations without the constant, whose coefficient no ridge touches.

    Minimising over the constant first leaves features and targets minus their means:
    G = Σ φφᵀ − n m mᵀ, b = Σ φyᵀ − m Σ yᵀ; the constant is the mean target minus mᵀβ.

    Attributes:
        normal: the sums.
        mean: [p' - 1], m.
        right: [p' - 1, q], b.
        rows: [s, p' - 1], features of the rows kept for leave-one-out, minus m.
        row_targets: [s, q], minus their mean over all n.
    """

    normal: NormalEquations
    mean: Float[np.ndarray, " k"]
    right: Float[np.ndarray, "k q"]
    rows: Float[np.ndarray, "s k"]
    row_targets: Float[np.ndarray, "s q"]

    @property
    def n_features(self) -> int:
        """How many features beside the constant."""
        return len(self.mean)

    @property
    def scale(self) -> float:
        """The mean eigenvalue of G."""
        squares = np.diag(self.normal.gram)[1:].sum(dtype=np.float64)
        total = squares - self.normal.n_samples * (self.mean**2).sum()
        return max(float(total), 0.0) / max(self.n_features, 1)

    def gram(
        self, ridge: float = 0.0, dtype: type[np.floating] = np.float64
    ) -> Float[np.ndarray, "k k"]:
        """G + ridge · I, upper triangle, in new memory."""
        found = np.array(self.normal.gram[1:, 1:], dtype=dtype, order="F")
        (update,) = get_blas_funcs(("syr",), (found,))
        update(-float(self.normal.n_samples), self.mean.astype(dtype), a=found, overwrite_a=1)
        found.flat[:: len(found) + 1] += ridge
        return found

    def with_constant(self, coef: Float[np.ndarray, "k q"]) -> Float[np.ndarray, "k1 q"]:
        """The constant's coefficient above the others."""
        target_mean = self.normal.target_sum / self.normal.n_samples
        return np.vstack([target_mean - self.mean @ coef, coef])


def centred(normal: NormalEquations) -> Centred:
    """The normal equations without the constant.

    Args:
        normal: the sums.

    Returns:
        What the solvers here solve.

    Cost: s · p' values for the s rows.
    """
    mean = normal.feature_sum[1:] / normal.n_samples
    features = normal.monomials.features(normal.rows, keep=normal.live[1:])
    return Centred(
        normal,
        mean,
        normal.cross[1:] - np.outer(mean, normal.target_sum),
        features - mean,
        normal.row_targets - normal.target_sum / normal.n_samples,
    )


class Spectrum:
    """All ridges from one eigendecomposition of G."""

    def __init__(self, system: Centred):
        """Decompose.

        Args:
            system: the centred normal equations.

        Cost: about 9 p'³ operations, 2 p'² values.
        """
        self._system = system
        self._values, self._vectors = eigh(
            system.gram(), lower=False, overwrite_a=True, check_finite=False, driver="evd"
        )
        self._right = self._vectors.T @ system.right  # [p, q]
        self._rows = system.rows @ self._vectors  # [s, p]
        largest = max(float(self._values[-1]), 0.0) if len(self._values) else 0.0
        precision = np.finfo(system.normal.gram.dtype).eps
        self.cut = largest * precision * max(len(self._values), 1)

    @property
    def largest(self) -> float:
        """The largest eigenvalue of G."""
        return max(float(self._values[-1]), 0.0)

    @property
    def rank(self) -> int:
        """Eigenvalues above the cut-off."""
        return int((self._values > self.cut).sum())

    def coef(self, ridge: float) -> Float[np.ndarray, "k q"]:
        """Of one ridge; 0 gives the minimum norm among all that fit best."""
        return self._vectors @ (self._inverse(ridge)[:, None] * self._right)

    def rows(self, ridge: float) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s q"]]:
        """Leverage without the constant's part, and fitted centred targets, of the kept rows."""
        inverse = self._inverse(ridge)
        return (self._rows**2) @ inverse, self._rows @ (inverse[:, None] * self._right)

    def _inverse(self, ridge: float) -> Float[np.ndarray, " k"]:
        if ridge == 0:
            above = self._values > self.cut
            return np.divide(1.0, self._values, out=np.zeros_like(self._values), where=above)
        return 1 / (np.maximum(self._values, 0.0) + ridge)


@dataclass
class Poles:
    """Ridges between a few at which G + λ I is factored.

    Solutions at the poles, U_k = (G + λ_k I)⁻¹ r, span a small space in which the equations of any
    other ridge are solved (Galerkin), one right-hand side r at a time. G itself is not needed:
    G U_k = r − λ_k U_k. Leverages and fits are exact at the poles.

    Attributes:
        system: the centred normal equations.
        ridges: of the poles, in the order they were added.
    """

    system: Centred
    ridges: list[float] = field(default_factory=list)
    _solutions: list[np.ndarray] = field(default_factory=list)  # each [p, s + q]
    _inner: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0)))  # [s + q, m, m]
    _right: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # [s + q, m]

    def add(self, ridge: float) -> None:
        """Factor G + ridge · I in the Gram matrix's own precision and solve for all rows.

        Args:
            ridge: λ of the new pole.

        Cost: p'³/3 + 2 p'² (s + q) operations; p'² + p' (s + q) values.
        """
        dtype = self.system.normal.gram.dtype
        right = np.asfortranarray(np.hstack([self.system.rows.T, self.system.right]).astype(dtype))
        found = cholesky_solve(self.system.gram(ridge, dtype.type), right, ridge)
        inner = [np.einsum("ps,ps->s", u, found) for u in [*self._solutions, found]]
        m = len(inner)
        grown = np.zeros((right.shape[1], m, m))
        if m > 1:
            grown[:, :-1, :-1] = self._inner
        grown[:, -1, :] = grown[:, :, -1] = np.stack(inner, axis=1)
        self._inner = grown
        column = np.einsum("ps,ps->s", found, right)[:, None]
        self._right = column if m == 1 else np.hstack([self._right, column])
        self._solutions.append(found)
        self.ridges.append(ridge)

    def rows(self, ridge: float) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s q"]]:
        """Leverage without the constant's part, and fitted centred targets, of the kept rows."""
        poles = np.array(self.ridges)
        energy = self._right[:, :, None] - (poles - ridge) * self._inner  # uᵀ(G + λ)u
        energy = (energy + energy.transpose(0, 2, 1)) / 2
        weights = np.linalg.solve(energy, self._right[:, :, None])[:, :, 0]  # [s + q, m]
        s = len(self.system.rows)
        coef = sum(u[:, s:] * w for u, w in zip(self._solutions, weights[s:].T, strict=True))
        return (self._right[:s] * weights[:s]).sum(axis=1), self.system.rows @ coef


def cholesky_solve(
    gram: Float[np.ndarray, "k k"], right: Float[np.ndarray, "k r"], ridge: float
) -> Float[np.ndarray, "k r"]:
    """(gram)⁻¹ right, by a Cholesky factor in gram's own memory.

    Args:
        gram: the upper triangle in Fortran order, the ridge on its diagonal; overwritten.
        right: one column a right-hand side.
        ridge: what was added, for the message.

    Returns:
        One column a solution.

    Raises:
        DataError: the matrix is not positive definite within rounding.

    Cost: k³/3 + 2 k² r operations.
    """
    factor, solve = get_lapack_funcs(("potrf", "potrs"), (gram,))
    upper, failed = factor(gram, lower=0, clean=0, overwrite_a=1)
    if failed:
        raise DataError(
            f"the normal equations must be positive definite in {gram.dtype}; with ridge {ridge:g} "
            "they are not. Raise the ridge, or ask for precision='float64'."
        )
    return solve(upper, right, lower=0)[0]
