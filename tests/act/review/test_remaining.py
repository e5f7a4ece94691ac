"""What decisions teach of what is left to review."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit

from datassay.act.review.judged import FIELDS, Judged
from datassay.act.review.outcomes import (
    NONE_WRONG,
    PRIOR,
    SHIFT,
    SLIPS,
    SLIPS_PRIOR,
    STRETCH,
    Outcomes,
    Term,
    _fit_hypothesis,
    _list_hypotheses,
    covariance,
    fit_outcomes,
    product,
    quadratic,
    sums_by_code,
)
from datassay.act.review.remaining import BATCH, LEAST_CHANCE, _bound_errors, probe, remaining
from datassay.errors import SettingError


def made(n=400, k=3, seed=0, rate=0.1):
    """Labels of which some are wrong, and a judge that mostly tells; with the true classes."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    wrong = rng.random(n) < rate
    labels = np.where(wrong, (truth + 1) % k, truth)
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), truth] += 2.5
    logits[np.arange(n), labels] += 2.5
    log_posterior = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    p_given = np.exp(log_posterior[np.arange(n), labels])
    coordinates = rng.normal(size=(n, 4)) / 2
    results = (labels, log_posterior, np.log(1 - p_given) - np.log(p_given), coordinates)
    return Judged(*(a if a.dtype == np.int64 else a.astype(np.float32) for a in results)), truth


def test_what_was_looked_at_is_known_and_out_of_the_order():
    judged, truth = made()
    first = remaining(judged, {}).order[:30].tolist()
    known = {i: int(truth[i]) for i in first[:20]}
    rest = remaining(judged, known, first[20:25])
    assert set(rest.order.tolist()) == set(range(len(judged))) - set(first[:25])
    wrong = {i: truth[i] != judged.labels[i] for i in known}
    assert all(rest.probability[i] == float(value) for i, value in wrong.items())
    assert [rest.suggested[i] for i in known] == [truth[i] for i in known]
    assert rest.errors_found == sum(wrong.values())


def test_without_decisions_the_order_is_the_judges_and_numbers_keep_it():
    judged, _ = made(n=600)
    rest, fixed = remaining(judged, {}), np.argsort(-judged.log_odds, kind="stable")
    assert (rest.suggested != judged.labels).all()
    np.testing.assert_array_equal(rest.order, fixed)
    numbers = Judged(
        np.full(600, -1), judged.log_posterior[:, :0], judged.log_odds, judged.coordinates
    )
    before = remaining(numbers, {})
    after = remaining(numbers, {int(fixed[0]): 1, int(fixed[1]): 0}, {int(fixed[2])})
    np.testing.assert_array_equal(after.order, before.order[3:])
    assert not after.learns and after.errors_found == 1
    none, every = (remaining(numbers, {int(i): wrong for i in fixed[:60]}) for wrong in (0, 1))
    assert none.errors_left < before.errors_left < every.errors_left


def test_a_draw_over_the_whole_order_tells_how_many_are_wrong():
    held, widths, lows = [], [], []
    for seed in range(8):
        judged, truth = made(n=800, seed=seed, rate=0.05 * (1 + seed % 4))
        judged = replace(judged, share=(0.0, 0.4))
        drawn = probe(judged)
        assert len(np.unique(drawn)) == BATCH
        rank = np.argsort(np.argsort(-judged.log_odds))[drawn]
        assert (np.diff(rank) > 0).all() and rank[0] < 40 and rank[-1] > 600
        before = remaining(judged, {}).share_wrong
        low, high = remaining(judged, {int(i): int(truth[i]) for i in drawn}).share_wrong
        share = (truth != judged.labels).mean()
        held.append(low <= share <= high)
        lows.append(low / share)
        widths.append((high - low) / (before[1] - before[0]))
    assert np.mean(held) >= 0.75 and np.mean(widths) < 0.7 and np.mean(lows) > 0.3


@settings(deadline=None)
@given(n=st.integers(1, 90), spread=st.sampled_from([0.0, 1.0, 30.0]), shift=st.integers(-9, 9))
def test_the_draw_is_systematic_and_takes_none_twice(n, spread, shift):
    odds = (shift + spread * np.random.default_rng(n).normal(size=n)).astype(np.float32)
    judged = Judged(np.zeros(n, int), np.zeros((n, 2), np.float32), odds, np.ones((n, 1)))
    order = np.argsort(-odds, kind="stable")
    p = expit(odds[order].astype(float))
    p_right = expit(-odds[order].astype(float))  # not 1 - p: equal odds meet a step's end exactly
    ends, expected = np.cumsum(np.sqrt(p * p_right) + LEAST_CHANCE), []
    for step in range(min(n, BATCH)):
        place = int((ends < (step + 0.5) / BATCH * ends[-1]).sum())
        place = max(place, expected[-1] + 1 if expected else 0)
        expected.append(place)
    expected = [min(place, n - BATCH + step) for step, place in enumerate(expected)]
    assert probe(judged).tolist() == (order if n <= BATCH else order[expected]).tolist()


