"""Taylor-based sampling: more points where the function changes most (S0 App. A, Algorithm 2)."""

from collections.abc import Sequence
from math import factorial
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float

from datassay import rules
from datassay.collect.curvature.derivatives import derivatives as derivatives_of
from datassay.collect.curvature.derivatives import point_function
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.methods.sample.density import (
    Density,
    check_domain,
    fit_density,
    initial_points,
    truncated_draws,
)
from datassay.methods.sample.settings import Sampling
from datassay.progress import Progress, silent
from datassay.results import Tabular, result

STEP = "label points"


@result
class TaylorSample(Tabular):
    """The initial points and those added where the function changes most.

    Attributes:
        x: [N + N', d], the initial points, then the new ones.
        y: [N + N', q], f at x.
        is_new: [N + N'].
        terms: [N, n], the term of each order of the Taylor index at the initial points, units of f
            squared.
        density: the mixture that the new points were drawn from.
        tries: draws that the new points took.
        domain: [d, 2].
        epsilon: [d], ε.
        derivatives: the method that was taken, "autograd" or "finite".
        seed: of all draws.
    """

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n q"]
    is_new: Bool[np.ndarray, " n"]
    terms: Float[np.ndarray, "N n_orders"]
    density: Density
    tries: int
    domain: Float[np.ndarray, "d 2"]
    epsilon: Float[np.ndarray, " d"]
    derivatives: str
    seed: int

    @property
    def index(self) -> Float[np.ndarray, " N"]:
        """Taylor index Df at the initial points."""
        return self.terms.sum(1)

    @property
    def order(self) -> int:
        """The highest order of derivatives in Df."""
        return self.terms.shape[1]

    @property
    def acceptance(self) -> float:
        """Share of the draws that lay in the domain."""
        return int(self.is_new.sum()) / self.tries

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings, one sentence each."""
        return self.density.notes

    def to_table(self) -> pa.Table:
        """Return one row per point: x0 …, y0 …, is_new, and taylor_index, null for new points."""
        index = np.full(len(self.x), np.nan)
        index[~self.is_new] = self.index
        return pa.table({
            **{f"x{j}": column for j, column in enumerate(self.x.T)},
            **{f"y{j}": column for j, column in enumerate(self.y.T)},
            "is_new": self.is_new,
            "taylor_index": pa.array(index, from_pandas=True),
        })

    def to_samples(self, name: str = "sampled", inputs: Sequence[str] = ()) -> SampleSet:
        """Return the points as a regression set, for every other function of this library.

        Args:
            name: of the set.
            inputs: d names; empty means x0, x1, ...

        Returns:
            The set; `source` says "initial" or "new", ids are row numbers.
        """
        return SampleSet(
            self.x,
            self.y[:, 0] if self.y.shape[1] == 1 else self.y,
            np.arange(len(self.x)),
            feature_names=tuple(inputs),
            source=np.where(self.is_new, "new", "initial"),
            name=name,
        )


@checks_arguments
def taylor_sample(
    f: Any,
    domain: Sequence[float] | Sequence[Sequence[float]] | Float[np.ndarray, "d 2"],
    *,
    n_initial: int = Sampling.n_initial,
    n_new: int = Sampling.n_new,
    order: int = Sampling.order,
    epsilon: float | Sequence[float] | Float[np.ndarray, " d"] = Sampling.epsilon,
    n_components: int = Sampling.n_components,
    initial: str = Sampling.initial,
    derivatives: str = Sampling.derivatives,
    floor: float | None = Sampling.floor,
    max_tries: int = Sampling.max_tries,
    seed: int = Sampling.seed,
    progress: Progress = silent,
) -> TaylorSample:
    """Sample a function evenly, then again in proportion to how much it changes.

    Initial points; Df_ε^n at each from the derivatives of f (`taylor_terms` has the equation); a
    Gaussian mixture fitted to the points weighted by Df; new points from it, those outside the
    domain drawn again; f at the new points; the union.

    Args:
        f: from [n, d] points, a NumPy array or a torch tensor, to [n] or [n, q] finite values.
        domain: (lower, upper) of one input, or one such pair for each of d.
        n_initial: N, at least 2; a d-th power for a grid.
        n_new: N', at least 1.
        order: n, the highest order of derivatives.
        epsilon: ε, a variance in units of x squared, one or d: weighs the orders.
        n_components: Gaussians in the mixture, at most N.
        initial: "uniform", or "grid".
        derivatives: "auto", "autograd" or "finite", as in `collect.derivatives`.
        floor: added to the variances of the mixture, in widths of the domain squared; None: of the
            cell that each initial point stands for.
        max_tries: draws a new point, on average, before this is given up.
        seed: of all draws, 0 ≤ seed < 2^32.
        progress: called with (step, points done, points in all).

    Returns:
        The points, their values and how they came about.

    Raises:
        DataError: the domain has no volume, is reversed or not finite; f raises, or gives values of
            a wrong shape or not finite; f is constant; the density rejects everything.
        SettingError: another setting is outside its rule.

    Cost: N + N' evaluations of f, and those of its derivatives at N points.
    Source: S0 Algorithm 2. Deviates as `fit_density` and `taylor_terms` say, and by a bound on the
    tries.
    """
    box = check_domain(domain)
    for name, value in (("n_new", n_new), ("n_components", n_components), ("max_tries", max_tries)):
        rules.integer(name, value)
    if floor is not None:
        rules.positive("floor", floor, finite=True, remedy="Take None.")
    variances = check_epsilon(epsilon, len(box))
    initial_x = initial_points(box, n_initial, initial, seed)
    point_f = point_function(f, initial_x[:1])
    initial_y = point_f(initial_x)
    progress(STEP, n_initial, n_initial + n_new)
    options = {"method": derivatives, "bounds": box, "progress": progress}
    method, tensors = derivatives_of(point_f, initial_x, order, **options)
    terms = taylor_terms(tensors, variances)
    density = fit_density(initial_x, terms.sum(1), box, n_components, floor=floor, seed=seed)
    new_x, tries = truncated_draws(density, box, n_new, max_tries=max_tries, seed=seed)
    new_y = point_f(new_x)
    progress(STEP, n_initial + n_new, n_initial + n_new)
    return TaylorSample(
        x=np.concatenate([initial_x, new_x]),
        y=np.concatenate([initial_y, new_y]),
        is_new=np.arange(n_initial + n_new) >= n_initial,
        terms=terms,
        density=density,
        tries=tries,
        domain=box,
        epsilon=variances,
        derivatives=method,
        seed=seed,
    )


def taylor_terms(
    derivatives: Sequence[Float[np.ndarray, "N q ..."]],
    epsilon: float | Sequence[float] | Float[np.ndarray, " d"],
) -> Float[np.ndarray, "N n"]:
    """Return what each order adds to the Taylor index, from the derivatives of orders 1, 2, …."""
    # Df_ε^n(x) = Σ_{1≤|k|≤n} ε^k ‖Vect(∂^k f(x))‖ / k!,  ‖·‖ the SQUARED L2 norm, over the outputs
    # k = (k_1 … k_d) runs over the distinct multi-indices, k! = Π k_j! and ε^k = Π ε_j^{k_j}. A
    # multi-index of order m stands for m!/k! equal entries of the derivative tensor T_m, so that
    # the term of order m is also
    # (1/m!) Σ_{i_1 … i_m} ε_{i_1} ⋯ ε_{i_m} ‖∂_{i_1} ⋯ ∂_{i_m} f‖²,
    # for one ε: ε^m ‖T_m‖²_F / m!. This is how it is computed.
    # Source: S0 eq. 2 and 6. Deviates where they print ‖ε‖^k, a power of the squared norm of a
    # vector ε(1, …, 1), for which take d ε² here. As the variance of a Gaussian, as S0's App. B has
    # ε for n = 2, Df is the variance of f(x + ε) to the terms that it keeps. ε only weighs the
    # orders against each other.
    variances = check_epsilon(epsilon, derivatives[0].shape[2])
    terms = []
    for m, tensor in enumerate(derivatives, 1):
        squares = (tensor**2).sum(1)  # [N, d, …, d]
        for _ in range(m):  # each time the last axis is summed, weighed by ε
            squares = squares @ variances
        terms.append(squares / factorial(m))
    return np.stack(terms, 1)


def taylor_index(
    derivatives: Sequence[Float[np.ndarray, "N q ..."]],
    epsilon: float | Sequence[float] | Float[np.ndarray, " d"],
) -> Float[np.ndarray, " N"]:
    """Return the Taylor index Df_ε^n(x), units of f squared: the sum of `taylor_terms`."""
    return taylor_terms(derivatives, epsilon).sum(1)


def index_from_draws(
    f: Any,
    x: Float[np.ndarray, "N d"],
    epsilon: float | Sequence[float] | Float[np.ndarray, " d"],
    *,
    n_draws: int = 100,
    seed: int = 0,
) -> Float[np.ndarray, " N"]:
    """Return the variance of a function around each point, estimated from its values alone.

    Var f(x + ε) ≈ 1/(k − 1) Σ_i ‖f(x + ε_i) − mean‖²,   ε_i ~ N(0, ε),   summed over outputs

    Args:
        f: from [n, d] points to [n] or [n, q] finite values, defined everywhere near x.
        x: points, such as the inputs of a data set that f, a teacher, labels.
        epsilon: ε, a variance in units of x squared, one or d.
        n_draws: k, at least 2; the relative error is about √(2/k).
        seed: of the draws.

    Returns:
        [N], units of f squared; divided by its sum, weights of the points.

    Raises:
        SettingError: epsilon or n_draws is outside its rule.
        DataError: f raises, or gives values of a wrong shape or not finite.

    Cost: N k evaluations of f; N k q values.
    Source: S0 eq. 3. Deviates: the centre is the draws' mean. Around f(x), as printed, the mean of
    the estimate is k/(k − 1) (Var + (E f(x + ε) − f(x))²), for a quadratic f ¼ (ε tr H)² more.
    """
    rules.integer("n_draws", n_draws, 2)
    point_f = point_function(f, x[:1])
    draws = np.random.default_rng(seed).normal(size=(n_draws, *x.shape))
    neighbors = x + draws * np.sqrt(check_epsilon(epsilon, x.shape[1]))  # [k, N, d]
    return np.stack([point_f(points) for points in neighbors]).var(0, ddof=1).sum(1)


def check_epsilon(
    epsilon: float | Sequence[float] | Float[np.ndarray, " d"], dimensions: int
) -> Float[np.ndarray, " d"]:
    """Check ε, and return it as one number per dimension."""
    variances = np.asarray(epsilon, dtype=float)
    if variances.shape not in {(), (dimensions,)}:
        raise SettingError(
            f"epsilon must be one number, or one for each of {dimensions} dimensions; got shape "
            f"{list(variances.shape)}."
        )
    if not (np.isfinite(variances).all() and (variances > 0).all()):
        raise SettingError(
            f"epsilon must be positive and finite; got {epsilon}. It is a variance in units of x "
            "squared; take 0.001 for inputs near 1."
        )
    return np.broadcast_to(variances, dimensions).copy()
