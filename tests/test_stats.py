"""The one "better": intervals against their formulas and the truth, verdicts of several tests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, ttest_1samp
from scipy.stats import t as student

from datassay.stats import (
    BETTER,
    DO,
    LEAVE,
    LEVEL,
    LOOKS,
    PERHAPS,
    SAME,
    SHOWN,
    TRY,
    VERDICTS,
    WIDE,
    WORSE,
    Interval,
    _estimate_between,
    _split_variance,
    advice,
    costs,
    expected_gain,
    interval,
    is_vague,
    mean_interval,
    paired_interval,
    sentence,
    verdicts,
    widen_by_variance,
)


def test_a_mean_of_repetitions_has_students_interval():
    values = np.random.default_rng(0).normal(0.3, 1, 7)
    result, test = mean_interval(values), ttest_1samp(values, 0)
    low, high = test.confidence_interval()
    assert (result.low, result.high, result.p) == pytest.approx((low, high, test.pvalue))
    assert (result.verdict == BETTER) == (low > 0)
    spread = ((values**2).sum() + 0.1) / 9 - values.mean() ** 2  # of nine, two of them imagined
    half = student.ppf(0.975, 6) * np.sqrt(spread / 7)
    assert mean_interval(values, 0.1).half == pytest.approx(half)
    assert mean_interval(np.ones(1)).half == np.inf and mean_interval(np.ones(1)).verdict == SAME


def test_differences_are_paired_over_seeds_and_samples():
    change = np.random.default_rng(0).normal(0, 1, (5, 40))
    by_seed, by_sample = change.mean(1), change.mean(0)
    left = change - by_seed[:, None] - by_sample + change.mean()
    a = by_seed.var(ddof=1) / 5
    b = ((by_sample**2).sum() / 42 - change.mean() ** 2) / 40
    both = max(a, b, a + b - (left**2).sum() / (4 * 39 * 200))
    half = student.ppf(0.975, max(1, both**2 / (a**2 / 4 + b**2 / 39))) * np.sqrt(both)
    result = paired_interval([change])
    assert (result.gain, result.half) == pytest.approx((change.mean(), half))


@pytest.mark.parametrize("unit", [1.0, 0.0])
def test_intervals_hold_the_true_gain_as_often_as_they_say(unit):
    """Right or wrong answers, or numbers: both seeds and samples could have been others."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(400):
        seeds = rng.normal(0.02, 0.01, (3, 1))
        better, worse = rng.random((1, 400)) < 0.07, rng.random((1, 400)) < 0.05
        change = seeds - 0.02 + better * 1.0 - worse * 1.0
        if not unit:
            change = 0.02 + rng.normal(0, 0.5, (6, 1)) + rng.normal(0, 1.0, (1, 30))
            change = change + rng.normal(0, 0.5, (6, 30))
        result = paired_interval([change], unit)
        held += result.low <= 0.02 <= result.high
    assert 0.92 <= held / 400 <= 0.99


def test_samples_that_nothing_changes_still_leave_an_interval():
    for result in (paired_interval([np.zeros((3, 30))], 1.0), mean_interval(np.zeros(30), 1.0)):
        assert result.gain == 0 and result.low < -0.02 and result.high > 0.02
    assert np.isinf(paired_interval([np.zeros((1, 30))], 1.0).high)
    # Of parts without any difference nothing varies, and nothing is divided by it.
    of_parts = paired_interval([np.zeros((3, 30)), np.zeros((3, 30))], 1.0)
    assert np.isfinite([of_parts.low, of_parts.high]).all() and of_parts.gain == 0
    assert interval(0.0, 0.0).verdict == SAME and interval(0.1, 0.0).verdict == BETTER


