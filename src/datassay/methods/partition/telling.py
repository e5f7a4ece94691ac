"""The input that tells blocks apart best, by which a page names them."""

import numpy as np
from jaxtyping import Bool, Int

from datassay.data.samples import SampleSet
from datassay.data.scaling import standardized_inputs
from datassay.report.wording import number, share, shortened


def telling_input(
    samples: SampleSet, block: Int[np.ndarray, " n"]
) -> tuple[str, np.ndarray, list[str]]:
    """Return the column whose means differ most between blocks, its values, and means in words.

    Nothing where there is one block, or the inputs are no named columns.
    """
    x = standardized_inputs(samples)
    is_named = samples.kind == "row" and len(samples.feature_names) == x.shape[1]
    blocks = [block == k for k in np.unique(block)]
    if not is_named or len(blocks) < 2:
        return "", np.array([]), []
    j = int(np.ptp([x[inside].mean(axis=0) for inside in blocks], axis=0).argmax())
    values = np.asarray(samples.x, np.float64).reshape(x.shape)[:, j]
    column = samples.feature_names[j]
    name = shortened(column, 16)
    if is_indicator(values):
        return column, values, [_describe_category(samples, j, inside) for inside in blocks]
    means = [float(values[inside].mean()) for inside in blocks]
    return column, values, [f"mean {name} {number(m).replace('-', '−')}" for m in means]


def _describe_category(samples: SampleSet, j: int, inside: Bool[np.ndarray, " n"]) -> str:
    """Return the category that a block's samples share, or how many have that of column j."""
    names = samples.feature_names
    shares = np.asarray(samples.x, np.float64).reshape(len(samples), -1)[inside].mean(axis=0)
    column, is_category, _ = names[j].partition("=")
    siblings = [k for k, name in enumerate(names) if is_category and name.startswith(f"{column}=")]
    for k in (j, *siblings):
        if shares[k] == 1:
            return shortened(names[k], 16)
    if shares[j] == 0:
        return "others"
    return f"{shortened(names[j], 16)} in {share(float(shares[j]))}"


def is_indicator(values: np.ndarray) -> bool:
    """Return whether values only say of each sample whether something is so."""
    return bool(np.isin(values, (0, 1)).all())
