"""The labels against the same labels shuffled: is there a rule at all, and who breaks it?"""

import numpy as np
import torch
from torch import nn

from datassay.collect.collection import check_sets
from datassay.collect.curvature.output_geometry import OutputGeometry, output_geometry
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.score.influence_moments import influence_variance, pair_moments
from datassay.score.settings import Influence
from datassay.score.variance.pair_influence import check_penalties, geometry_influence
from datassay.train.convex import fit_convex

SHUFFLES = 19  # twenty fits with the labels as given: the smallest p-value is 5 %
MAX_P = 0.05
# A kurtosis above FEW says that few samples carry V[X], where V[X] is at least LEAST_SHARE of that
# of shuffled labels; chosen on half of the sets, see docs/methods.md.
FEW = 100.0
LEAST_SHARE = 0.3


@result
class ShuffledLabels:
    """How a model fits the labels, compared with the same labels shuffled among the samples.

    Attributes:
        p_value: share of the twenty fits, that to the labels as given included, whose mean loss is
            as low; 0.05 at least. Labels without a rule reach 0.05 in one case of twenty.
        variance_share: V[X] over its mean for shuffled labels: near 0 for one rule, near 1 for
            labels at random or an even mix of many rules.
        kurtosis: of X: the fewer samples carry V[X], the higher.
        has_room: whether there are as many samples as weights; with fewer the kurtosis says nothing
            of who breaks the rule.
    """

    p_value: float
    variance_share: float
    kurtosis: float
    has_room: bool = True

    @property
    def is_noise(self) -> bool:
        """Whether shuffled labels are fitted as well as the given ones."""
        return self.p_value > MAX_P

    @property
    def breakers(self) -> str:
        """Who breaks the rule: "few" samples (wrong or far ones), "many", "" where it holds."""
        if self.is_noise or not (self.has_room and self.variance_share >= LEAST_SHARE):
            return ""
        if self.kurtosis > FEW:
            return "few"
        return "many"


@checks_arguments
def shuffled_labels(
    model: nn.Module,
    train: SampleSet,
    *,
    loss: str = Influence.loss,
    ridge: float,
    damping: float = Influence.damping,
    seed: int = 0,
    progress: Progress = silent,
) -> ShuffledLabels | None:
    """Fit the labels as given and shuffled, and compare mean loss and variance of influence.

    Args:
        model: whose one dense layer trains, as `partition` takes it; its weights do not matter.
        train: n ≥ 3 samples.
        loss: "cross_entropy" (one output: binary), "mse" or "auto" (by the task).
        ridge: of the mean loss, (ridge/2)‖θ‖².
        damping: added to the Hessian of X.
        seed: of the shuffles.
        progress: called with (step, fits done, fits in all).

    Returns:
        The comparison; None where influence does not differ between pairs, as where all labels
        or all inputs are the same.

    Raises:
        SettingError: ridge is not positive, or damping is negative.
        DataError: fewer than 3 samples.
        ModelError: more than a dense layer at the end trains, or outputs do not fit the targets.

    Cost: twenty fits and twenty times `pair_influence`.
    Source: S4 §1 on random data; a permutation test (Ojala and Garriga, 2010). The verdict goes by
    the loss: V[X] of few wrong labels can exceed that of random ones.
    """
    check_penalties(ridge, damping)
    check_sets(train, None)
    geometry = output_geometry(model, train, loss)
    if not geometry.is_linear:
        raise ModelError(
            "shuffled labels need a model in which only one dense layer, the last, trains; this "
            "one trains more. Freeze the rest with requires_grad_(False)."
        )
    rng = np.random.default_rng(seed)
    n = len(geometry)
    losses = []
    variances = []
    kurtosis = float("nan")
    orders = [np.arange(n), *(rng.permutation(n) for _ in range(SHUFFLES))]  # as given first
    for draw, order in enumerate(orders):
        targets = geometry.targets[torch.as_tensor(order)]
        weights = fit_convex(geometry.features, targets, geometry.loss, ridge).weights[0]
        outputs = geometry.features.outputs(weights)
        fit = OutputGeometry(geometry.features, outputs, targets, geometry.loss, weights)
        losses.append(float(geometry.kind.value(outputs, targets).mean()))
        pairs = geometry_influence(fit, np.arange(n), ridge, damping)
        try:
            variances.append(influence_variance(pairs))
            if draw == 0:
                kurtosis = pair_moments(pairs).kurtosis
        except DataError:  # influence does not differ between pairs
            if draw == 0:
                return None
        progress("shuffle the labels", draw + 1, len(orders))
    n_as_low = int(np.sum(np.array(losses) <= losses[0]))  # that as given among them
    variance_share = float("nan")
    if len(variances) > 1:
        variance_share = variances[0] / float(np.mean(variances[1:]))
    has_room = n >= geometry.features.n_parameters
    return ShuffledLabels(n_as_low / len(losses), variance_share, kurtosis, has_room)