def test_verdicts_hold_beside_all_others():
    def told(p_values, gains):
        return verdicts([Interval(g, 1.0, p) for p, g in zip(p_values, gains, strict=True)])

    assert told([0.001, 0.04, 0.6], [0.1, 0.2, 0.0]) == [BETTER, PERHAPS, SAME]
    assert told([0.02], [-0.1]) == [WORSE] and told([0.02, 0.03], [0.1, -0.1])[1] == WORSE
    assert told([], []) == []


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ((0.1, 0.06, 0.26), DO), ((0.002, 0.001, 0.003), DO), ((0.02, 0.0, 0.04), TRY),
        ((0.003, 1e-4, 0.03), LEAVE),
        ((0.1, -0.06, 0.26), TRY), ((0.011, -0.001, 0.022), TRY), ((0.009, -0.001, 0.02), LEAVE),
        ((0.02, -0.008, 0.04), TRY), ((0.016, -0.008, 0.04), TRY), ((0.01, -0.01, 0.02), LEAVE),
        ((0.025, -0.045, 0.04), LEAVE),  # lopsided: the middle is no gain
        ((0.041, -0.068, 0.161), LEAVE),  # the best of many, far off: truly −0.1
        ((0.024, -0.394, 0.208), LEAVE), ((0.3, -np.inf, np.inf), LEAVE), ((-0.1, -1, 0.8), LEAVE),
    ],
)  # fmt: skip
def test_what_helps_is_done_and_what_may_help_is_tried(row, told):
    assert advice(*row) == told


@given(st.floats(0.001, 0.3), st.floats(0.001, 0.5), st.floats(1.1, 5))
def test_the_expected_gain_is_the_posterior_mean_of_normal_gains(gain, half, times):
    """The mean of N(0, τ²) after one look of the standard error half / 1.96, by quadrature."""
    grid = np.linspace(-1, 1, 20_001)
    density = np.exp(-((grid / 0.03) ** 2 + ((gain - grid) * 1.96 / half) ** 2) / 2)
    expected = expected_gain(gain, gain - half)
    assert expected == pytest.approx((grid * density).sum() / density.sum(), rel=1e-3, abs=1e-6)
    assert expected_gain(gain, gain - times * half) < expected <= gain
    assert expected_gain(gain, -np.inf) == 0


def test_an_interval_that_says_nothing_is_no_figure():
    assert is_vague(-0.414, 0.172) and is_vague(-np.inf, np.inf) and is_vague(-0.2, 0.01)
    assert not is_vague(-0.008, 0.04) and not is_vague(0.1, 0.9) and not is_vague(-0.9, -0.1)


def test_a_gain_is_shown_from_the_first_printed_digit_on():
    below = float(np.nextafter(SHOWN, 0))
    assert (advice(0.02, SHOWN, 0.04), advice(0.02, below, 0.04)) == (DO, TRY)


def test_a_loss_counts_from_half_a_point_on_or_where_it_is_sure():
    assert not costs(-0.005 - 1e-15, 0.1) and costs(-0.006, 0.1)
    assert costs(-0.001, -0.0005) and not costs(0.0, 0.0) and not costs(0.02, 0.03)


def test_each_verdict_has_one_sentence():
    words = {sentence(verdict, "ours", "theirs") for verdict in VERDICTS}
    assert len(words) == 4 and "Ours does better than theirs" in words
    assert sentence(SAME, "ours", "theirs", start=False)[:2] == "no"


@pytest.mark.parametrize(("n_parts", "first", "n_seeds"), [(5, 1, 2), (1, 2, 5)])
def test_an_interval_holds_whichever_look_it_comes_from(n_parts, first, n_seeds):
    """Ended at the first look where that alone shows a gain: two naive looks err too often."""
    rng, missed, n = np.random.default_rng(2), np.zeros(2), 600
    for _ in range(n):
        shape = (2, n_parts, n_seeds, 60)  # the samples as they are, and an action
        both = rng.normal(0, 0.3, (*shape[:3], 1)) + rng.normal(0, 0.2, (2, n_parts, 1, 60))
        base, after = both + rng.normal(0, 0.2, shape)
        for rule, (early, late) in enumerate((LOOKS, (LEVEL, LEVEL))):
            known = () if rule else list(base)
            result = paired_interval(list((after - base)[:, :first]), level=early, base=known)
            if result.verdict == SAME:
                result = paired_interval(list(after - base), level=late)
            missed[rule] += not result.low <= 0 <= result.high
    assert missed[0] / n <= 0.05 < 0.06 < missed[1] / n


