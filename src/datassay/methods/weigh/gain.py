"""Measure whether a weighting helps: paired trainings with and without it."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay import rules
from datassay.act.choose.parts import scoring_rule
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.methods.weigh.reweight import HeadProblem
from datassay.methods.weigh.settings import Weighting
from datassay.optional import select_rows
from datassay.progress import Progress, part_of, silent
from datassay.results import Tabular, result
from datassay.stats import SAME, Interval, paired_interval, verdicts
from datassay.train.head_training import HeadRecipe
from datassay.train.recipe import Recipe
from datassay.train.training import TrainedNetworks, train_networks

UNIFORM = "no weights"
STEP = "train with and without weights"
# Updates of the last layer: all epochs of small sets, larger batches for large ones.
FEWEST_UPDATES, MOST_UPDATES = 1500, 6000


@result
class WeightGain(Tabular):
    """Validation scores of one training from S seeds under M weightings, the first uniform.

    Attributes:
        names: of the weightings; the first is "no weights".
        scores: [S, M, m], what each validation sample adds to the score, which is their mean.
        metric: as `run` has it: "accuracy", "balanced accuracy" where a class is rare, or "R²".
        unit: squared weight of one prediction in the score; 0 of "R²".
    """

    names: tuple[str, ...]
    scores: Float[np.ndarray, "S M m"]
    metric: str
    unit: float = 0.0

    @property
    def score(self) -> Float[np.ndarray, "S M"]:
        """Score of each training."""
        return self.scores.mean(2)

    @property
    def each(self) -> Float[np.ndarray, "M m"]:
        """What every validation sample adds, the mean over seeds."""
        return self.scores.mean(0)

    def interval(self, weighting: int, against: int = 0) -> Interval:
        """Return the interval of the mean gain over another weighting, paired by seed and sample.

        Args:
            weighting: position in `names`.
            against: position of the other one; 0 is no weights.

        Returns:
            The gain and its interval in the unit of `score`, by `stats.paired_interval`.
        """
        change = self.scores[:, weighting] - self.scores[:, against]
        return paired_interval([change], self.unit)

    def difference(self, weighting: int, against: int = 0) -> tuple[float, float]:
        """Return the gain and the half-width of its `interval`; 0 of a weighting with itself."""
        outcome = self.interval(weighting, against)
        return outcome.gain, outcome.half if weighting != against else 0.0

    def verdict(self, weighting: int, against: int = 0) -> str:
        """Return the verdict on one weighting against another.

        Against no weights all weightings are judged together, by `stats.verdicts`.
        """
        if weighting == against:
            return SAME
        if against:
            return self.interval(weighting, against).verdict
        all_verdicts = verdicts([self.interval(i) for i in range(1, len(self.names))])
        return all_verdicts[weighting - 1]

    def to_table(self) -> pa.Table:
        """Return one row per weighting: weighting, mean score, gain, half_width, verdict."""
        rows = []
        for i, name in enumerate(self.names):
            gain, half = self.difference(i)
            row = {"weighting": name, "score": float(self.score[:, i].mean())}
            rows.append(row | {"gain": gain, "half_width": half, "verdict": self.verdict(i)})
        return pa.Table.from_pylist(rows)


def head_gain(
    problem: HeadProblem,
    val: SampleSet,
    weightings: Mapping[str, Float[np.ndarray, " n"]],
    *,
    recipe: HeadRecipe | None = None,
    n_seeds: int = 10,
    seed: int = Weighting.seed,
    progress: Progress = silent,
) -> WeightGain:
    """Retrain the last layer with and without weights, all seeds and weightings in one program.

    Args:
        problem: the layer, with features of the training and of these validation samples.
        val: the validation samples; they never stop the training.
        weightings: name → [n], any scale; uniform weights come first by themselves.
        recipe: how the layer is trained; None: `head_recipe`.
        n_seeds: S, at least 2.
        seed: the first of the seeds.
        progress: called with (step, epochs done, epochs in all).

    Returns:
        The scores. Layers of one seed start alike and see the same batches.

    Raises:
        DataError: weights that are not finite numbers of at least 0, or all 0.
        SettingError: fewer than 2 seeds, or a setting of the recipe is out of range.

    Cost: 4 n d k S (M + 1) operations per epoch.
    """
    assert problem.val is not None
    names, weights = _with_uniform(weightings, len(problem.labels), n_seeds)
    trained = problem.train(
        weights, recipe or head_recipe(len(problem.labels)), stopped=False,
        seeds=tuple(range(seed, seed + n_seeds)),
        progress=lambda _, done, total: progress(STEP, done, total),
    )  # fmt: skip
    head = problem.head
    outputs = trained.outputs(problem.val[0]).double() * head.scale + head.shift  # [S, M, m, k]
    return _score_outputs(names, outputs, problem.labels, val)


def retrain_head(problem: HeadProblem, weights: Float[np.ndarray, " n"], seed: int) -> nn.Module:
    """Retrain the network's last layer under weights, as `head_gain` does from a seed."""
    recipe = head_recipe(len(problem.labels))
    trained = problem.train(weights[None], recipe, seeds=(seed,), stopped=False)
    bias = select_rows(trained.bias, (0, 0))
    return problem.head.with_layer(trained.weight[0, 0], bias)


