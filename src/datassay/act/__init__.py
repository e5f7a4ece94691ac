"""Step 3: scores become decisions."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.act.choose.action import Action as Action
    from datassay.act.choose.action import predictions as predictions
    from datassay.act.choose.action import relabelling as relabelling
    from datassay.act.choose.action import removal as removal
    from datassay.act.choose.action import splitting as splitting
    from datassay.act.choose.action import weighting as weighting
    from datassay.act.choose.compare import compare_actions as compare_actions
    from datassay.act.choose.gains import ActionGain as ActionGain
    from datassay.act.choose.gains import ActionTable as ActionTable
    from datassay.act.choose.kinds import ActionKind as ActionKind
    from datassay.act.choose.kinds import proposals as proposals
    from datassay.act.choose.learner import Chosen as Chosen
    from datassay.act.choose.learner import best_learner as best_learner
    from datassay.act.choose.parts import Part as Part
    from datassay.act.choose.parts import fifths as fifths
    from datassay.act.remove.auroc import auroc as auroc
    from datassay.act.remove.removal_curve import RemovalCurve as RemovalCurve
    from datassay.act.remove.removal_curve import removal_curve as removal_curve
    from datassay.act.remove.removal_curve import task_recipe as task_recipe
    from datassay.act.remove.summarize import KeepSet as KeepSet
    from datassay.act.remove.summarize import summarize as summarize
    from datassay.act.review.corrections import corrected as corrected
    from datassay.act.review.decisions import Decision as Decision
    from datassay.act.review.decisions import Decisions as Decisions
    from datassay.act.review.judged import Judged as Judged
    from datassay.act.review.judged import judged as judged
    from datassay.act.review.judged import read_judged as read_judged
    from datassay.act.review.remaining import Remaining as Remaining
    from datassay.act.review.remaining import probe as probe
    from datassay.act.review.remaining import remaining as remaining
    from datassay.methods.partition.block_model import BlockModel as BlockModel
    from datassay.methods.partition.block_model import block_model as block_model
    from datassay.methods.partition.blocks import Partition as Partition
    from datassay.methods.partition.blocks import agreement as agreement
    from datassay.methods.partition.blocks import oracle_agreement as oracle_agreement
    from datassay.methods.partition.blocks import partition as partition
    from datassay.methods.purify.loop import Purification as Purification
    from datassay.methods.purify.loop import PurificationTrace as PurificationTrace
    from datassay.methods.purify.loop import purify as purify
    from datassay.methods.purify.stopping import held_out_stop as held_out_stop
    from datassay.methods.purify.stopping import held_out_threshold as held_out_threshold
    from datassay.methods.purify.stopping import inflection_stop as inflection_stop
    from datassay.methods.purify.stopping import validation_stop as validation_stop
    from datassay.methods.sample.comparison import SamplingComparison as SamplingComparison
    from datassay.methods.sample.comparison import compare_designs as compare_designs
    from datassay.methods.sample.density import Density as Density
    from datassay.methods.sample.interpolation_bound import InterpolationBound as InterpolationBound
    from datassay.methods.sample.interpolation_bound import (
        interpolation_bound as interpolation_bound,
    )
    from datassay.methods.sample.taylor import TaylorSample as TaylorSample
    from datassay.methods.sample.taylor import index_from_draws as index_from_draws
    from datassay.methods.sample.taylor import taylor_index as taylor_index
    from datassay.methods.sample.taylor import taylor_sample as taylor_sample
    from datassay.methods.weigh.baseline_weights import active_bias_weights as active_bias_weights
    from datassay.methods.weigh.baseline_weights import (
        balanced_variance_weights as balanced_variance_weights,
    )
    from datassay.methods.weigh.baseline_weights import batched_active_bias as batched_active_bias
    from datassay.methods.weigh.baseline_weights import (
        class_balanced_weights as class_balanced_weights,
    )
    from datassay.methods.weigh.baseline_weights import self_paced_weights as self_paced_weights
    from datassay.methods.weigh.features import trained_network as trained_network
    from datassay.methods.weigh.gain import WeightGain as WeightGain
    from datassay.methods.weigh.gain import head_gain as head_gain
    from datassay.methods.weigh.gain import network_gain as network_gain
    from datassay.methods.weigh.reweight import HeadProblem as HeadProblem
    from datassay.methods.weigh.reweight import Reweighted as Reweighted
    from datassay.methods.weigh.reweight import head_problem as head_problem
    from datassay.methods.weigh.reweight import reweight as reweight
    from datassay.methods.weigh.search import Weightings as Weightings
    from datassay.methods.weigh.search import WeightSearch as WeightSearch
    from datassay.methods.weigh.search import search_weights as search_weights
    from datassay.methods.weigh.weights import SampleWeights as SampleWeights
    from datassay.methods.weigh.weights import local_variance_weights as local_variance_weights
    from datassay.methods.weigh.weights import sample_weights as sample_weights
    from datassay.train.folds import validation_score as validation_score
    from datassay.train.learner import Estimators as Estimators
    from datassay.train.learner import Networks as Networks
    from datassay.train.learner import table_learner as table_learner

make_public(__name__)
