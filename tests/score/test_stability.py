"""Agreement of scores: correlations by SciPy, pairing by seed, units, refusals, a figure."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from torch import nn

import datassay as da
from datassay.errors import SettingError
from datassay.score.compare.stability import run_smoothness, stability


def scores(s=3, n=12, seed=0):
    rng = np.random.default_rng(seed)
    drawn = {name: rng.integers(0, 9, (s, n)).astype(float) for name in ("a", "b", "c")}
    for values in drawn.values():
        values[:, 0] = 12  # never all equal
    return drawn


@settings(deadline=None, max_examples=20)
@given(s=st.integers(1, 4), n=st.integers(3, 30), seed=st.integers(0, 99))
def test_correlations_are_scipys_averaged_over_seeds(s, n, seed):
    given_scores = scores(s, n, seed)
    agreement = stability(given_scores)
    for measure, mean in ((spearmanr, agreement.spearman), (pearsonr, agreement.pearson)):
        for i, a in enumerate(given_scores.values()):
            for j, b in enumerate(given_scores.values()):
                each = [measure(a[k], b[k]).statistic for k in range(s)]
                assert mean[i, j] == pytest.approx(np.mean(each), abs=1e-12)


def test_units_and_monotone_maps():
    before = stability(scores())
    scaled = stability({k: 5 * v + 2 for k, v in scores().items()})
    np.testing.assert_allclose(scaled.pearson, before.pearson)
    curved = stability({k: v**3 for k, v in scores().items()})
    np.testing.assert_allclose(curved.spearman, before.spearman)
    assert abs(curved.pearson - before.pearson).max() > 0.01


@pytest.mark.parametrize(
    ("given_scores", "message"),
    [
        ({}, "two runs or more, .*; got none"),
        ({"a": np.arange(3.0)}, r"two runs or more, .*; got a \[1, 3\]"),
        ({"a": np.arange(3.0), "b": np.arange(4.0)}, r"alike; got a \[1, 3\], b \[1, 4\]"),
        ({"a": np.ones((2, 1)), "b": np.ones((2, 1))}, "2 samples or more"),
        ({"a": np.arange(3.0), "b": np.array([0, np.nan, 1])}, "finite; those of b are not"),
        ({"a": np.arange(3.0), "b": np.ones(3)}, "those of b are all equal"),
    ],
)
def test_what_is_refused(given_scores, message):
    with pytest.raises(SettingError, match=message):
        stability(given_scores)


@pytest.mark.slow
def test_training_lengths_agree_on_digits():
    """S1 Fig. 5b: neighbouring training lengths correlate strongly, distant ones less."""
    train, val = da.load("digits")
    few = np.arange(150)
    lin = da.collect(da.build_model("mlp", train), train.subset(few), val)
    agreement = stability({
        str(t): da.sample_information(lin, steps=t).information for t in (100, 200, 10_000)
    })
    assert agreement.spearman[0, 1] > 0.95 > agreement.spearman[0, 2] > 0


def attributed(n=16, m=3, seed=0, **changes):
    """Effects of a small network on queries."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    train = rng.normal(size=(n, 4)), np.arange(n) % 2
    queries = rng.normal(size=(m, 4)), np.arange(m) % 2
    return da.influence(model, train, queries, measure="margin", **changes)


def test_effects_of_halves_are_those_of_random_halves():
    result = attributed()
    figures = run_smoothness(result, result)
    rng = np.random.default_rng(0)
    drawn = [result.effect[rng.permutation(16)[:8]].sum(0) for _ in range(20_000)]
    # Without replacement the variance is n / (n − 1) times that of the formula.
    np.testing.assert_allclose(figures.half * np.sqrt(16 / 15), np.std(drawn, 0), rtol=0.03)
    np.testing.assert_allclose(figures.single**2, np.square(result.effect).mean(0))
    assert not figures.parting.any() and np.isclose(figures.agreement, 1) and not figures.warning


@pytest.mark.parametrize(
    ("between", "message"),
    [
        (("none", "single"), ""),
        (("single", "half"), "training again without one sample shows nothing"),
        (("half", "more"), "no attribution can predict single runs here"),
    ],
)
def test_what_parts_more_than_samples_move_is_told(between, message):
    result = attributed()
    figures = run_smoothness(result, result)
    sizes = {name: np.sqrt(np.square(getattr(figures, name)).mean()) for name in ("single", "half")}
    sizes |= {"none": sizes["single"] / 4, "more": 4 * sizes["half"]}
    apart = np.sqrt(sizes[between[0]] * sizes[between[1]])
    duplicate = replace(result, outcome=result.outcome + apart)
    reported = run_smoothness(result, duplicate).warning
    assert message in reported and bool(reported) == bool(message)


def test_agreement_is_scipys_and_runs_that_cannot_be_compared_are_refused():
    result, duplicate = attributed(), attributed(seed=1)
    each = [spearmanr(a, b)[0] for a, b in zip(result.effect.T, duplicate.effect.T, strict=True)]
    assert np.isclose(run_smoothness(result, duplicate).agreement, np.mean(each))
    for other, message in (
        (attributed(top=2), "attribute with top=None"),
        (attributed(m=2), r"the same samples and queries.*\[16, 3\].*\[16, 2\]"),
        (replace(result, ids=result.ids[::-1]), "the same samples and queries"),
    ):
        with pytest.raises(SettingError, match=message):
            run_smoothness(result, other)
