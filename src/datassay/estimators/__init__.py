"""scikit-learn estimators: check, call, keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.estimators.cosine_encoder import CosineEncoder as CosineEncoder
    from datassay.estimators.local_variance import (
        LocalVarianceClassifier as LocalVarianceClassifier,
    )
    from datassay.estimators.local_variance import LocalVarianceRegressor as LocalVarianceRegressor
    from datassay.estimators.partitioned import PartitionedClassifier as PartitionedClassifier
    from datassay.estimators.partitioned import PartitionedRegressor as PartitionedRegressor
    from datassay.estimators.polynomial import PolynomialClassifier as PolynomialClassifier
    from datassay.estimators.polynomial import PolynomialRegressor as PolynomialRegressor
    from datassay.estimators.purifier import Purifier as Purifier
    from datassay.estimators.saved import SavedModel as SavedModel
    from datassay.estimators.saved import load_model as load_model
    from datassay.estimators.skorch import SampleWeightMixin as SampleWeightMixin
    from datassay.estimators.transformers import (
        SampleWeightTrainerMixin as SampleWeightTrainerMixin,
    )

make_public(__name__)
