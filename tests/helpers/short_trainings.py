"""Short trainings, for tests of what a command does with models, not of how well they learn."""

import contextlib

import pytest

from datassay.train.recipe import Recipe


@contextlib.contextmanager
def short_trainings():
    """A fifth of the updates, each five times as long, where a command says no number of its own,
    and trees of one split into folds, not five.
    """
    made = Recipe.__init__

    def shorter(self, *args, **given):
        ours = {"lr": 5e-3} if len(args) < 2 else {}
        made(self, *args, **ours | ({"steps": 60} if len(args) < 3 else {}) | given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recipe, "__init__", shorter)
        patch.setattr("datassay.train.recipe.FEWEST_UPDATES", 100)
        patch.setattr("datassay.score.labels.judges.MOST_SPLITS", 1)
        yield
