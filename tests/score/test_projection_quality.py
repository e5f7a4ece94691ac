"""How well projected scores rank samples, and the smallest projection for a target."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import datassay as da
from datassay.collect import choose_form as form_module
from datassay.collect.collection import sample_layers
from datassay.commands.run.job import run
from datassay.commands.run.page import page as run_page
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps import projection
from datassay.commands.run.steps.projection import CHOICE, REACHED, choose_projection
from datassay.commands.run.steps.settings import check_settings
from datassay.commands.terminal import page_lines
from datassay.errors import SettingError
from datassay.score.compare import projection_quality as quality_module
from datassay.score.compare.projection_quality import (
    SCORES,
    ProjectionQuality,
    projection_quality,
    rank_correlation,
)

TRAIN, VAL = da.load("iris")
MODEL = da.build_model("mlp:width=16", TRAIN)  # d = 4·16 + 16 + 16·3 + 3 = 131
SETTINGS = RunSettings(model="mlp:width=16", curve_seeds=0, steps=100)


@pytest.fixture
def too_many_samples(monkeypatch):
    """Iris is what 60 000 samples are otherwise: too many for a kernel."""
    monkeypatch.setattr(form_module, "LARGEST_EIGENPROBLEM", 20)
    monkeypatch.setattr(form_module, "MOST_SECONDS", 0)
    monkeypatch.setattr(form_module, "LANDMARK_BYTES", 0)


@pytest.mark.parametrize("outputs", ["joint", "averaged"])
def test_the_features_are_those_of_the_run(monkeypatch, too_many_samples, outputs):
    """Oracle: the rows that collecting all samples gives for the samples that were drawn."""
    seen, scores = [], quality_module._compute_scores
    monkeypatch.setattr(
        quality_module, "_compute_scores", lambda *a: seen.append(a[0]) or scores(*a)
    )
    given = {"outputs": outputs, "seed": 3}
    projection_quality(MODEL, TRAIN, VAL, n_features=(20,), n_samples=30, draws=1, **given)
    few = next(lin for lin in seen if lin.features is not None)
    each = form_module.coordinates_for(sample_layers(MODEL, TRAIN), 20)
    lin = da.collect(MODEL, TRAIN, VAL, projection=each, **given)
    assert lin.form.representation == "features" and lin.form.outputs == outputs
    positions = np.flatnonzero(np.isin(lin.ids, few.ids))
    rows = lin.features.reshape(len(TRAIN), lin.rows_per_sample, -1)[positions].flatten(0, 1)
    torch.testing.assert_close(few.features, rows)
    assert few.form.products == lin.form.products and len(positions) == 30


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outputs", "reference", "exact"),
    [("joint", "joint", True), ("averaged", "joint", False), ("averaged", "averaged", True)],
)
def test_nothing_left_out_ranks_as_the_unprojected(outputs, reference, exact):
    quality = projection_quality(
        MODEL, TRAIN, VAL, outputs=outputs, reference=reference, n_features=(131, 20),
        n_samples=40, draws=2,
    )  # fmt: skip
    assert quality.reference == reference and quality.n_features.tolist() == [21, 131]
    for score in SCORES:
        # Sharing one row among the outputs changes ranks; nothing else does.
        assert quality.correlation[score][1] == pytest.approx([quality.unprojected[score]] * 2)
        means = quality.correlation[score].mean(1)
        assert (quality.low[score] <= means + 1e-9).all()
        assert (means <= quality.high[score] + 1e-9).all()
    assert (quality.unprojected["information"] == pytest.approx(1)) == exact
    assert quality.smallest(0.999) == (1 if exact else None)


def made(values) -> ProjectionQuality:
    correlation = {score: np.array(values)[:, None] for score in SCORES}
    ends = {score: np.array(values) for score in SCORES}
    ones = dict.fromkeys(SCORES, 1.0)
    p = np.arange(len(values))
    return ProjectionQuality(
        tuple(range(len(values))), p, correlation, ends, ends, ones, 30, "joint", "joint"
    )


@pytest.mark.parametrize(("target", "position"), [(0.5, 0), (0.8, 1), (0.81, 2), (0.96, None)])
def test_the_smallest_that_reaches_the_target(target, position):
    assert made([0.6, 0.8, 0.95]).smallest(target) == position


def test_rank_correlation_with_ties_is_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.integers(5, size=(2, 40)).astype(float)
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b)[0])
    assert rank_correlation(a, np.exp(3 * b)) == pytest.approx(rank_correlation(a, b))
    assert rank_correlation(a, -a) == pytest.approx(-1)
    assert np.isnan(rank_correlation(a, np.ones(40)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reference": "exact"}, "reference must be joint or averaged"),
        ({"draws": 0}, "draws and n_features must be at least 1"),
        ({"n_features": (0,)}, "draws and n_features must be at least 1"),
        ({"n_samples": 29}, "n_samples must be 30 to 120, for 3 kernel rows"),
        ({"n_samples": 121}, "n_samples must be 30 to 120"),
        ({"steps": 0}, "steps"),
    ],
)
def test_bad_settings(given, message):
    with pytest.raises(SettingError, match=message):
        projection_quality(MODEL, TRAIN, VAL, **given)


def test_bad_targets():
    for target in (0.0, 1.1, float("nan")):
        with pytest.raises(SettingError, match=r"rank_correlation must be in \(0, 1\]"):
            check_settings(replace(SETTINGS, rank_correlation=target), 100)
        with pytest.raises(SettingError, match="rank_correlation"):
            made([0.5]).smallest(target)
    with pytest.raises(SettingError, match="score must be one of"):
        made([0.5]).smallest(0.5, "loss")
    with pytest.raises(SettingError, match="projection, which must then be auto; got 9"):
        check_settings(replace(SETTINGS, rank_correlation=0.9, projection=9), 100)


@pytest.mark.slow
def test_a_run_takes_the_smallest_and_says_so(monkeypatch, too_many_samples):
    monkeypatch.setattr(projection, "N_FEATURES", (8, 131))
    settings = replace(SETTINGS, rank_correlation=0.5)
    result = run(TRAIN, VAL, settings)
    chosen = choose_projection(MODEL, TRAIN, VAL, settings, lambda *_: None)
    assert isinstance(chosen.settings.projection, int) and not chosen.warnings
    assert f"(≤ {chosen.settings.projection} a tensor)" in result.facts["Jacobian"]
    assert "for 0.5 of information" in result.facts[CHOICE]
    assert result.facts[REACHED].endswith("; on 120 samples")
    assert result.projection_quality is not None
    assert result.projection_quality.n_features.tolist() == [8, 131]
    shown = [str(line) for line in page_lines(run_page(result), verbose=True)]
    assert f"{CHOICE}: {result.facts[CHOICE]}" in shown


def test_a_target_out_of_reach_is_told(monkeypatch, too_many_samples):
    monkeypatch.setattr(projection, "N_FEATURES", (8,))
    chosen = choose_projection(
        MODEL, TRAIN, VAL, replace(SETTINGS, rank_correlation=1.0), lambda *_: None
    )
    (warning,) = chosen.warnings
    assert warning.startswith("a rank correlation of 1 with exact information was asked for; the")


def test_where_nothing_is_projected_nothing_is_chosen():
    chosen = choose_projection(
        MODEL, TRAIN, VAL, replace(SETTINGS, rank_correlation=0.9), lambda *_: None
    )
    assert chosen.settings.projection == "auto" and not chosen.warnings
    assert chosen.facts[CHOICE] == "none, joint outputs"
    assert chosen.facts[REACHED].startswith("information 1.000, ")
    assert choose_projection(MODEL, TRAIN, VAL, SETTINGS, lambda *_: None).facts == {}
