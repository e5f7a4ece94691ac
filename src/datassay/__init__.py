"""datassay: which training samples matter, and what to do about it."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    __version__: str
    from datassay import lm as lm
    from datassay.act.remove.summarize import summarize as summarize
    from datassay.collect.backbone import Backbone as Backbone
    from datassay.collect.collection import collect as collect
    from datassay.commands.assay import assay as assay
    from datassay.data.corrupt.label_noise import add_label_noise as add_label_noise
    from datassay.data.load import load as load
    from datassay.data.samples import SampleSet as SampleSet
    from datassay.errors import DatassayError as DatassayError
    from datassay.methods.partition.blocks import partition as partition
    from datassay.methods.partition.estimator import PartitionedClassifier as PartitionedClassifier
    from datassay.methods.polynomial.estimators.polynomial import (
        PolynomialClassifier as PolynomialClassifier,
    )
    from datassay.methods.polynomial.estimators.polynomial import (
        PolynomialRegressor as PolynomialRegressor,
    )
    from datassay.methods.purify.estimator import Purifier as Purifier
    from datassay.methods.purify.loop import purify as purify
    from datassay.methods.sample.taylor import taylor_sample as taylor_sample
    from datassay.methods.weigh.estimator import (
        LocalVarianceClassifier as LocalVarianceClassifier,
    )
    from datassay.methods.weigh.weights import local_variance_weights as local_variance_weights
    from datassay.models.build import build_model as build_model
    from datassay.score.attribution import attribution as attribution
    from datassay.score.index.build import index as index
    from datassay.score.index.opening import open_index as open_index
    from datassay.score.influence.methods import influence as influence
    from datassay.score.influence_moments import influence_moments as influence_moments
    from datassay.score.label_issues import label_issues as label_issues
    from datassay.score.leave_one_out import leave_one_out as leave_one_out
    from datassay.score.removal_effects import removal_effects as removal_effects
    from datassay.score.sample_information import sample_information as sample_information
    from datassay.score.values import values as values

make_public(__name__)
