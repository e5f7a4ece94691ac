"""What tests of commands share: short trainings, and a current folder of their own."""

import shutil
import sys

import pytest

from datassay.train.recipe import Recipe


@pytest.fixture(scope="module", autouse=True)
def short():
    """A fifth of the updates, each five times as long, where a command says no number of its own,
    and trees of one split into folds, not five.

    What is tested here is what a command does with models, not how well they learn.
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


@pytest.fixture
def here(data, tmp_path, monkeypatch):
    """A current folder with the files of the test module's `data` and nothing else."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(data, tmp_path, dirs_exist_ok=True)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:  # a user's own modules are imported anew in each test
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """No files: a module that needs some has a fixture of this name."""
    return tmp_path_factory.mktemp("empty")
