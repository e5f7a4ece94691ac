"""Step 2: arrays become one row per sample."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.ranks import rank_correlation as rank_correlation
    from datassay.score.attribution import RemovalScores as RemovalScores
    from datassay.score.attribution import attribution as attribution
    from datassay.score.attribution import removal_scores as removal_scores
    from datassay.score.checks.data_issues import data_issues as data_issues
    from datassay.score.checks.odd_inputs import OddInputs as OddInputs
    from datassay.score.checks.odd_inputs import odd_inputs as odd_inputs
    from datassay.score.compare.aggregate import Aggregate as Aggregate
    from datassay.score.compare.aggregate import aggregate as aggregate
    from datassay.score.compare.consensus import Consensus as Consensus
    from datassay.score.compare.consensus import RunScores as RunScores
    from datassay.score.compare.consensus import consensus as consensus
    from datassay.score.compare.halves import RetrainedHalves as RetrainedHalves
    from datassay.score.compare.halves import retrained_halves as retrained_halves
    from datassay.score.compare.projection_quality import N_FEATURES as N_FEATURES
    from datassay.score.compare.projection_quality import SCORES as SCORES
    from datassay.score.compare.projection_quality import projection_quality as projection_quality
    from datassay.score.compare.retraining_check import RetrainingCheck as RetrainingCheck
    from datassay.score.compare.retraining_check import retraining_check as retraining_check
    from datassay.score.compare.robustness import Robustness as Robustness
    from datassay.score.compare.robustness import robustness as robustness
    from datassay.score.compare.scores import Scores as Scores
    from datassay.score.compare.scores import standard_scores as standard_scores
    from datassay.score.compare.stability import RunSmoothness as RunSmoothness
    from datassay.score.compare.stability import Stability as Stability
    from datassay.score.compare.stability import run_smoothness as run_smoothness
    from datassay.score.compare.stability import stability as stability
    from datassay.score.compare.trust import TrustCheck as TrustCheck
    from datassay.score.compare.trust import trust_check as trust_check
    from datassay.score.effects import Attribution as Attribution
    from datassay.score.effects import TopEffects as TopEffects
    from datassay.score.effects import outcome as outcome
    from datassay.score.index.build import index as index
    from datassay.score.index.opened import Index as Index
    from datassay.score.index.opening import open_index as open_index
    from datassay.score.index.plan import IndexPlan as IndexPlan
    from datassay.score.index.plan import index_plan as index_plan
    from datassay.score.influence.linear import SampleInfluence as SampleInfluence
    from datassay.score.influence.linear import linear_influence as linear_influence
    from datassay.score.influence.methods import METHODS as METHODS
    from datassay.score.influence.methods import influence as influence
    from datassay.score.influence.plan import InfluencePlan as InfluencePlan
    from datassay.score.influence.plan import influence_plan as influence_plan
    from datassay.score.influence.replay.optimizer import Optimizer as Optimizer
    from datassay.score.influence.replay.training_loop import Replay as Replay
    from datassay.score.influence.replay.training_loop import replay as replay
    from datassay.score.influence.whole.gauss_newton import gauss_newton as gauss_newton
    from datassay.score.influence.whole.solvers import Problem as Problem
    from datassay.score.influence.whole.solvers import conjugate_gradients as conjugate_gradients
    from datassay.score.influence.whole.solvers import exact as exact
    from datassay.score.influence.whole.solvers import lissa as lissa
    from datassay.score.influence_moments import InfluenceMoments as InfluenceMoments
    from datassay.score.influence_moments import gradient_moments as gradient_moments
    from datassay.score.influence_moments import influence_moments as influence_moments
    from datassay.score.information.average import AverageInformation as AverageInformation
    from datassay.score.information.average import average_information as average_information
    from datassay.score.information.bounds import membership as membership
    from datassay.score.information.bounds import membership_sigma as membership_sigma
    from datassay.score.information.bounds import overfitting_bound as overfitting_bound
    from datassay.score.information.common import CommonInformation as CommonInformation
    from datassay.score.information.common import common_information as common_information
    from datassay.score.information.common import nearest_sets as nearest_sets
    from datassay.score.information.gaussian_kl import KlInformation as KlInformation
    from datassay.score.information.gaussian_kl import kl_information as kl_information
    from datassay.score.information.groups import GroupInformation as GroupInformation
    from datassay.score.information.groups import group_information as group_information
    from datassay.score.information.marginal import MarginalInformation as MarginalInformation
    from datassay.score.information.marginal import marginal_information as marginal_information
    from datassay.score.information.pairs import PairInformation as PairInformation
    from datassay.score.information.pairs import nearest_pairs as nearest_pairs
    from datassay.score.information.pairs import pair_information as pair_information
    from datassay.score.information.weights import SteadyState as SteadyState
    from datassay.score.information.weights import gradient_covariance as gradient_covariance
    from datassay.score.information.weights import (
        steady_state_covariance as steady_state_covariance,
    )
    from datassay.score.label_issues import LabelIssues as LabelIssues
    from datassay.score.label_issues import label_issues as label_issues
    from datassay.score.labels.judges import further_judges as further_judges
    from datassay.score.labels.judges import (
        held_out_probabilities as held_out_probabilities,
    )
    from datassay.score.labels.sources import source_columns as source_columns
    from datassay.score.learning_curve import LearningCurve as LearningCurve
    from datassay.score.learning_curve import learning_curve as learning_curve
    from datassay.score.leave_one_out import LeaveOneOut as LeaveOneOut
    from datassay.score.leave_one_out import leave_one_out as leave_one_out
    from datassay.score.linear.eigenbasis import eigenbasis as eigenbasis
    from datassay.score.linear.training_run import Dynamics as Dynamics
    from datassay.score.linear.training_run import filter_values as filter_values
    from datassay.score.neighbors.local_variance import LocalVariance as LocalVariance
    from datassay.score.neighbors.local_variance import local_variance as local_variance
    from datassay.score.neighbors.search import Neighbors as Neighbors
    from datassay.score.neighbors.search import nearest_neighbors as nearest_neighbors
    from datassay.score.registry import Context as Context
    from datassay.score.registry import Score as Score
    from datassay.score.removal_effects import RemovalEffects as RemovalEffects
    from datassay.score.removal_effects import SetEffects as SetEffects
    from datassay.score.removal_effects import geometry_effects as geometry_effects
    from datassay.score.removal_effects import removal_effects as removal_effects
    from datassay.score.removal_effects import set_effects as set_effects
    from datassay.score.sample_information import SampleInformation as SampleInformation
    from datassay.score.sample_information import sample_information as sample_information
    from datassay.score.variance.pair_influence import PairInfluence as PairInfluence
    from datassay.score.variance.pair_influence import Partners as Partners
    from datassay.score.variance.pair_influence import pair_influence as pair_influence
    from datassay.score.variance.shuffled import ShuffledLabels as ShuffledLabels
    from datassay.score.variance.shuffled import shuffled_labels as shuffled_labels

make_public(__name__)
