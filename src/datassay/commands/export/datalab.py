"""cleanlab's Datalab: the columns of `Datalab.get_issues()`, one row per sample in the same order.

Its scores lie in 0 to 1 and LOW is bad, the reverse of ours.
"""

import numpy as np
import pyarrow as pa

from datassay.commands.export.material import Export, Exported, Material, single_labels
from datassay.results import Meaning, with_meanings

FILE = "datalab_issues.parquet"
_LOW = "low: bad"
MEANINGS = {
    "id": Meaning("the sample's id; the rows stand in the order of the run"),
    "is_label_issue": Meaning("whether the label is suspected"),
    "label_score": Meaning("1 minus the probability that the label is wrong", "probability", _LOW),
    "given_label": Meaning("the given label"),
    "predicted_label": Meaning("the label that the run suggests"),
    "is_outlier_issue": Meaning("whether the sample lies far from all others"),
    "outlier_score": Meaning(
        "1 / (1 + exp(z)), z the modified z-score of the mean distance to the ten nearest, minus "
        "3.5; below 1/2: an outlier",
        "",
        _LOW,
    ),
    "is_near_duplicate_issue": Meaning(
        "whether another sample, of either part, has the same input"
    ),
    "near_duplicate_score": Meaning(
        "1 - exp(-d / median d), d the distance to the nearest other sample; 0 of equal inputs",
        "",
        _LOW,
    ),
    "near_duplicate_sets": Meaning("rows of this table with the same input"),
    "distance_to_nearest_neighbor": Meaning(
        "to the nearest other sample", "robust standard deviations", "0: equal inputs"
    ),
}
OPENING = (
    'Read it with pandas.read_parquet; its rows stand as those of Datalab.get_issues("label"). '
    "In its scores low is bad."
)


def export(material: Material) -> Exported:
    """Return the table of issues, without those that the run did not check for."""
    single_labels(material, "datalab")
    scores = material.scores
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "id": scores["id"],
        "is_label_issue": scores["is_issue"],
        "label_score": pa.array(1 - scores["wrong_probability"].to_numpy()),
        "given_label": material.given,
        "predicted_label": scores["suggested_label"],
    }
    if "outlier_score" in scores.column_names:
        columns |= _convert_outliers(scores) | _convert_duplicates(scores)
    return Exported({FILE: with_meanings(pa.table(columns), MEANINGS)}, OPENING)


def _convert_outliers(scores: pa.Table) -> dict[str, pa.Array]:
    """Return Datalab's columns of outliers; samples that were not searched get the best score."""
    outlierness = scores["outlier_score"].to_numpy()  # nan where it was not looked for
    score = np.where(np.isnan(outlierness), 1.0, 1 / (1 + np.exp(np.minimum(outlierness, 700))))
    return {"is_outlier_issue": pa.array(outlierness > 0), "outlier_score": pa.array(score)}


def _convert_duplicates(scores: pa.Table) -> dict[str, pa.Array]:
    """Return Datalab's columns: whether a near-duplicate, which rows equal it, its distance."""
    groups: dict[int, list[int]] = {}
    row_groups = scores["duplicate_group"].to_pylist()
    for row, group in enumerate(row_groups):
        if group is not None:
            groups.setdefault(group, []).append(row)
    duplicates = [[r for r in groups.get(g, ()) if r != row] for row, g in enumerate(row_groups)]
    nearest = scores["nearest_distance"].to_numpy()  # nan where it was not looked for
    distance = np.where([bool(rows) for rows in duplicates], 0.0, nearest)
    is_equal = distance == 0  # also to a validation sample
    scale = 1.0
    if (distance > 0).any():
        scale = np.median(distance[distance > 0])
    score = np.where(np.isnan(distance), 1.0, 1 - np.exp(-distance / scale))
    return {
        "is_near_duplicate_issue": pa.array(is_equal),
        "near_duplicate_score": pa.array(score),
        "near_duplicate_sets": pa.array(duplicates, pa.list_(pa.int64())),
        "distance_to_nearest_neighbor": pa.array(distance, mask=np.isnan(distance)),
    }


EXPORT = Export("datalab", "The columns of cleanlab's Datalab.", export)