def test_what_was_drawn_goes_on_telling_the_share():
    """The most suspect come next; what they show is found, and the share stays as it was told."""
    judged, truth = made(n=800, rate=0.1)
    judged = replace(judged, share=(0.0, 0.4))
    known = {int(i): int(truth[i]) for i in probe(judged)}
    low, high = remaining(judged, known).share_wrong
    for _ in range(3):
        known |= {int(i): int(truth[i]) for i in remaining(judged, known).order[:24]}
        after = remaining(judged, known)
        found = after.errors_found / 800
        assert after.share_wrong == pytest.approx((max(low, found), high), abs=1e-9)
        assert after.interval[0] <= after.errors_left <= after.interval[1]


def test_where_none_is_wrong_the_lower_end_is_zero_and_the_upper_one_is_not():
    judged, _ = made(n=400, rate=0.0)
    rest = remaining(judged, {int(i): int(judged.labels[i]) for i in probe(judged)})
    assert rest.share_wrong[0] == 0 < rest.share_wrong[1]
    few = Judged(*(part[:20] for part in (
        judged.labels, judged.log_posterior, judged.log_odds, judged.coordinates
    )))  # fmt: skip
    assert sorted(probe(few)) == list(range(20))


@pytest.mark.parametrize(
    ("known", "passed", "match"),
    [({400: 0}, (), "positions"), ({0: 3}, (), "true class"), ({}, (-1,), "positions")],
)
def test_what_does_not_exist_is_refused(known, passed, match):
    judged, _ = made()
    with pytest.raises(SettingError, match=match):
        remaining(judged, known, passed)


def reviewed_by(judged, truth, decisions):
    """A reviewer who knows the truth looks at twenty at a time; what is said before each."""
    known, predicted = {}, []
    while len(known) < decisions:
        predicted.append(remaining(judged, known))
        known |= {int(i): int(truth[i]) for i in predicted[-1].order[:20]}
    return known, [*predicted, remaining(judged, known)]


@pytest.mark.slow
def test_the_number_left_lies_in_the_interval_and_stopping_is_said_once_it_is_small():
    inside = []
    for seed in range(4):
        judged, truth = made(n=400, seed=seed)
        wrong = truth != judged.labels
        known, predicted = reviewed_by(judged, truth, 160)
        left = [wrong.sum() - outcome.errors_found for outcome in predicted]
        inside += [
            results.interval[0] <= true <= results.interval[1]
            for results, true in zip(predicted, left, strict=True)
        ]
        assert not predicted[0].can_stop and "(90 % interval)" in predicted[0].sentence
        assert len(known) == 160 and predicted[-1].can_stop
        for result in predicted:
            next_errors = wrong[result.order[:20]].sum()
            assert not result.can_stop or next_errors <= 3
        assert predicted[-1].interval[1] - predicted[-1].interval[0] < predicted[0].interval[1]
    assert np.mean(inside) >= 0.9


def test_the_share_that_the_run_holds_possible_bounds_what_is_left():
    def bounds(low, high):
        fitted = Outcomes(np.zeros(200), *(np.array([value]) for value in (1.0, 20.0, 15.0)))
        return _bound_errors(fitted, 200, 5, 50, (low, high), 0.9)

    free = bounds(0.0, 1.0)
    assert bounds(0.0, 0.9) == free == bounds(1 / 250, 1.0)  # 0 to 240 of 250 are possible
    assert bounds(0.0, 0.02)[1] < 0.8 * free[1] and bounds(0.4, 1.0)[1] > 1.3 * free[1]
    half = Outcomes(np.zeros(400), *(np.array([value]) for value in (1.0, 200.0, 40.0)))
    low, high = _bound_errors(half, 400, 5, 50, (0.0, 1.0), 0.9)
    assert abs(low + high - 400) <= 2 and 100 < high - low < 180  # as far below as above
    every = Outcomes(np.zeros(400), *(np.array([value]) for value in (1.0, 400.0, 1.0)))
    low, high = _bound_errors(every, 400, 5, 50, (0.0, 1.0), 0.9)
    assert 200 < low < high == 400


