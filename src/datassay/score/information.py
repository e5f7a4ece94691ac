"""Sample information: how much one sample tells the trained network, in nats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from datassay.collect.linearization import Linearization
from datassay.errors import SettingError
from datassay.score.leave_one_out import LeaveOneOut, leave_one_out


@dataclass(frozen=True, slots=True, eq=False)
class SampleInformation:
    """Information of each sample, one row per sample.

    Attributes:
        information: [n], nats, never negative. Larger: the trained network depends more on it.
        ids: [n], the samples' ids.
        smoothing: which measure: "functional" or "isotropic".
        sigma: the standard deviation of the smoothing noise; output unit (functional) or weight
            unit (isotropic).
    """

    information: Float[np.ndarray, " n"]
    ids: np.ndarray
    smoothing: str
    sigma: float

    def to_table(self) -> pa.Table:
        """One row per sample: id, information."""
        return pa.table({"id": self.ids, "information": self.information})


def sample_information(
    lin: Linearization,
    *,
    smoothing: str = "functional",
    sigma: float = 1.0,
    loo: LeaveOneOut | None = None,
    **run: float | int | str,
) -> SampleInformation:
    """Information that each sample gives to the weights or to the predictions.

    functional: (1/(2σ²m)) Σ_j ‖f(x_j) − f₋ᵢ(x_j)‖²;  isotropic: ‖w − w₋ᵢ‖²/(2σ²)

    Args:
        lin: the linearisation.
        smoothing: "functional" (information about the predictions on the m validation inputs, or
            on the training inputs where there are none) or "isotropic" (about the weights).
        sigma: σ of the smoothing noise, which sets the scale: it divides by σ². Output unit for
            "functional", weight unit for "isotropic".
        loo: leave-one-out results to read off; None computes them.
        run: lr, steps, weight_decay, reduction, dynamics and progress of `leave_one_out`; only
            without loo.

    Returns:
        Nats, one value a sample.

    Raises:
        SettingError: smoothing is unknown, sigma is not positive, or run settings stand beside loo.

    Cost: that of `leave_one_out`; n values more with loo.
    Source: S1 Prop. 3.2, eqs. 8 and 16 (whose printed norm lacks its square). Exact for the
    linearised network.
    """
    if smoothing not in {"functional", "isotropic"}:
        raise SettingError(f"smoothing must be 'functional' or 'isotropic'; got {smoothing!r}.")
    if not (np.isfinite(sigma) and sigma > 0):
        raise SettingError(f"sigma must be finite and positive; got {sigma}.")
    if loo is not None and run:
        raise SettingError(f"run settings belong to loo; got {', '.join(run)} beside it.")
    loo = leave_one_out(lin, **run) if loo is None else loo  # pyright: ignore[reportArgumentType]
    if smoothing == "functional":
        information = loo.prediction_change / (2 * sigma**2 * loo.n_queries)
    else:
        information = loo.weight_change / (2 * sigma**2)
    return SampleInformation(information, lin.ids, smoothing, float(sigma))
