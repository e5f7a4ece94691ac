"""Targets in another unit: the factor is named, and none where nothing is off by one."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from datassay.collect.collection import collect
from datassay.data.samples import SampleSet
from datassay.models.build import build_model
from datassay.score.checks.units import _find_slips, find_unit_factors, unit_warning
from datassay.score.label_issues import label_issues
from helpers.linearizations import linearization


def told(factor, *, is_log=False, share=0.04):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 5))
    y = np.exp(3 + 0.3 * x[:, 0] + 0.2 * x[:, 1] + 0.05 * rng.standard_normal(400))
    y[rng.random(400) < share] *= factor
    samples = SampleSet(x, np.log(y) if is_log else y, np.arange(400))
    lin = collect(build_model("mlp:width=64", samples, seed=0), samples)
    return unit_warning(lin, label_issues(lin), is_log=is_log)


@pytest.mark.parametrize(
    ("factor", "is_log", "words"),
    [
        (10, False, "about 10 times what"), (1 / 12, True, "about 1/12 of what"),
        (1000, False, "about 1,000 times what"), (-1, False, "with the other sign"),
        (1 / 60, True, "about 1/60 of what"), (2.54, False, "about 2.54 times what"),
    ],
)  # fmt: skip
def test_the_factor_is_named(factor, is_log, words):
    assert words in told(factor, is_log=is_log)


def of_suspects(y, expected, suspect):
    lin = linearization(torch.ones(len(y), 1, 1), torch.from_numpy(y)[:, None, None], dual=False)
    issues = replace(label_issues(lin), is_issue=suspect, suggested_label=expected)
    return unit_warning(lin, issues)


def test_targets_that_stray_by_chance_are_in_no_other_unit():
    ratio = np.exp(0.9 * np.random.default_rng(0).standard_normal(2000))
    assert of_suspects(30 * ratio, np.full(2000, 30.0), ratio > 6) == ""
    ratio = np.where(np.arange(2000) < 60, 7 * ratio**0.1, ratio**0.3)
    assert "about 7 times" in of_suspects(30 * ratio, np.full(2000, 30.0), ratio > 5)


def test_powers_of_ten_are_named_together():
    y, suspect = 30 * np.exp(np.linspace(-0.2, 0.2, 100)), np.arange(100) < 7
    ratio = np.where(suspect, np.repeat([1000, 10, 0.1, 1], [3, 2, 2, 93]), 1.0)
    assert find_unit_factors(ratio, suspect) == dict(enumerate(ratio[:7].tolist()))
    assert "7 of 7 suspected targets are about 10 or 1,000 times" in of_suspects(
        ratio * y, y, suspect
    )


@pytest.mark.parametrize("factor", [10.0, 0.1, 1000.0])
def test_slips_of_the_decimal_point_are_named_among_more_other_suspects(factor):
    """Five of 19 suspects; the others are wrong at will."""
    ratio = np.exp(0.08 * np.random.default_rng(0).normal(size=400))
    ratio[:14] = np.exp(np.r_[np.linspace(-3.3, -0.9, 7), np.linspace(0.9, 3.3, 7)])
    ratio[14:19] *= factor
    suspect = np.arange(400) < 19
    factors = find_unit_factors(ratio, suspect)
    assert set(factors.values()) == {factor} and set(range(14, 19)) <= factors.keys()
    assert len(factors) <= 7
    sentence = of_suspects(30 * ratio, np.full(400, 30.0), suspect)
    assert sentence.startswith(f"{len(factors)} of 19 suspected targets are about ")


def test_suspects_that_are_wrong_at_will_have_no_slips():
    named = 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        log_ratio = 0.08 * draw.standard_t(4, 400)
        log_ratio[:14] += draw.choice([-1, 1], 14) * draw.uniform(0.8, 3.5, 14)
        named += bool(_find_slips(log_ratio, np.arange(400) < 14))
    assert named <= 4


def test_one_value_that_most_suspects_have_is_named():
    y = np.r_[np.full(8, -999.0), np.linspace(5, 90, 92)]
    assert "8 of 10 suspected targets are -999" in of_suspects(y, 0 * y + 40, np.arange(100) < 10)


def test_nothing_is_said_where_no_factor_is_shared():
    assert told(1.0) == "" and told(3.0, is_log=True) == told(2.0, is_log=True) == ""


@pytest.mark.parametrize(("cut", "is_told"), [(1.6, True), (np.inf, False)])
def test_a_limit_at_which_targets_are_cut_is_named(cut, is_told):
    rng = np.random.default_rng(0)
    y = np.minimum(rng.normal(size=400), cut)
    sentence = of_suspects(y, y, np.zeros(400, bool))
    assert (f"{(y == 1.6).sum()} of 400 targets are 1.6, the largest" in sentence) == is_told


def test_ratings_of_which_the_best_is_common_name_no_limit():
    y = np.random.default_rng(0).integers(1, 6, 400).astype(float)
    assert not of_suspects(y, y, np.zeros(400, bool))
