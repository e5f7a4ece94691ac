"""Learning curves of data: known laws are found again, and intervals hold as often as they say."""

import numpy as np
import pytest
from scipy.optimize import least_squares
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

from datassay.data.load import load
from datassay.data.samples import SampleSet
from datassay.errors import DatassayError, SettingError
from datassay.methods.complexity.accuracy_curve import AccuracyCurve, accuracy_curve, nested_order
from datassay.methods.complexity.curve_law import fit_curve_laws
from datassay.methods.complexity.needed_samples import _draw_shared_factors, extrapolate, forecast
from datassay.train.learner import Estimators, Networks, named_learner

SIZES = np.array([20, 40, 80, 160, 320, 640, 1280, 2560])


def simulated(seed, floor=0.02, drop=0.03, exponent=0.6, repeats=8, m=600, sizes=SIZES):
    """A curve whose expected errors follow a power law with a drop at the largest size."""
    rng = np.random.default_rng(seed)
    error = floor + drop * (sizes / sizes[-1]) ** -exponent
    hard = rng.uniform(size=m)  # the same validation samples are hard for every fit
    moved = error[:, None] * np.exp(0.05 * rng.normal(size=(len(sizes), repeats)))
    chance = 0.7 * hard + 0.3 * rng.uniform(size=(len(sizes), repeats, m))
    errors = chance < np.quantile(chance, moved.clip(0, 1), axis=None)[..., None]
    return AccuracyCurve(sizes, errors.astype(float), 0.9, "accuracy")


@pytest.fixture(scope="module")
def sets():
    return load("iris", val_fraction=0.3)


@pytest.mark.parametrize("floor", [0.0, 0.03])
def test_a_known_power_law_is_found(floor):
    n = SIZES.astype(float)
    error = floor + 0.2 * (n / n[-1]) ** -0.45
    law = fit_curve_laws("power", n, error[None], 1 / error**2, start=0.9, reference=n[-1])
    assert law.floor[0] == pytest.approx(floor, abs=2e-3)
    assert law.exponent[0] == pytest.approx(0.45, rel=0.02)
    wanted = floor + 0.1
    assert law.samples(wanted)[0] == pytest.approx(n[-1] * (0.2 / 0.1) ** (1 / 0.45), rel=0.02)
    assert law.errors(law.samples(wanted))[0, 0] == pytest.approx(wanted)
    assert np.isinf(law.samples(floor - 1e-2)[0])


def test_a_known_law_that_starts_at_chance_is_found():
    n = SIZES.astype(float)
    error = 0.05 + 0.85 / (1 + (n / 60) ** 0.8)
    law = fit_curve_laws("start", n, error[None], 1 / error**2, start=0.9, reference=n[-1])
    assert law.floor[0] == pytest.approx(0.05, abs=2e-3)
    assert (law.bend[0], law.exponent[0]) == (pytest.approx(60, rel=0.05), pytest.approx(0.8, 0.03))
    assert law.errors(np.array([1e-9]))[0, 0] == pytest.approx(0.9)
    assert law.samples(0.2)[0] == pytest.approx(60 * (0.85 / 0.15 - 1) ** (1 / 0.8), rel=0.03)
    assert law.samples(0.95)[0] == 0


@pytest.mark.parametrize("seed", range(3))
def test_the_fit_is_the_least_squares_fit(seed):
    rng = np.random.default_rng(seed)
    n, weights = SIZES / SIZES[-1], rng.uniform(0.5, 2, len(SIZES))
    error = (0.02 + 0.1 * n**-0.5) * np.exp(0.1 * rng.normal(size=len(n)))
    ours = fit_curve_laws("power", n, error[None], weights, start=0.9, reference=1.0)
    theirs = min(
        (
            least_squares(
                lambda p: np.sqrt(weights) * (p[0] + p[1] * n ** -p[2] - error),
                [0.01, 0.1, c], bounds=([0, 0, 0.02], [1, 9, 4]),
            )
            for c in (0.2, 0.5, 1.0)
        ),
        key=lambda result: result.cost,
    )  # fmt: skip
    assert ours.misfit[0] == pytest.approx(2 * theirs.cost, rel=1e-3)


def test_intervals_hold_about_as_often_as_they_say():
    """Truth at four times the samples; needed samples are the same interval, read the other way."""
    held = needed = 0
    for seed in range(20):
        true = 0.02 + 0.03 * 4**-0.6
        result = extrapolate(simulated(seed), draws=100, seed=seed)
        low, _, high = result.score(np.array([4.0 * SIZES[-1]]))[:, 0]
        held += low <= 1 - true <= high
        one = result.needed(1 - true)
        needed += one.low <= 4 * SIZES[-1] <= one.high
    assert held >= 16  # 90 %: 18 expected
    assert abs(held - needed) <= 1


def test_the_luck_that_repeats_share_grows_as_their_samples_overlap(monkeypatch):
    """log of the factor: a Brownian path in n/N, its end as wide as small sizes' repeats."""
    curve = simulated(6)
    error = curve.errors.mean(2)
    wide = np.median((error.std(1, ddof=1) / error.mean(1))[:4])
    log = np.log(_draw_shared_factors(curve, 4000, np.random.default_rng(0)))
    share = SIZES / SIZES[-1]
    np.testing.assert_allclose(log.std(0), wide * np.sqrt(share), rtol=0.05)
    np.testing.assert_allclose(np.corrcoef(log[:, -1], log[:, -2])[0, 1], np.sqrt(0.5), atol=0.03)
    settings, last = {"draws": 200, "resample_validation": False}, np.array([2560.0])
    with_luck = extrapolate(curve, **settings).draws.errors(last).std()
    curve.errors[:] = curve.errors[:, :1]  # repeats that agree have no luck to share
    assert (_draw_shared_factors(curve, 10, np.random.default_rng(0)) == 1).all()
    monkeypatch.setattr(
        "datassay.methods.complexity.needed_samples._draw_shared_factors", lambda *_: 1.0
    )
    assert extrapolate(simulated(6), **settings).draws.errors(last).std() < 0.7 * with_luck


