"""Sources of labels of which one errs: which are named, at what rate, and what stays as it was."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import pearson3
from sklearn.linear_model import LogisticRegression

import datassay as da
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.score.labels.likelihood import fit_noise
from datassay.score.labels.noise import explain
from datassay.score.labels.sources import (
    FEWEST_LABELS,
    _test_sources,
    find_erring_sources,
    fit_sources,
    source_columns,
)


def drawn_labels(seed, n=600, k=3, n_sources=5, errs=True):
    """Labels of calibrated outputs, by sources at random; source 2 errs in half."""
    draw = np.random.default_rng(seed)
    log_p = torch.log_softmax(torch.as_tensor(2.5 * draw.normal(size=(n, k))), 1)
    y = (log_p.exp().numpy().cumsum(1) > draw.random((n, 1))).argmax(1)
    source = draw.integers(n_sources, size=n)
    wrong = (source == 2) & (draw.random(n) < 0.5) & errs
    labels = np.where(wrong, (y + draw.integers(1, k, n)) % k, y)
    return log_p, torch.as_tensor(labels), source.astype(str), wrong


@pytest.mark.parametrize("seed", range(3))
def test_the_source_that_errs_is_named_and_its_labels_are_suspected(seed):
    log_p, labels, source, wrong = drawn_labels(seed)
    plain = explain([log_p], lambda _: [log_p], labels)
    outcome = explain([log_p], lambda _: [log_p], labels, columns={"annotator": source})
    assert plain.sources is None and outcome.sources is not None
    named = np.array(outcome.sources.values)[outcome.sources.errs]
    assert named.tolist() == ["2"] and outcome.sources.column == "annotator"
    assert abs(outcome.sources.share_wrong[2] - wrong[source == "2"].mean()) < 0.15
    assert (
        np.ptp(outcome.sources.share_wrong[[0, 1, 3, 4]]) == 0
        and outcome.sources.share_wrong[0] < 0.05
    )
    assert (outcome.sources.n_labels == np.unique(source, return_counts=True)[1]).all()
    right_pairs = [
        (x[wrong][:, None] > x[~wrong]).float().mean() for x in (plain.log_odds, outcome.log_odds)
    ]
    assert right_pairs[1] > right_pairs[0] + 0.01


def test_sources_without_errors_are_seldom_named():
    """Of tables of several columns at most as many as FALSE_ALARM says, with its own chance."""
    n_named, none = 0, torch.zeros(600, dtype=torch.bool)
    for seed in range(150):
        log_p, labels, source, _ = drawn_labels(seed, errs=False)
        others = np.random.default_rng(seed + 1000).integers(8, size=600).astype(str)
        columns = {"annotator": source, "batch": others}
        n_named += find_erring_sources(log_p, labels, none, columns) is not None
    assert n_named <= 8  # 3 expected


def test_hard_samples_of_one_source_are_no_errors():
    """Source 2 has the samples of which the classes are hardly told apart."""
    draw = np.random.default_rng(0)
    source = draw.integers(5, size=800)
    scale = np.where(source == 2, 0.3, 4.0)[:, None]
    log_p = torch.log_softmax(torch.as_tensor(scale * draw.normal(size=(800, 3))), 1)
    labels = torch.as_tensor((log_p.exp().numpy().cumsum(1) > draw.random((800, 1))).argmax(1))
    none = torch.zeros(800, dtype=torch.bool)
    assert find_erring_sources(log_p, labels, none, {"batch": source.astype(str)}) is None


def test_rates_are_those_of_the_expected_counts_and_trusted_labels_keep_theirs():
    log_p, labels, source, wrong = drawn_labels(4)
    trusted = torch.as_tensor(~wrong & (np.arange(600) % 4 == 0))
    start = fit_noise([log_p], labels, "one rate", trusted=trusted)
    sources = find_erring_sources(log_p, labels, trusted, {"annotator": source})
    sources, (fit,), shift = fit_sources([log_p], labels, trusted, sources, start)
    p_wrong = 1 - fit.log_posterior.exp().gather(1, labels[:, None])[:, 0].numpy()
    assert (p_wrong[trusted.numpy()] == 0).all()
    is_open = ~trusted.numpy()
    for members, rate in (
        (source == "2", sources.share_wrong[2]),
        (source != "2", sources.share_wrong[0]),
    ):
        counted = members & is_open
        assert rate == pytest.approx(p_wrong[counted].sum() / (counted.sum() + 5), abs=2e-3)
    assert torch.unique(shift).numel() == 2 and (shift[torch.as_tensor(source == "2")] > 0).all()


def test_a_source_that_errs_hardly_more_often_than_the_others_is_not_named():
    log_p, labels, source, _ = drawn_labels(4)
    none = torch.zeros(600, dtype=torch.bool)
    start = fit_noise([log_p], labels, "one rate")
    sources = find_erring_sources(log_p, labels, none, {"annotator": source})
    other = replace(sources, errs=np.arange(5) == 1)
    found, fits, shift = fit_sources([log_p], labels, none, other, start)
    assert found is None and not fits and not shift.any()


def test_samples_name_their_sources_by_themselves_and_users_can():
    draw = np.random.default_rng(0)
    x, source = draw.normal(size=(600, 3)), draw.choice(["ann", "bob", "eve"], 600)
    y = (x[:, 0] > 0).astype(int)
    flipped = (source == "eve") & (draw.random(600) < 0.5)
    samples = SampleSet(
        x, np.where(flipped, 1 - y, y), np.arange(600), ("no", "yes"), source=source
    )
    issues = da.label_issues(samples, model=LogisticRegression())
    assert issues.sources.column == "source" and "eve" in issues.sources.warning
    assert (issues.sources.is_erring == (source == "eve")).all()
    again = da.label_issues(samples, model=LogisticRegression(), sources={"who": source})
    assert again.sources.column == "who" and np.array_equal(again.score, issues.score)
    with pytest.raises(SettingError, match="sources must be"):
        da.label_issues(samples, model=LogisticRegression(), sources=source[:5])


def test_columns_of_few_values_tell_sources():
    """Words, flags, dates and whole numbers do; amounts, ids and what is constant do not."""
    days, n = pd.to_datetime(["2020-01-01", "2020-01-02"]), 60
    table = pd.DataFrame({
        "page": np.arange(n) % 3, "fifty": np.arange(n) * 7 % 50, "more": np.arange(n) * 7 % 51,
        "amount": np.arange(n) / 7 % 1, "many": np.arange(n) * 10 % 599,
        "day": days[np.arange(n) % 2], "flag": np.arange(n) % 2 == 0, "one": "x",
        "who": np.where(np.arange(n) % 4, "ann", None), "target": np.tile(["u", "v"], n // 2),
    })  # fmt: skip
    columns = source_columns(da.load(table, target="target")[0])
    assert list(columns) == ["page", "fifty", "day", "flag", "who"]
    assert sorted(set(columns["day"])) == ["2020-01-01", "2020-01-02"]
    assert sorted(set(columns["who"])) == ["ann", "missing"]


@pytest.mark.parametrize("n_few", [FEWEST_LABELS - 1, FEWEST_LABELS])
def test_a_source_is_tested_where_it_and_all_others_have_labels_enough(n_few):
    words = np.repeat(["few", "many"], [n_few, 100])
    values = np.stack([np.ones(n_few + 100) * value for value in (9.0, 1.0, 1.0, 1.0, 0.5)])
    sources, p_value = _test_sources("who", words, np.arange(len(words)), values)
    is_enough = n_few == FEWEST_LABELS
    assert sources.errs.tolist() == [is_enough] * 2 and ((p_value < 1) == is_enough).all()


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0])
def test_p_is_that_of_a_pearson_distribution_of_the_same_three_moments(scale):
    rng, code = np.random.default_rng(0), np.repeat(np.arange(4), 40)
    surprise, cube = scale * rng.normal(size=160) + 0.2 * (code - 1), rng.gamma(1, scale, 160)
    variance = rng.gamma(1, 1, 160)
    values = np.stack([surprise, variance, cube, code == 1, np.full(160, 0.2)]).astype(float)
    sources, p_value = _test_sources("who", code.astype(str), np.arange(160), values)
    totals = (np.bincount(code, x) for x in (surprise, variance, cube))
    for ours, s, v, third in zip(p_value, *totals, strict=True):
        assert ours == pytest.approx(pearson3.sf(s / v**0.5, third / v**1.5), abs=1e-12)
    assert (
        sources.share_wrong.tolist() == sources.contradicted.tolist() == [0, 1, 0, 0]
        and p_value.max() > 0.9
    )
    np.testing.assert_allclose(sources.expected, 0.2)
