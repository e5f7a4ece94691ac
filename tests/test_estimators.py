"""The scikit-learn estimators: conformance, and what they do on mixed data."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from datassay.estimators import PartitionedClassifier, PartitionedRegressor


@parametrize_with_checks([
    PartitionedClassifier(restarts=1, max_blocks=2),
    PartitionedRegressor(restarts=1, max_blocks=2),
])
def test_scikit_learn_conformance(estimator, check):
    check(estimator)