@checks_arguments
def network_gain(
    starts: Sequence[nn.Module],
    train: SampleSet,
    val: SampleSet,
    weightings: Mapping[str, Float[np.ndarray, " n"]],
    *,
    recipe: Recipe,
    seed: int = Weighting.seed,
    progress: Progress = silent,
) -> tuple[WeightGain, dict[str, TrainedNetworks]]:
    """Train whole networks with and without weights, all seeds of a weighting in one program.

    Args:
        starts: S networks of one architecture, one per seed; those of one seed start alike under
            every weighting and see the same batches.
        train: n training samples.
        val: the validation samples.
        weightings: name → [n], any scale; uniform weights come first by themselves.
        recipe: how the networks are trained.
        seed: of the batches.
        progress: called with (step, updates done, updates in all).

    Returns:
        The scores, and the networks by weighting.

    Raises:
        SettingError: fewer than 2 starts, or a setting of the recipe is out of range.

    Cost: S (M + 1) trainings.
    """
    names, weights = _with_uniform(weightings, len(train), len(starts))
    everyone = torch.arange(len(train)).expand(len(starts), -1)
    networks: dict[str, TrainedNetworks] = {}
    for i, (name, weight) in enumerate(zip(names, weights, strict=True)):
        report = part_of(progress, STEP, i * recipe.steps, len(names) * recipe.steps)
        networks[name] = train_networks(
            starts, train, everyone, recipe,
            seed=seed, sample_weight=torch.as_tensor(weight), progress=report,
        )  # fmt: skip
    outputs = torch.stack([network.outputs(val.x).double() for network in networks.values()], 1)
    return _score_outputs(names, outputs, train.y, val), networks


def head_recipe(n_samples: int) -> HeadRecipe:
    """Return S0's 25 epochs in batches of 25; small sets more epochs, large ones larger batches."""
    epochs = 25
    batch_size = 25
    updates = epochs * math.ceil(n_samples / batch_size)
    if updates < FEWEST_UPDATES:
        epochs = math.ceil(FEWEST_UPDATES * batch_size / n_samples)
    elif updates > MOST_UPDATES:
        batch_size = math.ceil(epochs * n_samples / MOST_UPDATES)
    return HeadRecipe(epochs=epochs, batch_size=batch_size)


def _with_uniform(
    weightings: Mapping[str, np.ndarray], n: int, n_seeds: int
) -> tuple[tuple[str, ...], Float[np.ndarray, "M n"]]:
    """Return names and weights, uniform ones first."""
    rules.at_least("n_seeds", n_seeds, 2, why=", so that seeds can be compared")
    return (UNIFORM, *weightings), np.stack([np.full(n, 1 / n), *weightings.values()])


def _score_outputs(
    names: tuple[str, ...], outputs: Float[Tensor, "S M m k"], labels: np.ndarray, val: SampleSet
) -> WeightGain:
    """Return each weighting's validation scores, per seed, from all networks' outputs."""
    rule = scoring_rule(val, labels, None)
    if val.is_classification and outputs.shape[-1] == 1:
        outputs = torch.cat([-outputs, outputs], -1)  # of two classes one logit, of the second
    scores = rule.scores(outputs.flatten(0, 1).numpy())
    return WeightGain(names, scores.reshape(outputs.shape[:3]), rule.metric, rule.unit)
