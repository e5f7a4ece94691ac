"""Derivatives of a function at points, to any order: by torch.func, or by central differences."""

from collections.abc import Callable
from itertools import combinations_with_replacement, permutations, product
from math import comb
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jacrev, vmap

from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.errors import DataError
from datassay.models.user_code import user_code
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.rules import integer, one_of

STEP = "derivatives"
METHODS = ("auto", "autograd", "finite")
# Values of the largest tensor that one pass holds.
PASS_VALUES = 2**22
# Autograd is trusted where its slopes at some probes differ from central differences by less than
# this, relative to the largest: no_grad or a constant in f makes it silently 0.
AGREEMENT = 1e-3
N_PROBES = 8
ROUNDING = float(np.finfo(float).eps)


def derivatives(
    f: "PointFunction",
    x: Float[np.ndarray, "N d"],
    order: int,
    *,
    method: str = "auto",
    bounds: Float[np.ndarray, "d 2"],
    progress: Progress = silent,
) -> tuple[str, tuple[Float[np.ndarray, "N q ..."], ...]]:
    """Return all partial derivatives of orders 1 to n.

    Args:
        f: the function.
        x: N points within bounds.
        order: n ≥ 1.
        method: "autograd": exact, by torch.func. "finite": central differences,

            ∂^k f(x) ≈ Π_j δ_j^{k_j} f(x) / h_j^{k_j},  δ_j f(x) = f(x + h_j/2) − f(x − h_j/2),

            with h_j = ε^{1/(m+2)} · width_j for order m = |k| and ε = 2.2e-16: error h² and about
            as much by rounding. "auto": autograd where f takes tensors and its slopes agree with
            central differences at up to 8 points, else finite.
        bounds: [d, 2], within which f may be called; a stencil that reaches beyond is moved
            inwards, by at most m h/2, and its error there is of order h.
        progress: called with (step, points done, points in all).

    Returns:
        The method that was taken, and for m = 1 … n the tensor [N, q, d, …, d] of order m, in units
        of f over units of x to the m.

    Raises:
        SettingError: order is below 1, or the method is unknown.
        DataError: torch.func cannot differentiate f and autograd was asked for, or derivatives are
            not finite.

    Cost: autograd: d^n evaluations of f a point; finite: Σ_k Π_j (k_j + 1) over the multi-indices
    of each order: 27 a point for n = 2 in 3 dimensions.
    """
    integer("order", order, remedy="Take 2.")
    one_of("derivatives", method, METHODS)
    if method == "auto":
        method = "finite"
        if _autograd_agrees(f, x, bounds):
            method = "autograd"
    parts = []
    n_done = 0
    size = max(1, PASS_VALUES // (f.n_outputs * x.shape[1] ** order))
    for points in np.split(x, range(size, len(x), size)):
        if method == "autograd":
            parts.append(_differentiate(f, points, order))
        else:
            parts.append(_differentiate_by_differences(f, points, order, bounds))
        n_done += len(points)
        progress(STEP, n_done, len(x))
    tensors = tuple(np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    _check_finite(tensors, x)
    return method, tensors


def _differentiate(f: "PointFunction", x: np.ndarray, order: int) -> tuple[np.ndarray, ...]:
    """Return f's derivatives of orders 1 … order at x by autograd: [N, q, d, …] each."""
    with user_code(
        lambda error: (
            f"f must take torch tensors and be differentiable for derivatives 'autograd'; it "
            f"raised {error} Take 'finite' or 'auto'."
        ),
        DataError,
    ):
        # Reverse mode throughout: the first use of forward mode takes torch seconds to set up.
        call: Callable[[Tensor], Any] = lambda point: f.function(point[None]).reshape(-1)  # noqa: E731
        tensors = []
        for _ in range(order):
            call = jacrev(call)
            tensors.append(vmap(call)(torch.tensor(x)).detach().numpy())
        return tuple(tensors)


def _autograd_agrees(f: "PointFunction", x: np.ndarray, bounds: np.ndarray) -> bool:
    """Return whether autograd's gradients match central differences at some of the points."""
    # False where autograd fails, for which central differences need not.
    probes = x[np.linspace(0, len(x) - 1, min(N_PROBES, len(x))).astype(int)]
    try:
        (slopes,) = _differentiate(f, probes, order=1)
    except DataError:
        return False
    domain_width = bounds[:, 1] - bounds[:, 0]
    (differences,) = _differentiate_by_differences(f, probes, order=1, bounds=bounds)
    differences = differences * domain_width
    gap = np.abs(slopes * domain_width - differences).max((1, 2))
    # Not the largest gap, but the median: at a kink, or at the edge, both can be right and differ.
    return bool(np.median(gap) <= AGREEMENT * np.abs(differences).max())


def _differentiate_by_differences(
    f: "PointFunction", x: np.ndarray, order: int, bounds: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return f's derivatives of orders 1 … order at x by central differences."""
    # Each distinct partial derivative is computed once, all its stencil in one call of f. The step
    # h of order m balances rounding, ε / h^m, with the error of the difference, h².
    n, d = x.shape
    domain_width = bounds[:, 1] - bounds[:, 0]
    tensors = []
    for m in range(1, order + 1):
        step = ROUNDING ** (1 / (m + 2)) * domain_width
        tensor = np.empty((n, f.n_outputs, *[d] * m))
        for axes in combinations_with_replacement(range(d), m):
            k = np.bincount(axes, minlength=d)  # how often each axis is differentiated
            reach = k * step / 2
            centre = np.clip(x, bounds[:, 0] + reach, bounds[:, 1] - reach)
            value = _take_difference(f, centre, k, step)
            for position in set(permutations(axes)):
                tensor[(slice(None), slice(None), *position)] = value
        tensors.append(tensor)
    return tuple(tensors)


def _take_difference(
    f: "PointFunction", centre: np.ndarray, k: np.ndarray, step: np.ndarray
) -> Float[np.ndarray, "n q"]:
    """Return Π_j δ_j^{k_j} f / h_j^{k_j} at points, [n, d]; k and h = `step` are [d]."""
    # δ_j^{k_j} is a sum over nodes i = 0 … k_j, at (k_j / 2 − i) h_j, with binomial coefficients.
    nodes = np.array(list(product(*(range(j + 1) for j in k))))  # [points of the stencil, d]
    signs = np.array([np.prod([(-1) ** i * comb(j, i) for i, j in zip(a, k, strict=True)])
                      for a in nodes])  # fmt: skip
    points = centre + (k / 2 - nodes)[:, None] * step  # [points of the stencil, n, d]
    values = f(points.reshape(-1, centre.shape[1])).reshape(len(nodes), len(centre), -1)
    return np.tensordot(signs, values, 1) / np.prod(step**k)


def _check_finite(tensors: tuple[np.ndarray, ...], x: np.ndarray) -> None:
    """Raise DataError, naming the first point, where derivatives are not finite."""
    for m, tensor in enumerate(tensors, 1):
        bad = np.flatnonzero(~np.isfinite(tensor.reshape(len(x), -1)).all(1))
        if len(bad):
            point = ", ".join(f"{v:.6g}" for v in x[bad[0]])
            raise DataError(
                f"f must have finite derivatives in the domain; those of order {m} are not at "
                f"{len(bad)} of {len(x)} points, the first of them ({point}). Narrow the domain or "
                "lower the order."
            )


RULE = "f must take [n, d] points and give one finite number, or a row of q, for each"


@result
class PointFunction:
    """A function with the kind of array that it takes.

    Attributes:
        function: as given; of a network its copy.
        takes: "numpy" or "torch".
        n_outputs: q.
    """

    function: Callable[[Any], Any]
    takes: str
    n_outputs: int

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n q"]:
        """Evaluate the function at points: [n, q] float64, a new array, checked to be finite."""
        with user_code(lambda error: f"{RULE}; calling it raised {error}", DataError):
            values = _evaluate(self.function, self.takes, x)
        return _check_values(values, x)


def point_function(f: Any, x: Float[np.ndarray, "n d"]) -> PointFunction:
    """Return a function with the kind of array that it takes, found by calling it once or twice.

    Args:
        f: from [n, d] points, a float64 NumPy array or torch tensor, to [n] or [n, q] values; of a
            network a copy is taken, in evaluation mode and double precision.
        x: points to try it on.

    Returns:
        The function. NumPy arrays are tried first.

    Raises:
        DataError: it raises with either, or what it gives has a wrong shape or is not finite.
    """
    if not callable(f):
        raise DataError(f"{RULE}; got {type(f).__name__}, which cannot be called.")
    if isinstance(f, torch.nn.Module):
        f = frozen_copy(f, torch.float64)
    failures = []
    for takes in ("numpy", "torch"):
        try:
            with user_code(str, DataError):
                values = _evaluate(f, takes, x)
        except DataError as error:
            failures.append(f"with {takes}, {error}")
            continue
        return PointFunction(f, takes, _check_values(values, x).shape[1])
    raise DataError(f"{RULE}; calling it raised, {' and '.join(failures)}")


def _evaluate(f: Callable[[Any], Any], takes: str, x: np.ndarray) -> np.ndarray:
    """Return f's values at the points x as a new float64 array, of whatever shape f gives."""
    if takes == "numpy":
        # A copy: what f does to its argument is its own affair.
        values = f(np.array(x))
    else:
        with torch.no_grad():
            values = f(torch.tensor(x))
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    return np.array(values, dtype=float)


def _check_values(values: np.ndarray, x: np.ndarray) -> Float[np.ndarray, "n q"]:
    """Return f's values as [n, q]; raise DataError unless they fit the points and are finite."""
    if values.ndim not in {1, 2} or len(values) != len(x) or not values.size:
        raise DataError(
            f"{RULE}; got shape {list(values.shape)} for {len(x)} points. Return an array of "
            "[n] or [n, q]."
        )
    finite = np.isfinite(values.reshape(len(x), -1)).all(1)
    if not finite.all():
        bad_idx = int(np.argmin(finite))
        coordinates = ", ".join(f"{v:.6g}" for v in x[bad_idx])
        raise DataError(
            f"{RULE}; {int((~finite).sum())} of {len(x)} points gave NaN or infinity, the first "
            f"of them ({coordinates}). Narrow the domain, or correct f there."
        )
    return values.reshape(len(x), -1)
