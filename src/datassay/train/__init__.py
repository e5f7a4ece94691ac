"""Fitting networks: one, many at once, and last layers alone."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.train.convex import fit_convex as fit_convex
    from datassay.train.fitter import fitter as fitter
    from datassay.train.fitter import taken_network as taken_network
    from datassay.train.head import Head as Head
    from datassay.train.head import split_head as split_head
    from datassay.train.head_training import HeadRecipe as HeadRecipe
    from datassay.train.head_training import TrainedHeads as TrainedHeads
    from datassay.train.head_training import train_heads as train_heads
    from datassay.train.history import PredictionHistory as PredictionHistory
    from datassay.train.recipe import Recipe as Recipe
    from datassay.train.retrain import Retrained as Retrained
    from datassay.train.retrain import networks_at_a_time as networks_at_a_time
    from datassay.train.retrain import retrain as retrain
    from datassay.train.training import TrainedNetworks as TrainedNetworks
    from datassay.train.training import sample_losses as sample_losses
    from datassay.train.training import train_networks as train_networks

make_public(__name__)