def test_one_seed_a_part_is_judged_by_the_means_of_the_parts():
    parts = [np.random.default_rng(p).normal(0, 1, (1, 50)) for p in range(4)]
    means = np.array([part.mean() for part in parts])
    error = max(means.std(ddof=1) ** 2 / 4, (np.concatenate(parts, 1).var() / 200))
    assert np.isfinite(paired_interval(parts[:3]).half)
    result = paired_interval(parts, level=0.99)
    assert result.half == pytest.approx(student.ppf(0.995, 3) * error**0.5, rel=0.02)
    plain, searched = paired_interval(parts).half, paired_interval(parts, is_searched=True).half
    added = student.ppf(0.975, 3) ** 2 * means.var(ddof=1) * (1 + 1 / 4)
    assert searched**2 == pytest.approx(plain**2 + added)
    many = np.random.default_rng(9).normal(0, 1, (3, 20))
    for few in (parts[0], many[:, :1]):  # one seed, one sample
        assert paired_interval([many, few]).half == np.inf == paired_interval(parts[:2]).half


def half_by_hand(parts, base=()):
    """The formula of `paired_interval`, of parts of as many samples each, without imagined ones."""
    m, n = sum(part.shape[1] for part in parts), len(parts)
    each, seed, left, sample = np.concatenate([part.mean(0) for part in parts]), [], [], []
    for part in parts:
        r, k = part.shape
        rest = part - part.mean(1, keepdims=True) - part.mean(0) + part.mean()
        seed.append(part.mean(1).var(ddof=1) / r)
        left.append((rest**2).sum() / ((r - 1) * (k - 1)) / (k * r))
        sample.append(part.mean(0).var(ddof=1) / k)
    seed, left, sample = map(np.array, (seed, left, sample))
    share = [(part.shape[1] / m) ** 2 for part in parts]
    a, n_seeds = share @ seed, sum(len(part) - 1 for part in parts)
    if base:
        of_base = share @ np.array([2 * one.mean(1).var(ddof=1) / len(parts[0]) for one in base])
        a, n_seeds = max(a, of_base), sum(len(one) - 1 for one in base)
    b, means = ((each**2).sum() / (m + 2) - each.mean() ** 2) / m, [part.mean() for part in parts]
    within, tau = seed + sample - left, 0.0
    if n > 1 and chi2.sf((n - 1) * np.var(means, ddof=1) / within.mean(), n - 1) < 0.05:
        tau = (np.var(means, ddof=1) - within.mean()) * (1 + 1 / n)
    total = max(a, b, a + b - share @ left) + tau
    freedom = total**2 / (a**2 / n_seeds + b**2 / (m - 1) + tau**2 / max(1, n - 1))
    return student.ppf(0.975, max(1, freedom)) * np.sqrt(total)


@pytest.mark.parametrize("none", ["seeds differ", "samples differ", ""])
def test_no_error_is_less_than_that_of_seeds_or_of_samples_alone(none):
    change = np.random.default_rng(4).normal(0.1, 1, (3, 25))
    if none == "seeds differ":
        change -= change.mean(1, keepdims=True) - change.mean()
    if none == "samples differ":
        change -= change.mean(0) - change.mean()
    assert paired_interval([change]).half == pytest.approx(half_by_hand([change]))
    base = [np.random.default_rng(5).normal(0, 3, (9, 25))]  # varies more over its seeds
    assert paired_interval([change], base=base).half == pytest.approx(half_by_hand([change], base))


