"""scikit-learn estimators: check, call, keep."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.estimators.skorch import SampleWeightMixin as SampleWeightMixin
    from datassay.estimators.transformers import (
        SampleWeightTrainerMixin as SampleWeightTrainerMixin,
    )
    from datassay.methods.partition.estimator import PartitionedClassifier as PartitionedClassifier
    from datassay.methods.partition.estimator import PartitionedRegressor as PartitionedRegressor
    from datassay.methods.polynomial.estimators.cosine_encoder import CosineEncoder as CosineEncoder
    from datassay.methods.polynomial.estimators.polynomial import (
        PolynomialClassifier as PolynomialClassifier,
    )
    from datassay.methods.polynomial.estimators.polynomial import (
        PolynomialRegressor as PolynomialRegressor,
    )
    from datassay.methods.predict.saved import SavedModel as SavedModel
    from datassay.methods.predict.saved import load_model as load_model
    from datassay.methods.purify.estimator import Purifier as Purifier
    from datassay.methods.weigh.estimator import (
        LocalVarianceClassifier as LocalVarianceClassifier,
    )
    from datassay.methods.weigh.estimator import LocalVarianceRegressor as LocalVarianceRegressor

make_public(__name__)