@pytest.mark.parametrize("n_reviewed", [8, 98])
def test_none_found_bounds_the_share_by_the_rule_of_succession(n_reviewed):
    """A run that is sure that none is wrong is believed no further than so few decisions go."""
    fitted = Outcomes(np.zeros(2000), *(np.array([value]) for value in (1.0, 1e-3, 1e-3)))
    ends = [_bound_errors(fitted, 2000, 0, n_reviewed, (0.0, most), 0.9) for most in (1, 1e-3)]
    assert ends[0] == (0.0, 2000 / (n_reviewed + 2)) and ends[1][1] < ends[0][1] / 2


def test_errors_of_one_confusion_are_found_sooner_than_in_the_fixed_order():
    """Only class 0 is given as 1, and the judge believes in errors of all kinds."""
    rng = np.random.default_rng(0)
    n, k = 2000, 4
    truth = rng.integers(k, size=n)
    labels = np.where((truth == 0) & (rng.random(n) < 0.2), 1, truth)
    odds = rng.normal(-3, 1, n) + 1.0 * (labels != truth)
    log_posterior = np.full((n, k), np.log(0.1 / 3))
    log_posterior[np.arange(n), labels] = np.log(0.9)
    coordinates = np.ones((n, 1))
    parts = (log_posterior, odds, coordinates)
    judged = Judged(labels, *(part.astype(np.float32) for part in parts))
    wrong = labels != truth
    known, _ = reviewed_by(judged, truth, 100)
    fixed = wrong[np.argsort(-judged.log_odds, kind="stable")[:100]].sum()
    assert wrong[list(known)].sum() > 1.5 * fixed


def test_where_nothing_is_found_the_classes_take_turns():
    """All errors are of the class that the judge trusts: the fixed order never gets there."""
    labels = np.repeat([0, 1], [900, 100])
    odds = np.where(labels == 0, -9.0, -1.0) + np.linspace(0, 0.5, 1000)
    log_posterior = np.log(np.full((1000, 2), 0.5))
    parts = (log_posterior, odds, np.ones((1000, 1)))
    judged = Judged(labels, *(part.astype(np.float32) for part in parts))
    first = remaining(judged, {}).order[:40].tolist()
    assert set(labels[first]) == {1}
    rest = remaining(judged, {i: 1 for i in first})
    assert (labels[rest.order[:20]] == 0).all()
    assert not rest.can_stop


def test_one_can_stop_once_sixty_are_decided_few_were_wrong_and_few_are_expected():
    judged, at = judged_alike(), np.arange(300)
    for n, wrong, odds in ((60, 1, -7), (59, 1, -7), (60, 2, -7), (60, 1, 2)):
        log_odds = np.where(at < 250, -7, odds).astype(np.float32)
        decided = (judged.labels[:n] + (at[:n] >= n - wrong)) % 3
        rest = remaining(replace(judged, log_odds=log_odds), dict(enumerate(decided.tolist())))
        assert rest.can_stop == ((n, wrong, odds) == (60, 1, -7))


@pytest.mark.parametrize("n", [30, 1])
def test_when_all_are_looked_at_one_can_stop(n):
    judged, truth = made(n=30)
    judged = Judged(*(getattr(judged, name)[:n] for name in FIELDS))
    rest = remaining(judged, {i: int(t) for i, t in enumerate(truth[:n])})
    assert rest.can_stop and len(rest.order) == 0 and rest.interval == (0.0, 0.0)
    assert np.isnan(rest.expected_precision(20))
    assert rest.errors_found == (truth[:n] != judged.labels).sum()
    assert rest.share_wrong == pytest.approx((rest.errors_found / n,) * 2)
    with pytest.raises(SettingError, match=r"lie in 0\.\.2; got \[?3"):
        remaining(judged, {**dict.fromkeys(range(n - 1), 1), n - 1: 3})
    of_numbers = replace(judged, labels=0 * judged.labels - 1, log_posterior=np.empty((n, 0), "f4"))
    with pytest.raises(SettingError, match=r"lie in 0\.\.1; got \[?2"):
        remaining(of_numbers, {0: 2})


