"""PyDVL's exact Shapley values of a nearest-neighbour classifier, and values out of bags."""

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


def out_of_bag(train: SampleSet, seed: int, count: int = 500) -> np.ndarray:
    """How often the trees of a forest that did not see a sample predict its label."""
    from pydvl.valuation import DataOOBValuation, Dataset
    from sklearn.ensemble import RandomForestClassifier

    part = Dataset(rows(train), train.y)
    forest = RandomForestClassifier(count, random_state=seed).fit(*part.data())
    return np.asarray(DataOOBValuation(forest).fit(part).result.values)
