"""The units of columns, and inputs that are freed of them."""

import numpy as np
from jaxtyping import Float, Num

from datassay.data.samples import SampleSet


def column_units(
    x: Num[np.ndarray, "n d"], *, is_image: bool = False
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return each column's mean and deviation, [d] each; of images 0 and the largest |pixel|."""
    # A standard deviation of 0 is returned as 1.
    if is_image:  # pixels share one unit, and black stays 0
        return np.zeros(x.shape[1]), np.full(x.shape[1], float(np.abs(x).max()) or 1.0)
    varies = (x != x[:1]).any(axis=0)
    rows = x.astype(np.float64)
    center = np.where(varies, rows.mean(axis=0), rows[0])
    spread = np.where(varies, rows.std(axis=0), 0.0)
    return center, np.where(spread > 0, spread, 1.0)  # squares of 1e-200 are 0


def standardized_inputs(samples: SampleSet) -> Float[np.ndarray, "n d"]:
    """Return the inputs as rows, each column with mean 0 and standard deviation 1 (constant: 0)."""
    rows = np.asarray(samples.x, np.float64).reshape(len(samples), -1)
    center, spread = column_units(rows)
    return (rows - center) / spread