def test_what_no_number_of_samples_reaches_is_said():
    result = extrapolate(simulated(2, floor=0.1, drop=0.02, m=3000), draws=201)
    one = result.needed(0.88)
    assert result.score(np.array([one.median]))[1, 0] == pytest.approx(0.88, abs=1e-9)
    assert one.low <= one.median <= one.high
    one = result.needed(0.97)
    assert one.median == np.inf
    assert one.reached_by < 0.2
    low, middle, high = result.ceiling
    assert low <= middle <= high
    assert middle == pytest.approx(0.9, abs=0.03)


def test_more_validation_samples_narrow_the_interval():
    n = np.array([5000.0])
    widths = [np.ptp(extrapolate(simulated(3, m=m), draws=200).score(n)[[0, 2]])
              for m in (200, 6000)]  # fmt: skip
    assert widths[1] < 0.6 * widths[0]
    blind = extrapolate(simulated(3, m=200), draws=200, resample_validation=False)
    assert np.ptp(blind.score(n)[[0, 2]]) < 0.7 * widths[0]


def test_the_largest_size_is_predicted_from_the_others():
    result = forecast(simulated(4))
    assert (result.from_n, result.n) == (1280, 2560)
    assert result.holds
    assert forecast(simulated(4).up_to(160)) is None
    bent = simulated(4)
    bent.errors[-1] = 0
    assert not forecast(bent).holds


def test_errors_are_those_of_the_fits(sets):
    train, val = sets
    curve = accuracy_curve(
        Estimators(KNeighborsClassifier(1), 3), train, val, sizes=[12, 24, 48, 90], seed=5
    )
    order = nested_order(train, np.random.default_rng([5, 2]))[:48]
    fit = KNeighborsClassifier(1).fit(np.asarray(train.x, float)[order], train.y[order])
    assert curve.score[2, 2] == pytest.approx(fit.score(np.asarray(val.x, float), val.y))
    assert curve.start == pytest.approx(2 / 3)
    assert curve.to_table().num_rows == 12
    uneven = val.subset(np.flatnonzero((val.y == 2) | (np.arange(len(val)) % 4 == 0)))
    learner = Estimators(KNeighborsClassifier(1), 2)
    start = accuracy_curve(learner, train, uneven, sizes=[12, 24, 48, 90]).start
    assert start == pytest.approx((uneven.y != 2).mean()) and start < 0.5
    assert len(set(order)) == 48  # beginnings hold the classes in proportion
    assert all(np.ptp(np.bincount(train.y[order[:n]], minlength=3)) <= 2 for n in (9, 30, 48))


def test_a_regression_scores_r2():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=160)
    train, val = SampleSet(x[:100], y[:100], np.arange(100)), SampleSet(x[100:], y[100:],
                                                                       np.arange(60))  # fmt: skip
    curve = accuracy_curve(Estimators(Ridge(1e-6), 2), train, val, sizes=[10, 20, 50, 100])
    fit = Ridge(1e-6).fit(x[:100], y[:100])
    assert curve.metric == "R²"
    assert curve.score[-1, 0] == pytest.approx(fit.score(x[100:], y[100:]), rel=1e-6)


def test_a_store_goes_on_where_it_stopped(sets, tmp_path, monkeypatch):
    train, val = sets
    learner = Estimators(KNeighborsClassifier(1), 2)
    how = {"sizes": [12, 24, 48, 90], "store": tmp_path / "kept"}
    first = accuracy_curve(learner, train, val, **how)
    monkeypatch.setattr(Estimators, "errors", None)  # nothing is fitted again
    again = accuracy_curve(learner, train, val, **how)
    np.testing.assert_array_equal(first.errors, again.errors)
    with pytest.raises(SettingError, match="store must belong to this run"):
        accuracy_curve(Estimators(KNeighborsClassifier(3), 2), train, val, **how)


def curve_of(sets, **settings):
    train, val = sets
    return accuracy_curve(Estimators(KNeighborsClassifier(1), 2), train, val, **settings)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: curve_of(s, sizes=[10, 20, 30]), "at least 4 ascending"),
        (lambda s: curve_of(s, sizes=[10, 20, 30, 400]), "at most the 105"),
        (lambda s: curve_of((s[0].subset(np.arange(20)), s[1])), "needs at least 24"),
        (lambda s: curve_of((s[0], s[1].subset(np.flatnonzero(s[1].y == 0)))), "targets that diff"),
        (lambda s: Estimators(LogisticRegression(), 1).errors(*s, np.zeros((1, 5), int)),
         "LogisticRegression raised ValueError"),
        (lambda s: Estimators(object(), 2), "must have fit and predict"),
        (lambda s: Networks([]), "one network per repeat"),
        (lambda s: extrapolate(simulated(0, repeats=1)), "at least 2 repeats"),
        (lambda s: extrapolate(simulated(0), level=1.0), "level must lie"),
        (lambda s: extrapolate(simulated(0), draws=20).needed(95), r"must lie in \(0, 1\)"),
        (lambda s: named_learner("datassay.data.load:load", s[0], repeats=2), "calling it raised"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(sets, call, message):
    with pytest.raises(DatassayError, match=message):
        call(sets)