@pytest.mark.parametrize("beyond", [-0.2, 0.2])
@pytest.mark.parametrize(("n", "n_seeds"), [(2, 3), (4, 2), (6, 3)])
def test_parts_count_as_different_from_the_five_percent_point_on(n, n_seeds, beyond):
    rng = np.random.default_rng(n)
    parts = [part - part.mean() for part in rng.normal(0, 1, (n, n_seeds, 20))]
    within = np.mean([sum(np.array(_split_variance(part)) * [1, -1, 1]) for part in parts])
    means = rng.normal(0, 1, n)
    wanted = within * (chi2.ppf(0.95, n - 1) + beyond) / (n - 1)
    means *= np.sqrt(wanted / means.var(ddof=1))
    parts = [part + mean for part, mean in zip(parts, means, strict=True)]
    assert (_estimate_between(parts, np.full(n, within), is_searched=False) > 0) == (beyond > 0)
    searched = _estimate_between(parts, np.full(n, within), is_searched=True)
    assert searched == pytest.approx(means.var(ddof=1) * (1 + 1 / n))
    assert paired_interval(parts).half == pytest.approx(half_by_hand(parts))


def test_an_unknown_error_gives_no_verdict_and_a_step_of_holm_holds_its_end():
    for gain, freedom in ((0.3, np.inf), (-0.3, 3), (0.0, 1)):
        unknown = interval(gain, np.inf, freedom, level=0.99)
        assert (unknown.half, unknown.p, unknown.verdict) == (np.inf, 1.0, SAME)
    first, second = (Interval(0.1, 0.05, (1 - LEVEL) / k) for k in (2, 1))
    assert verdicts([second, first]) == [BETTER, BETTER]
    assert verdicts([second, second]) == [PERHAPS, PERHAPS]  # of these none holds beside the other
    assert verdicts([Interval(0.1, 0.05, np.nextafter(first.p, 1)), second])[0] == PERHAPS


def test_parts_that_do_not_differ_are_taken_for_different_in_one_of_twenty():
    rng, counted = np.random.default_rng(0), 0
    for _ in range(2000):
        means = rng.normal(0, 1, (5, 1, 1))
        counted += _estimate_between(means, np.ones(5), is_searched=False) > 0
    assert 0.037 < counted / 2000 < 0.063


def test_a_wide_interval_is_vague_also_where_it_begins_or_ends_at_0():
    assert is_vague(0.0, 2 * WIDE) and is_vague(-2 * WIDE, 0.0) and is_vague(-WIDE, WIDE)
    assert not is_vague(0.0, WIDE) and not is_vague(WIDE / 9, 9 * WIDE) and is_vague(-np.inf, 1.0)


@pytest.mark.parametrize(("width", "level"), [(0.1, 0.86), (0.6, 0.65)])
def test_a_gain_of_r2_holds_the_true_one_where_few_targets_make_up_the_variance(width, level):
    """Log-normal targets; errors of one size, which an action makes smaller by a third."""
    rng, held, n_before = np.random.default_rng(3), 0, 0
    variance = np.exp(width**2) * np.expm1(width**2)
    for _ in range(400):
        y = np.exp(width * rng.normal(size=300))
        change = np.square(rng.normal(0, 0.5, 300)) * (1.5**2 - 1) / y.var()
        true = 0.5**2 * (1.5**2 - 1) / variance
        result = mean_interval(change)
        low, high = widen_by_variance(result.gain, result.low, result.high, y)
        assert 0 < low < result.low < result.high < high
        held += low <= true <= high
        n_before += result.low <= true <= result.high
    assert held / 400 >= 0.9 and n_before / 400 <= level


def test_ends_of_r2_turn_with_the_gain_and_are_blind_to_the_unit():
    y = np.random.default_rng(0).normal(size=(50, 2)) ** 3
    low, high = widen_by_variance(0.2, -0.1, 0.4, y)
    assert low < -0.1 and high > 0.4
    assert widen_by_variance(-0.2, -0.4, 0.1, 100 * y) == pytest.approx((-high, -low))
    assert widen_by_variance(0.0, -0.1, 0.1, y) == pytest.approx((-0.1, 0.1))
    u = np.square(y - y.mean(0)) / y.var(0)
    c = 1.96 * np.sqrt(u.var(0) / 50).mean()
    expected = 0.2 - np.hypot(0.3, 0.2 - 0.2 * np.exp(-c)), 0.2 + np.hypot(0.2, 0.2 * np.expm1(c))
    assert (low, high) == pytest.approx(expected)
    assert widen_by_variance(0.2, 0.02, 0.38, y)[0] == pytest.approx(0.02 * np.exp(-c))
