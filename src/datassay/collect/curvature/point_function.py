"""Call a user's function of points: NumPy arrays in, checked NumPy arrays out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.errors import DataError
from datassay.models.user_code import user_code
from datassay.results import result

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
        """The values at some points.

        Args:
            x: the points.

        Returns:
            [n, q] float64, a new array.

        Raises:
            DataError: the function raises, or its values have a wrong shape or are not finite.
        """
        with user_code(lambda error: f"{RULE}; calling it raised {error}", DataError):
            values = _called(self.function, self.takes, x)
        return _checked(values, x)


def point_function(f: Any, x: Float[np.ndarray, "n d"]) -> PointFunction:
    """Find out what the function takes, by calling it once or twice.

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
    raised = []
    for takes in ("numpy", "torch"):
        try:
            with user_code(str, DataError):
                values = _called(f, takes, x)
        except DataError as error:
            raised.append(f"with {takes}, {error}")
            continue
        return PointFunction(f, takes, _checked(values, x).shape[1])
    raise DataError(f"{RULE}; calling it raised, {' and '.join(raised)}")


def _called(f: Callable[[Any], Any], takes: str, x: np.ndarray) -> np.ndarray:
    if takes == "numpy":
        # A copy: what f does to its argument is its own affair.
        values = f(np.array(x))
    else:
        with torch.no_grad():
            values = f(torch.tensor(x))
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    return np.array(values, dtype=float)


def _checked(values: np.ndarray, x: np.ndarray) -> Float[np.ndarray, "n q"]:
    if values.ndim not in {1, 2} or len(values) != len(x) or not values.size:
        raise DataError(
            f"{RULE}; got shape {list(values.shape)} for {len(x)} points. Return an array of "
            "[n] or [n, q]."
        )
    finite = np.isfinite(values.reshape(len(x), -1)).all(1)
    if not finite.all():
        first = int(np.argmin(finite))
        where = ", ".join(f"{v:.6g}" for v in x[first])
        raise DataError(
            f"{RULE}; {int((~finite).sum())} of {len(x)} points gave NaN or infinity, the first "
            f"of them ({where}). Narrow the domain, or mend f there."
        )
    return values.reshape(len(x), -1)
