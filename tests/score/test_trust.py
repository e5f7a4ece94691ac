"""A trust check: the definition by scipy, a known truth, coverage, verdicts, refusals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

import datassay as da
from datassay.errors import SettingError
from datassay.models import build_model
from datassay.score import RetrainedHalves, RunSmoothness, Scores, standard_scores, trust_check
from datassay.score.compare.trust import Estimate, _make_rows, verdict_of
from datassay.train import Recipe


def linear_world(h, seed=0, n=60, m=12, noise=1.0):
    """Halves whose outcomes are sums of known effects, and losses that fall by known amounts."""
    world = np.random.default_rng(0)
    effect, fall = world.normal(size=(n, m)), world.gamma(1.0, size=n)
    rng = np.random.default_rng(seed + 1)
    halves = np.stack([np.sort(rng.permutation(n)[: n // 2]) for _ in range(h)])
    member = np.zeros((h, n))
    np.put_along_axis(member, halves, 1, axis=1)
    size = noise * effect.std() * np.sqrt(n) / 2
    outcome = (member @ effect)[:, None] + size * rng.normal(size=(h, 2, m))
    loss = 3 - (member * fall)[:, None] + noise * rng.normal(size=(h, 2, n))
    study = RetrainedHalves(halves, outcome, loss, "margin", np.arange(n))
    return study, effect, fall


def scores_of(effect, fall, seed=0):
    rng = np.random.default_rng(seed)
    rough = effect + 1.5 * rng.normal(size=effect.shape)
    own = fall + 0.5 * rng.normal(size=fall.shape)
    return Scores(
        {"true": effect, "rough": rough, "loss alone": np.repeat(fall[:, None], 12, 1)},
        {"true fall": fall, "rough fall": own, "random": rng.normal(size=fall.shape)},
        ("loss alone", "random"),
    )


@pytest.fixture(scope="module")
def checked():
    study, effect, fall = linear_world(40)
    scores = scores_of(effect, fall)
    return study, scores, trust_check(study, scores)


def value(check, name):
    i = check.score.index(name)
    return Estimate(check.correlation[i], check.low[i], check.high[i])


def test_of_a_prediction_it_is_the_mean_rank_correlation_with_one_network(checked):
    study, scores, check = checked
    for name, effect in scores.effects.items():
        sums = np.stack([effect[half].sum(0) for half in study.halves])
        pairs = [(sums[:, j], study.outcome[:, s, j]) for s in range(2) for j in range(12)]
        each = [spearmanr(*pair).statistic for pair in pairs]
        assert value(check, name).value == pytest.approx(np.mean(each))
    # Signal and noise have the same variance: two networks correlate by 1/2.
    assert check.ceiling.low < np.sqrt(0.5) < check.ceiling.high
    assert value(check, "true").value == pytest.approx(check.ceiling.value, abs=0.06)


def test_queries_whose_outcome_never_changes_ask_nothing_whatever_the_units(checked):
    study, scores, check = checked
    still = study.outcome.copy()
    still[..., 0] = 7
    scaled = Scores(
        {name: 5 * effect for name, effect in scores.effects.items()},
        {name: np.exp(own) for name, own in scores.samples.items()},
        scores.trivial,
    )
    result = trust_check(replace(study, outcome=still), scaled)
    named = {name: effect[:, 1:] for name, effect in scores.effects.items()}
    fewer = replace(study, outcome=study.outcome[..., 1:])
    without = trust_check(fewer, replace(scores, effects=named))
    np.testing.assert_allclose(result.correlation, without.correlation)
    assert result.ceiling.value == pytest.approx(without.ceiling.value)
    assert check.ceiling.value != result.ceiling.value


def test_effects_of_halves_beside_rounding_are_the_measured_ones(checked):
    study, scores, _ = checked
    nothing = np.zeros(12)
    smooth = RunSmoothness(parting=nothing + 1e9, single=nothing, half=nothing, agreement=1.0)
    result = trust_check(study, replace(scores, smoothness=smooth)).smoothness
    effect = scores.effects["true"]
    np.testing.assert_allclose(
        result.half, np.sqrt(np.square(effect - effect.mean(0)).sum(0)) / 2, rtol=0.5
    )
    assert result.half.mean() == pytest.approx(np.sqrt(60) * result.single.mean() / 2)
    assert "no attribution can" in result.warning


def test_of_a_sample_it_does_not_depend_on_the_noise_of_the_study():
    for noise in (0.3, 2.0):
        study, effect, fall = linear_world(80, noise=noise)
        check = trust_check(study, scores_of(effect, fall))
        assert value(check, "true fall").value > 0.9
        rough = spearmanr(scores_of(effect, fall).samples["rough fall"], fall).statistic
        result = value(check, "rough fall")
        assert result.low < rough < result.high
    assert check.reliability.value < 0.95


def test_intervals_hold_what_ten_times_the_halves_give():
    longer, effect, fall = linear_world(200, seed=99)
    scores = scores_of(effect, fall)
    truth, hits = trust_check(longer, scores), []
    for seed in range(4):
        check = trust_check(linear_world(20, seed=seed)[0], scores)
        hits += [
            low <= one <= high
            for low, one, high in zip(check.low, truth.correlation, check.high, strict=True)
        ]
    assert np.mean(hits) > 0.85


def test_what_is_free_is_what_others_must_beat(checked):
    *_, check = checked
    ahead, verdicts = (dict(zip(check.score, v, strict=True)) for v in (check.ahead, check.verdict))
    best = value(check, "loss alone").value
    assert ahead["true"] == pytest.approx(value(check, "true").value - best)
    assert np.isnan(ahead["random"]) and check.trivial[check.score.index("random")]
    assert verdicts["true"] == "trust" and verdicts["random"] == "do not trust"
    assert check.to_table()["verdict"].to_pylist() == list(check.verdict)


@pytest.mark.parametrize(
    ("low", "ceiling", "high", "verdict"),
    [
        (0.3, 0.6, 0.6, "trust"),
        (0.29, 0.6, 0.6, "with care"),
        (0.14, 0.6, 0.6, "do not trust"),
        (0.15, 0.6, 0.6, "with care"),
        (0.19, 0.19, 0.19, "do not trust"),
        (0.1, 0.3, 0.5, "do not trust"),  # a ceiling that is hardly known: its high end
    ],
)
def test_the_verdict_follows_its_rule(low, ceiling, high, verdict):
    assert verdict_of(Estimate(low + 0.1, low, 1.0), Estimate(ceiling, 0, high)) == verdict


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (Scores({}, {}), "at least one score"),
        (Scores({"a": np.ones((60, 3))}, {}), r"\[60, 12\].*got \[60, 3\] of 'a'"),
        (Scores({}, {"b": np.full(60, np.nan)}), "must be finite"),
    ],
)
def test_what_is_refused(checked, scores, message):
    with pytest.raises(SettingError, match=message):
        trust_check(checked[0], scores)


@pytest.mark.parametrize("data", [pytest.param("iris", marks=pytest.mark.slow), "diabetes"])
def test_the_standard_scores_fit_their_samples(data):
    train, val = da.load(data)
    scores = standard_scores(
        lambda seed: build_model("mlp:width=8", train, seed=seed), train, val,
        recipe=Recipe(steps=200, lr=0.01),
    )  # fmt: skip
    assert {e.shape for e in scores.effects.values()} == {(len(train), len(val))}
    assert {s.shape for s in scores.samples.values()} == {(len(train),)}
    assert set(scores.trivial) <= {*scores.effects, *scores.samples}
    assert scores.fit > (0.9 if data == "iris" else 0.2)
    assert scores.smoothness.agreement > 0.99  # rounding does not matter here
    mean = scores.samples["self-influence, 3 networks"]
    assert spearmanr(mean, scores.samples["final loss"]).statistic > 0.5


def test_a_score_is_held_against_the_best_of_what_is_free():
    ours, good, poor = (np.array([v, v + 0.01, v - 0.01]) for v in (0.5, 0.4, 0.1))
    rows = _make_rows("a question", {"ours": ours, "poor": poor, "good": good}, ("poor", "good"))
    ahead = {name: row[-3] for _, name, *row in rows}
    assert ahead["ours"] == pytest.approx(0.1) and np.isnan([ahead["good"], ahead["poor"]]).all()
