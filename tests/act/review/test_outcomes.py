"""What decisions teach: against the optimum found by another way, and in what it does."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from datassay.act.review.judged import Judged
from datassay.act.review.outcomes import (
    PRIOR,
    SHIFT,
    STRETCH,
    _hypotheses,
    covariance,
    fit_outcomes,
)


def made(n=300, k=3, seed=0):
    """Labels that are judged alike everywhere; places are of three kinds."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    logits = rng.normal(size=(n, k))
    log_posterior = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    places = np.eye(3)[rng.integers(3, size=n)]
    odds = rng.normal(-2, 1, n)
    parts = (log_posterior, odds, places)
    return Judged(labels, *(part.astype(np.float32) for part in parts))


def suggested_of(judged):
    return (judged.labels + 1) % max(1, judged.log_posterior.shape[1])


def fitted(judged, reviewed, wrong):
    is_open = np.ones(len(judged), bool)
    is_open[reviewed] = False
    return fit_outcomes(
        judged, suggested_of(judged), np.asarray(reviewed), np.asarray(wrong), is_open
    )


def test_before_any_decision_it_is_what_the_run_said():
    judged = made()
    found = fitted(judged, np.zeros(0, np.int64), np.zeros(0, bool))
    assert_allclose(found.probability, 1 / (1 + np.exp(-judged.log_odds.astype(float))))
    assert_allclose(found.weights, PRIOR)


def test_the_fit_of_a_hypothesis_is_the_maximum():
    """Numbers have one hypothesis; its two coefficients by a general optimiser."""
    judged, rng = made(), np.random.default_rng(1)
    numbers = Judged(
        np.full(300, -1), np.zeros((300, 0), np.float32), judged.log_odds, judged.places
    )
    reviewed = np.argsort(-judged.log_odds)[:60]
    wrong = rng.random(60) < 0.3
    shift, stretch = _hypotheses(numbers, np.full(300, -1))[0]
    columns = np.column_stack([SHIFT * shift.values, STRETCH * stretch.values])
    offset, y = judged.log_odds.astype(float), wrong.astype(float)

    def loss(w):
        f = offset[reviewed] + columns[reviewed] @ w
        return (np.logaddexp(0, f) - y * f).sum() + w @ w / 2

    best = minimize(loss, np.zeros(2), tol=1e-12).x
    found = fitted(numbers, reviewed, wrong)
    assert_allclose(found.probability, 1 / (1 + np.exp(-offset - columns @ best)), atol=1e-6)
    p = found.probability
    curvature = columns[reviewed].T @ ((p * (1 - p))[reviewed, None] * columns[reviewed])
    is_open = np.setdiff1d(np.arange(300), reviewed)
    change = (p * (1 - p))[is_open] @ columns[is_open]
    variance = change @ np.linalg.solve(curvature + np.eye(2), change)
    assert_allclose(found.spread, np.sqrt(variance), rtol=1e-5)
    assert_allclose(covariance([shift, stretch], reviewed), columns[reviewed] @ columns[reviewed].T)


def test_an_error_raises_its_like_and_a_kept_label_lowers_its_like():
    judged = made()
    wrong = judged.labels == 0
    reviewed = np.concatenate([np.flatnonzero(judged.labels == c)[:20] for c in (0, 1)])
    found = fitted(judged, reviewed, wrong[reviewed])
    before = fitted(judged, np.zeros(0, np.int64), np.zeros(0, bool)).probability
    rest = np.setdiff1d(np.arange(300), reviewed)
    ratio = np.log(found.probability / before)[rest]
    of = judged.labels[rest]
    assert ratio[of == 0].min() > 0.5 and np.median(ratio[of == 1]) < -0.2
    assert found.weights[1:].sum() > 0.9  # errors depend on the class, and that is seen


def test_errors_in_one_place_raise_that_place():
    judged = made()
    place = judged.places.argmax(1)
    reviewed = np.arange(90)
    found = fitted(judged, reviewed, place[reviewed] == 2)
    rest = np.arange(90, 300)
    there = place[rest] == 2
    assert found.probability[rest][there].mean() > 5 * found.probability[rest][~there].mean()
    assert found.weights[2] > 0.9


def test_errors_everywhere_alike_leave_the_order_to_the_run():
    judged, rng = made(), np.random.default_rng(2)
    reviewed = np.argsort(-judged.log_odds)[:100]
    p = 1 / (1 + np.exp(-judged.log_odds.astype(float)))
    found = fitted(judged, reviewed, rng.random(100) < p[reviewed])
    assert found.weights[0] > 0.3
    rest = np.setdiff1d(np.arange(300), reviewed)
    assert np.corrcoef(found.probability[rest], p[rest])[0, 1] > 0.9
