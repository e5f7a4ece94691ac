"""The search for N against a scan, the table's store, bad sizes and settings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datassay.errors import SettingError
from datassay.methods.complexity import table as table_module
from datassay.methods.complexity.sample_complexity import (
    SampleComplexity,
    Search,
    bisect,
    recovery_r2,
    sample_complexity,
)
from datassay.methods.complexity.table import complexity_table
from datassay.methods.complexity.teacher_student import StudentRecipe

SMALL = {"n_teachers": 2, "n_students": 4, "depth": 2, "max_samples": 32}
QUICK = StudentRecipe(epochs=40, lr=0.05)


def step_at(needed):
    """A probability of recovery that jumps from 0 to 1 at each teacher's own N."""

    def trial(which, n):
        share = np.array([float(n >= needed[k]) for k in which])
        return share, share

    return trial


@settings(max_examples=30, deadline=None)
@given(
    needed=st.lists(st.integers(1, 300), min_size=1, max_size=5), max_samples=st.integers(1, 256)
)
def test_bisection_finds_what_a_scan_finds(needed, max_samples):
    search = Search(n_teachers=len(needed), depth=20, max_samples=max_samples)
    doubled, opt, trials = bisect(step_at(needed), search)
    for k, n in enumerate(needed):
        powers = [2**i for i in range(9) if 2**i <= max_samples]
        scan = next((p for p in powers if p >= n), np.inf)
        assert doubled[k] == scan
        assert opt[k] == (n if np.isfinite(scan) else np.inf)
    assert max(n for _, n, _, _ in trials) <= max_samples


def test_search_finds_a_probability_in_between():
    """p = N / 80 reaches 0.5 at 40."""

    def trial(which, n):
        return np.full(len(which), min(1.0, n / 80)), np.zeros(len(which))

    seen = []
    _, opt, trials = bisect(trial, Search(n_teachers=1, depth=10), lambda *s: seen.append(s[1:]))
    assert opt[0] == 40 and seen[-1] == (23, 23) and seen == sorted(seen)
    assert [n for _, n, _, _ in trials] == [1, 2, 4, 8, 16, 32, 64, 48, 40, 36, 38, 39]


def result(n_opt):
    none = np.zeros(0)
    n_opt = np.array(n_opt, dtype=float)
    whole = none.astype(np.int64)
    return SampleComplexity(5, 5, n_opt, n_opt, whole, whole, none, none, Search())


def test_median_counts_teachers_that_were_not_recovered():
    assert result([1, 2, np.inf]).median == 2
    assert result([1, 2, 4, np.inf]).median == 3
    assert result([1, 2, np.inf, np.inf]).median == np.inf
    assert result([1, np.inf]).n_not_recovered == 1
    assert result([1, np.inf]).to_table()["n_opt"].to_pylist() == [1, None]


def test_small_networks_are_recovered():
    result = sample_complexity(2, 2, recipe=QUICK, **SMALL)
    assert np.all(result.n_opt <= result.n_doubled)
    assert np.all(result.n_opt > 0.5 * result.n_doubled)
    at_n = result.trial_samples == result.n_opt[result.trial_teacher]
    assert np.all(result.trial_probability[at_n] >= 0.5)
    assert np.all(result.trial_r2 <= 1)
    again = sample_complexity(2, 2, recipe=QUICK, **SMALL)
    np.testing.assert_array_equal(again.trial_r2, result.trial_r2)
    r2 = recovery_r2(2, 2, 20, n_teachers=2, n_students=3, recipe=QUICK)
    assert r2.shape == (2, 3) and np.median(r2) > 0.9


def test_a_teacher_without_enough_samples_is_not_recovered():
    result = sample_complexity(8, 4, recipe=QUICK, **{**SMALL, "max_samples": 4})
    assert result.median == np.inf
    assert result.n_not_recovered == 2
    assert set(result.trial_samples.tolist()) == {1, 2, 4}


SIZES = [(2, 2), (3, 2), (2, 3)]


def test_an_interrupted_table_goes_on_to_the_same_numbers(tmp_path, monkeypatch):
    search = Search(recipe=QUICK, **SMALL)
    whole = complexity_table(SIZES, search)
    real, calls = table_module.search_samples, []

    def stops_at_the_third(d, m, *args, **kwargs):
        calls.append((d, m))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(d, m, *args, **kwargs)

    monkeypatch.setattr(table_module, "search_samples", stops_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        complexity_table(SIZES, search, store=tmp_path / "s")
    resumed = complexity_table(SIZES, search, store=tmp_path / "s")
    assert calls == [*SIZES, SIZES[2]]
    assert resumed.to_table() == whole.to_table()
    for a, b in zip(resumed.sizes, whole.sizes, strict=True):
        np.testing.assert_array_equal(a.trial_r2, b.trial_r2)
        np.testing.assert_array_equal(a.trial_samples, b.trial_samples)
    assert resumed.n_opt.shape == (3, 2)
    assert (resumed.n_inputs.tolist(), resumed.width.tolist()) == ([2, 3, 2], [2, 2, 3])
    part = complexity_table(SIZES[1:2], search, store=tmp_path / "s")  # other sizes, same store
    assert len(calls) == 4
    np.testing.assert_array_equal(part.n_opt[0], whole.n_opt[1])
    other = Search(recipe=StudentRecipe(epochs=41, lr=0.05), **SMALL)
    with pytest.raises(SettingError, match=r"differs in: epochs \(40 there"):
        complexity_table([(2, 2)], other, store=tmp_path / "s")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sample_complexity(0, 2), "n_inputs must be at least 1; got 0"),
        (lambda: sample_complexity(2, 0), "width must be at least 1; got 0"),
        (lambda: sample_complexity(2, 2, n_teachers=0), "n_teachers must be at least 1"),
        (lambda: sample_complexity(2, 2, n_students=0), "n_students must be at least 1"),
        (lambda: sample_complexity(2, 2, depth=-1), "depth must be at least 0"),
        (lambda: sample_complexity(2, 2, max_samples=0), "max_samples must be at least 1"),
        (lambda: sample_complexity(2, 2, probability=0.0), r"probability must lie in \(0, 1\]"),
        (lambda: sample_complexity(2, 2, recovery_r2=1.0), "recovery_r2 must be below 1"),
        (lambda: sample_complexity(2, 2, recipe=StudentRecipe(lr=-1.0)), "lr must be positive"),
        (lambda: complexity_table([]), "at least one"),
        (lambda: complexity_table([(2, 2), (2, 0)]), "width must be at least 1"),
        (lambda: recovery_r2(2, 2, 0), "n_samples must be at least 1"),
    ],
)
def test_bad_settings_are_named(call, message):
    with pytest.raises(SettingError, match=message):
        call()
