"""PyDVL's exact Shapley values of a nearest-neighbour classifier."""

import numpy as np

from bench.data import rows
from datassay.data import SampleSet


def neighbour_shapley(train: SampleSet, test: SampleSet, count: int = 5) -> np.ndarray:
    from pydvl.valuation import Dataset, KNNShapleyValuation
    from sklearn.neighbors import KNeighborsClassifier

    parts = [Dataset(rows(part), part.y) for part in (train, test)]
    model = KNeighborsClassifier(n_neighbors=count)
    result = KNNShapleyValuation(model, parts[1], progress=False).fit(parts[0])
    return np.asarray(result.result.values)