def judged_alike(n=300, k=3, seed=0):
    """Labels that are judged alike everywhere; places are of three kinds."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    logits = rng.normal(size=(n, k))
    log_posterior = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    coordinates = np.eye(3)[rng.integers(3, size=n)]
    odds = rng.normal(-2, 1, n)
    parts = (log_posterior, odds, coordinates)
    return Judged(labels, *(part.astype(np.float32) for part in parts))


def fitted(judged, reviewed, wrong):
    is_open = np.ones(len(judged), bool)
    is_open[reviewed] = False
    suggested = (judged.labels + 1) % max(1, judged.log_posterior.shape[1])
    return fit_outcomes(judged, suggested, np.asarray(reviewed), np.asarray(wrong), is_open)


def by_hypothesis(outcomes):
    """Weights of calibration, classes and places, if any label is wrong."""
    return outcomes.weights[:-1].reshape(3, 3).sum(1) / outcomes.weights[:-1].sum()


def test_before_any_decision_it_is_what_the_run_said():
    judged = judged_alike()
    result = fitted(judged, np.zeros(0, np.int64), np.zeros(0, bool))
    assert_allclose(result.probability, 1 / (1 + np.exp(-judged.log_odds.astype(float))))
    assert_allclose(by_hypothesis(result), PRIOR)
    assert_allclose(
        result.weights[:-1].reshape(3, 3).sum(0), (1 - NONE_WRONG) * np.array(SLIPS_PRIOR)
    )
    assert result.weights[-1] == pytest.approx(NONE_WRONG)


@pytest.mark.parametrize("slips", SLIPS)
def test_the_fit_of_a_hypothesis_is_the_maximum(slips):
    """Numbers have one hypothesis; its two coefficients by a general optimiser."""
    judged, rng = judged_alike(), np.random.default_rng(1)
    numbers = Judged(
        np.full(300, -1), np.zeros((300, 0), np.float32), judged.log_odds, judged.coordinates
    )
    reviewed = np.argsort(-judged.log_odds)[:60]
    wrong = rng.random(60) < 0.3
    shift, stretch = terms = _list_hypotheses(numbers, np.full(300, -1))[0]
    columns = np.column_stack([SHIFT * shift.values, STRETCH * stretch.values])
    offset, y = judged.log_odds.astype(float), wrong.astype(float)

    def loss(w):
        f = offset[reviewed] + columns[reviewed] @ w
        decided = slips + (1 - 2 * slips) / (1 + np.exp(-f))  # a reviewer is wrong now and then
        return -np.log(np.where(y > 0, decided, 1 - decided)).sum() + w @ w / 2

    best = minimize(loss, np.zeros(2), tol=1e-12).x
    is_open = ~np.isin(np.arange(300), reviewed)
    p, spread, _ = _fit_hypothesis(terms, offset, reviewed, wrong, is_open, slips)
    assert_allclose(p, 1 / (1 + np.exp(-offset - columns @ best)), atol=1e-6)
    decided = slips + (1 - 2 * slips) * p
    expected = np.square((1 - 2 * slips) * p * (1 - p)) / (decided * (1 - decided))
    curvature = columns[reviewed].T @ (expected[reviewed, None] * columns[reviewed])
    change = (p * (1 - p))[is_open] @ columns[is_open]
    variance = change @ np.linalg.solve(curvature + np.eye(2), change)
    assert_allclose(spread, np.sqrt(variance), rtol=1e-5)
    assert_allclose(covariance([shift, stretch], reviewed), columns[reviewed] @ columns[reviewed].T)


def test_what_slips_explain_is_no_proof_of_wrong_labels():
    """Each rate of slips, and that no label is wrong, weighs by how likely it makes decisions."""
    judged = replace(judged_alike(), log_odds=np.full(300, -40, np.float32))
    numbers = replace(judged, labels=np.full(300, -1), log_posterior=np.zeros((300, 0), np.float32))
    wrong = np.arange(24) < 2
    likelihood = np.power(SLIPS, 2) * np.power(1 - np.array(SLIPS), 22)
    weights = fitted(numbers, np.arange(24), wrong).weights
    assert len(weights) == 4
    # A shift of 37 nats is beyond belief, so that all explain the two alike: as slips.
    assert_allclose(
        weights[:3] / weights[:3].sum(),
        likelihood * SLIPS_PRIOR / (likelihood @ SLIPS_PRIOR),
        rtol=1e-3,
    )
    assert weights[3] == pytest.approx(NONE_WRONG, rel=1e-3)
    drawn = probe(judged)
    decided = np.where(np.arange(24) < 2, (judged.labels[drawn] + 1) % 3, judged.labels[drawn])
    rest = remaining(judged, dict(zip(drawn.tolist(), decided.tolist(), strict=True)))
    assert rest.interval[0] == 0 < rest.interval[1]


def test_an_error_raises_its_like_and_a_kept_label_lowers_its_like():
    judged = judged_alike()
    wrong = judged.labels == 0
    reviewed = np.concatenate([np.flatnonzero(judged.labels == c)[:20] for c in (0, 1)])
    result = fitted(judged, reviewed, wrong[reviewed])
    before = fitted(judged, np.zeros(0, np.int64), np.zeros(0, bool)).probability
    rest = np.setdiff1d(np.arange(300), reviewed)
    ratio = np.log(result.probability / before)[rest]
    of = judged.labels[rest]
    assert ratio[of == 0].min() > 0.5 and np.median(ratio[of == 1]) < -0.2
    assert by_hypothesis(result)[1:].sum() > 0.9  # errors depend on the class, and that is seen


def test_one_slip_among_many_decisions_changes_little():
    """Twenty labels the run is sure of turn out right, and one of them is said to be wrong."""
    judged = replace(judged_alike(), log_odds=np.full(300, -7, np.float32))
    wrong = np.arange(20) == 3
    before = fitted(judged, np.zeros(0, np.int64), np.zeros(0, bool)).probability
    assert fitted(judged, np.arange(20), wrong).probability[20:].mean() < 0.03 > before[0]


def test_a_run_that_was_sure_of_every_label_is_followed_no_further_than_the_decisions():
    """Nine of 24 labels drawn over the whole order are wrong; the run said one in 100 000."""
    judged = replace(judged_alike(), log_odds=np.linspace(-12, -11.5, 300, dtype=np.float32))
    drawn = probe(judged)
    decided = judged.labels[drawn].copy()
    decided[::3] = (decided[::3] + 1) % 3
    for bounds in ((0.0, 0.4), (0.0, 1.0)):
        low, high = remaining(
            replace(judged, share=bounds), dict(zip(drawn.tolist(), decided.tolist(), strict=True))
        ).share_wrong
        assert low < 8 / 24 < high < 0.75


def test_errors_in_one_place_raise_that_place():
    judged = judged_alike()
    index = judged.coordinates.argmax(1)
    reviewed = np.arange(90)
    result = fitted(judged, reviewed, index[reviewed] == 2)
    rest = np.arange(90, 300)
    there = index[rest] == 2
    assert result.probability[rest][there].mean() > 5 * result.probability[rest][~there].mean()
    assert by_hypothesis(result)[2] > 0.9


def test_errors_everywhere_alike_leave_the_order_to_the_run():
    judged, rng = judged_alike(), np.random.default_rng(2)
    reviewed = np.argsort(-judged.log_odds)[:100]
    p = 1 / (1 + np.exp(-judged.log_odds.astype(float)))
    result = fitted(judged, reviewed, rng.random(100) < p[reviewed])
    assert by_hypothesis(result)[0] > 0.3
    rest = np.setdiff1d(np.arange(300), reviewed)
    assert np.corrcoef(result.probability[rest], p[rest])[0, 1] > 0.9


def test_samples_deviate_alike_by_given_class_suggested_one_both_and_position():
    judged, suggested = judged_alike(40), np.arange(40) % 3
    bare, classes, places = (
        covariance(h, np.arange(40)) for h in _list_hypotheses(judged, suggested)
    )
    given, other = (c[:, None] == c for c in (judged.labels, suggested))
    assert_allclose(classes - bare, 1.5**2 * (1.0 * given + other + (given & other)))
    nearness = judged.coordinates @ judged.coordinates.T
    assert_allclose(places - classes, nearness * (1 + given), atol=1e-12)


def test_products_are_those_of_the_covariance_written_out():
    rng = np.random.default_rng(0)
    terms = [
        Term(1.0, np.zeros(40, np.int64), np.ones((40, 1))),
        Term(0.5, rng.integers(4, size=40), rng.normal(size=(40, 1))),
        Term(2.0, rng.integers(7, size=40), rng.normal(size=(40, 3))),
    ]
    every = np.zeros((40, 40))
    for i, j in np.ndindex(40, 40):
        for t in terms:
            every[i, j] += t.spread**2 * (t.codes[i] == t.codes[j]) * (t.values[i] @ t.values[j])
    for rows in (rng.permutation(40)[:25], np.zeros(0, np.int64)):
        weights, own = rng.normal(size=len(rows)), every[np.ix_(rows, rows)]
        sums = sums_by_code(terms, rows, weights)
        assert_allclose(covariance(terms, rows), own)
        assert_allclose(product(terms, sums, slice(None)), every[:, rows] @ weights)
        assert_allclose(product(terms, sums, rows[:4]), own[:4] @ weights)
        assert_allclose(quadratic(terms, sums), weights @ own @ weights)
