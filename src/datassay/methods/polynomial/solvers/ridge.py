"""Ridge fits: normal equations solved for many ridges, and minimum-norm fits to few samples."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh, get_blas_funcs, get_lapack_funcs

from datassay.errors import DataError
from datassay.methods.polynomial.solvers.normal_equations import NormalEquations
from datassay.results import result

DEPTH = 3  # repeated solutions per pole and target; with one, errors reach 2 %


@result
class Centred:
    """Normal equations without the constant, which is not penalised.

    Minimising over the constant first centres features and targets:
    G = Σ φφᵀ − n m mᵀ, b = Σ φyᵀ − m Σ yᵀ; the constant is the mean target minus mᵀβ.

    Attributes:
        normal: the sums.
        mean: [p' - 1], m.
        rhs: [p' - 1, q], b.
        rows: [s, p' - 1], features of the rows kept for leave-one-out errors, minus m.
        row_targets: [s, q], targets of these rows, minus the mean over all n.
    """

    normal: NormalEquations
    mean: Float[np.ndarray, " k"]
    rhs: Float[np.ndarray, "k q"]
    rows: Float[np.ndarray, "s k"]
    row_targets: Float[np.ndarray, "s q"]

    @property
    def n_features(self) -> int:
        """Number of features without the constant."""
        return len(self.mean)

    @property
    def scale(self) -> float:
        """Mean eigenvalue of G."""
        squares = np.diag(self.normal.gram)[1:].sum(dtype=np.float64)
        total = squares - self.normal.n_samples * (self.mean**2).sum()
        return max(float(total), 0.0) / max(self.n_features, 1)

    def gram(
        self, ridge: float = 0.0, dtype: type[np.floating] = np.float64
    ) -> Float[np.ndarray, "k k"]:
        """Return G + ridge · I, upper triangle, in new memory."""
        gram = np.array(self.normal.gram[1:, 1:], dtype=dtype, order="F")
        (update,) = get_blas_funcs(("syr",), (gram,))
        update(-float(self.normal.n_samples), self.mean.astype(dtype), a=gram, overwrite_a=1)
        gram.flat[:: len(gram) + 1] += ridge
        return gram

    def with_constant(self, coef: Float[np.ndarray, "k q"]) -> Float[np.ndarray, "k1 q"]:
        """Return the coefficients with the constant's as row 0."""
        target_mean = self.normal.target_sum / self.normal.n_samples
        return np.vstack([target_mean - self.mean @ coef, coef])


def centre(normal: NormalEquations) -> Centred:
    """Return the normal equations of centred features and targets; cost s · p' for s rows."""
    mean = normal.feature_sum[1:] / normal.n_samples
    features = normal.monomials.features(normal.rows, keep=normal.live[1:])
    return Centred(
        normal=normal,
        mean=mean,
        rhs=normal.cross[1:] - np.outer(mean, normal.target_sum),
        rows=features - mean,
        row_targets=normal.row_targets - normal.target_sum / normal.n_samples,
    )


class Spectrum:
    """Solves any ridge from one eigendecomposition of G."""

    def __init__(self, system: Centred):
        """Decompose G. Cost: about 9 p'³ operations, 2 p'² values."""
        self._system = system
        driver = "ev"
        if system.n_features > 1:
            driver = "evd"  # SciPy 1.11: too small a workspace
        spectrum = eigh(
            system.gram(), lower=False, overwrite_a=True, check_finite=False, driver=driver
        )
        self._values, self._vectors = map(np.asarray, spectrum)
        self._right = self._vectors.T @ system.rhs  # [p, q]
        self._rows = system.rows @ self._vectors  # [s, p]
        largest = 0.0
        if len(self._values):
            largest = max(float(self._values[-1]), 0.0)
        self.cut = largest * rounding(system.normal.gram.dtype, len(self._values))

    @property
    def largest(self) -> float:
        """The largest eigenvalue of G."""
        return max(float(self._values[-1]), 0.0)

    @property
    def rank(self) -> int:
        """Eigenvalues above the cut-off."""
        return int((self._values > self.cut).sum())

    def coef(self, ridge: float) -> Float[np.ndarray, "k q"]:
        """Return the coefficients for one ridge; 0 gives the minimum-norm solution."""
        return self._vectors @ (self._invert(ridge)[:, None] * self._right)

    def rows(self, ridge: float) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s q"]]:
        """Return the rows' leverages without the constant's 1/n, and fitted centred targets."""
        inverse = self._invert(ridge)
        return (self._rows**2) @ inverse, self._rows @ (inverse[:, None] * self._right)

    def _invert(self, ridge: float) -> Float[np.ndarray, " k"]:
        """Return 1/(eigenvalue + ridge), [k]; 0 for eigenvalues that are rounding errors."""
        if ridge == 0:
            is_above = self._values > self.cut
            return np.divide(1.0, self._values, out=np.zeros_like(self._values), where=is_above)
        return 1 / (np.maximum(self._values, 0.0) + ridge)


class Poles:
    """Interpolates between a few ridges (poles) at which G + λ I is factored.

    Leverages: the solutions u_k = (G + λ_k I)⁻¹ φ at the poles span a small space for each row φ,
    in which the equations of any other ridge are solved (Galerkin). Their products with G need no
    extra work, G u_k = φ − λ_k u_k. φᵀ(G + λ I)⁻¹φ and its slope are exact at the poles, and within
    0.3 % midway between poles a decade apart on Fashion-MNIST.
    Fits: the same for each target b, with `DEPTH` repeated solutions per pole, (G + λ_k I)⁻ʲ b.

    Attributes:
        ridges: λ of each pole, in the order added.
    """

    def __init__(self, system: Centred):
        """Start without poles."""
        self._system = system
        self.ridges: list[float] = []
        self._solutions: list[np.ndarray] = []  # each [p, s]
        self._inner = np.zeros((len(system.rows), 0, 0))  # uⱼᵀuₖ  [s, m, m]
        self._right = np.zeros((len(system.rows), 0))  # uₖᵀφ  [s, m]
        self._bases: list[np.ndarray] = []  # each [p, q, DEPTH]
        self._fits: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, ridge: float) -> None:
        """Solve with G + ridge · I, factored in the Gram matrix's precision, for rows and targets.

        Cost: p'³/3 + 2 p'² (s + q · DEPTH) operations; p' s values kept, 2 p'² temporary.
        """
        dtype = self._system.normal.gram.dtype
        solve = cholesky(self._system.gram(ridge, dtype.type), ridge)
        rows = self._system.rows.T.astype(dtype, order="F")
        self._append_solutions(solve(rows), rows)
        powers = []
        solution = self._system.rhs.astype(dtype, order="F")
        for _ in range(DEPTH):
            solution = solve(solution)
            solution = solution / np.maximum(np.linalg.norm(solution, axis=0), np.finfo(dtype).tiny)
            powers.append(solution.astype(np.float64))
        self.ridges.append(ridge)
        self._bases.append(np.stack(powers, axis=2))
        self._project(np.concatenate(self._bases, axis=2))

    def rows(self, ridge: float) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s q"]]:
        """Return the rows' leverages without the constant's 1/n, and fitted centred targets."""
        shifts = np.array(self.ridges) - ridge
        projected = self._right[:, :, None] - shifts * self._inner  # uⱼᵀ(G + λ)uₖ  [s, m, m]
        projected = (projected + projected.transpose(0, 2, 1)) / 2
        weights = np.linalg.solve(projected, self._right[:, :, None])[:, :, 0]  # [s, m]
        fitted = [
            row_parts @ np.linalg.solve(gram + ridge * np.eye(len(gram)), target)
            for gram, target, row_parts in self._fits
        ]
        return (self._right * weights).sum(axis=1), np.stack(fitted, axis=1)

    def _append_solutions(self, solution: np.ndarray, rows: np.ndarray) -> None:
        """Append a ridge's solutions, [p, s], and their inner products with all earlier ones."""
        self._solutions.append(solution)
        m = len(self._solutions)
        inner = np.zeros((len(self._inner), m, m))
        inner[:, :-1, :-1] = self._inner
        products = [np.einsum("ps,ps->s", u, solution) for u in self._solutions]
        new_products = np.stack(products, axis=1)
        inner[:, -1, :] = new_products
        inner[:, :, -1] = new_products
        self._inner = inner
        self._right = np.hstack([self._right, np.einsum("ps,ps->s", solution, rows)[:, None]])

    def _project(self, bases: Float[np.ndarray, "p q m"]) -> None:
        """Store QᵀGQ, Qᵀb and rows · Q of each target's orthonormal basis Q, [p, q, m]."""
        _, q, m = bases.shape
        all_bases = np.hstack([np.linalg.qr(bases[:, j])[0] for j in range(q)])
        gram = self._system.gram()
        (symmetric,) = get_blas_funcs(("symm",), (gram,))
        product = symmetric(1.0, gram, np.asfortranarray(all_bases), lower=0)
        row_parts = self._system.rows @ all_bases
        self._fits = []
        for j in range(q):
            columns = slice(j * m, (j + 1) * m)
            basis = all_bases[:, columns]
            projected = basis.T @ self._system.rhs[:, j]
            self._fits.append((basis.T @ product[:, columns], projected, row_parts[:, columns]))


def cholesky(
    gram: Float[np.ndarray, "k k"], ridge: float
) -> Callable[[Float[np.ndarray, "k r"]], Float[np.ndarray, "k r"]]:
    """Return a solver of (gram + ridge I) u = r by Cholesky, in gram's upper triangle."""
    factor, solve = get_lapack_funcs(("potrf", "potrs"), (gram,))
    upper, failed = factor(gram, lower=0, clean=0, overwrite_a=1)
    if failed:
        raise DataError(
            f"the normal equations must be positive definite in {gram.dtype}; with ridge {ridge:g} "
            "they are not. Raise the ridge, or ask for precision='float64'."
        )
    return lambda rhs: solve(upper, rhs, lower=0)[0]


def minimum_norm(
    features: Float[np.ndarray, "n k"], targets: Float[np.ndarray, "n q"]
) -> tuple[Float[np.ndarray, "k q"], int]:
    """Return the smallest best-fit coefficients, features and targets minus their means.

    Returns:
        Coefficients [k, q] in float64 (the constant is the mean target minus that of the features
        times them), and the rank of the features minus their mean.

    Cost: n² k + n³/3 operations; 9 n³ more where samples are linearly dependent (`rounding`).
    """
    n = len(features)
    (product,) = get_blas_funcs(("syrk",), (features,))
    kernel = product(1.0, features, lower=0).astype(np.float64)  # upper triangle
    kernel += np.triu(kernel, 1).T
    mean = kernel.mean(axis=0)
    kernel -= mean
    kernel -= mean[:, None] - mean.mean()
    weights, rank = _solve_kernel(kernel, targets - targets.mean(axis=0), n, features.dtype)
    # The weights of a centred kernel sum to 0: the features need not be centred.
    return features.T @ weights.astype(features.dtype) + np.zeros(1), rank


def rounding(dtype: np.dtype, n: int) -> float:
    """Return the share of the largest eigenvalue below which eigenvalues are rounding errors."""
    # Sums in float32 of 2000 Fashion-MNIST images are 4e-8 of the norm from those in float64, while
    # the smallest eigenvalue is 5e-7 of the largest: the bound usual in float64, n times the
    # precision, would cut real directions off.
    precision = float(np.finfo(dtype).eps)
    if dtype == np.float32:
        return precision
    return n * precision


def _solve_kernel(
    kernel: np.ndarray, targets: np.ndarray, n: int, dtype: np.dtype
) -> tuple[np.ndarray, int]:
    """Return the dual coefficients of a centred kernel's least squares, and the rank."""
    scale = max(float(np.trace(kernel)) / n, np.finfo(np.float64).tiny)
    cut = rounding(dtype, n) * max(float(np.linalg.norm(kernel)), scale)
    # A centred kernel maps (1, …, 1) to 0, and targets have no share in it: any value there makes
    # the kernel regular without changing the solution.
    regular = np.asfortranarray(kernel + scale / n)
    factor, solve = get_lapack_funcs(("potrf", "potrs"), (regular,))
    upper, failed = factor(regular, lower=0, clean=0, overwrite_a=1)
    if not failed and _find_smallest_eigenvalue(lambda rhs: solve(upper, rhs, lower=0)[0], n) > cut:
        return solve(upper, targets, lower=0)[0], n - 1
    values, vectors = map(np.asarray, eigh(kernel, driver="evd", check_finite=False))
    is_above = values > cut
    basis = vectors[:, is_above]
    return basis @ ((basis.T @ targets) / values[is_above, None]), int(is_above.sum())


def _find_smallest_eigenvalue(solve: Callable[[np.ndarray], np.ndarray], n: int) -> float:
    """Return the smallest eigenvalue by inverse iteration; at most a few per cent too large."""
    vectors = np.random.default_rng(0).normal(size=(n, 4))
    norm = np.ones(4)
    for _ in range(6):
        vectors = solve(np.asfortranarray(vectors / np.linalg.norm(vectors, axis=0)))
        norm = np.linalg.norm(vectors, axis=0)
    return float(1 / norm.max())
