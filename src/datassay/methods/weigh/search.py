"""Search the two settings of local-variance weights on validation samples."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from torch import nn

from datassay import rules
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.data.splits import split_indices
from datassay.errors import SettingError, install
from datassay.methods.weigh.reweight import HeadProblem, head_problem
from datassay.methods.weigh.settings import Weighting
from datassay.methods.weigh.weights import scaled_variance
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.score.neighbors.local_variance import neighbor_variance
from datassay.score.neighbors.search import nearest_neighbors
from datassay.train.head_training import HeadRecipe

if TYPE_CHECKING:
    from optuna import Study, Trial

STEP = "search weights"
STARTUP_TRIALS = 5  # trials that run to their end before others are compared with them
WARM_UP = 2  # epochs before a trial may be cut


class Weightings:
    """Local-variance weights at many (k, m); neighbours are searched once, for the largest k."""

    def __init__(self, problem: HeadProblem, largest_k: int, search: str):
        features = problem.features.double().numpy()
        self.index = nearest_neighbors(features, largest_k, search=search).index
        self.y = problem.labels

    def __call__(self, n_neighbors: int, max_ratio: float) -> Float[np.ndarray, " n"]:
        """Return the weights w, summing to 1."""
        return scaled_variance(neighbor_variance(self.index[:, :n_neighbors], self.y), max_ratio)


@result
class WeightSearch(Tabular):
    """The best pair (k, m), and all trials.

    Attributes:
        n_neighbors: k of the best trial.
        max_ratio: m of the best trial.
        score: its score on the validation samples, the mean over seeds: optimistic, being the best
            of many; score the final network on other samples.
        uniform: the score without weights, trained alike: where it is not lower, do not weight.
        metric: "accuracy" or "−½ squared error".
        trials: one row per trial: trial, n_neighbors, max_ratio, score, epochs, pruned.
    """

    n_neighbors: int
    max_ratio: float
    score: float
    uniform: float
    metric: str
    trials: pa.Table

    def to_table(self) -> pa.Table:
        """Return the trials."""
        return self.trials


@checks_arguments
def search_weights(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None = None,
    *,
    n_trials: int = 40,
    n_neighbors: tuple[int, int] = (5, 50),
    max_ratio: tuple[float, float] = (2, 100),
    val_fraction: float = 0.2,
    layer: str | None = None,
    recipe: HeadRecipe | None = None,
    seeds: Sequence[int] = (0,),
    search: str = Weighting.search,
    seed: int = Weighting.seed,
    progress: Progress = silent,
) -> WeightSearch:
    """Search k and m by retraining the last layer and scoring it on validation samples.

    Features and neighbours are found once. A trial retrains the layer from each seed in one
    program, stops where the validation score stops rising, and is cut where after an epoch it is
    below the median of the earlier trials at that epoch.

    Args:
        model: trained; left untouched.
        train: n training samples.
        val: validation samples, never the test set; None splits val_fraction of samples off.
        n_trials: pairs to try.
        n_neighbors: lowest and highest k.
        max_ratio: lowest and highest m, searched on a logarithmic scale.
        val_fraction: where val is None.
        layer: as for `reweight`.
        recipe: as for `reweight`; None: 25 epochs of Adam, stopped after 5 without a better score.
        seeds: of fresh weights and of the order of the samples; a trial's score is their mean.
        search: how neighbours are found, as for `local_variance_weights`.
        seed: of Optuna's sampler and of the split.
        progress: called with (step, trials done, trials in all).

    Returns:
        The best pair, its score beside that without weights, and the table of trials.

    Raises:
        DataError: as `reweight`, or too few samples to split.
        ModelError: as `reweight`.
        SettingError: a range is empty or out of bounds, or Optuna is not installed.

    Cost: a forward pass, the neighbours, and n_trials trainings of the layer.
    Source: S0 §4.2 and Appendix C leave the search open ("classical hyperparameters optimization").
    """
    rules.at_least("n_trials", n_trials, 1)
    for name, (low, high), bound in (("n_neighbors", n_neighbors, 2), ("max_ratio", max_ratio, 1)):
        if not bound <= low <= high:
            raise SettingError(
                f"{name} must be a range, lowest first, from {bound} on; got {low} to {high}."
            )
    if val is None:
        train_idx, val_idx = split_indices(
            train.y, is_classification=train.is_classification, val_fraction=val_fraction, seed=seed
        )
        val = train.subset(val_idx)
        train = train.subset(train_idx)
    recipe = recipe or HeadRecipe(patience=5)
    problem = head_problem(model, train, val, layer=layer, progress=progress)
    weightings = Weightings(problem, n_neighbors[1], search)
    study = _make_study(seed)

    def objective(trial: "Trial") -> float:
        """Return the trial's validation score, the mean over seeds."""
        from optuna import TrialPruned

        trial_k = trial.suggest_int("n_neighbors", *n_neighbors)
        trial_m = trial.suggest_float("max_ratio", *max_ratio, log=True)

        def should_stop(epoch: int, score: Any) -> bool:
            trial.report(float(score.mean()), epoch)
            return bool(trial.should_prune())

        weights = weightings(trial_k, trial_m)[None]
        trained = problem.train(weights, recipe, seeds=tuple(seeds), on_epoch=should_stop)
        trial.set_user_attr("epochs", len(trained.val_score))
        # `should_stop` ended the training; Optuna is told so too. An exact solver has no epochs.
        if recipe.solver == "adam" and trial.should_prune():
            raise TrialPruned
        return float(problem.scores(trained)[0])

    callbacks = [lambda study, _: progress(STEP, len(study.trials), n_trials)]
    study.optimize(objective, n_trials=n_trials, callbacks=callbacks)
    unweighted = problem.train(np.ones((1, len(train))), recipe, seeds=tuple(seeds))
    best_trial = study.best_trial
    rows = [
        {
            "trial": t.number,
            "n_neighbors": t.params["n_neighbors"],
            "max_ratio": t.params["max_ratio"],
            "score": t.value,
            "epochs": t.user_attrs["epochs"],
            "pruned": t.state.name == "PRUNED",
        }
        for t in study.trials
    ]
    return WeightSearch(
        n_neighbors=best_trial.params["n_neighbors"],
        max_ratio=best_trial.params["max_ratio"],
        score=float(study.best_value),
        uniform=float(problem.scores(unweighted)[0]),
        metric=problem.metric,
        trials=pa.Table.from_pylist(rows),
    )


def _make_study(seed: int) -> "Study":
    """Return an empty Optuna study; raise if Optuna is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise SettingError(
            f"the search needs Optuna, which is not installed; run {install('tune')}."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=WARM_UP),
    )
