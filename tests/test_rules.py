"""Rules name argument, rule, value and remedy, and errors hide credentials."""

import numpy as np
import pytest
import torch

from datassay import rules
from datassay.errors import DataError, SettingError, hide_credentials

HOLD = [
    (rules.positive, (0.1,), {}), (rules.positive, (float("inf"),), {}),
    (rules.positive, (torch.tensor(2.0),), {}), (rules.at_least, (0, 0), {}),
    (rules.at_least, (np.float32(3), 2), {}), (rules.integer, (np.int64(1),), {}),
    (rules.in_interval, (0, 0, 1), {}), (rules.in_interval, (0.5, 0, 1, "()"), {}),
    (rules.fraction, (1,), {}), (rules.one_of, ("sum", ("sum", "mean")), {}),
    (rules.one_of, (np.str_("b"), "abc"), {}), (rules.finite, ([[1.0, 2], [3, 4]],), {}),
    (rules.positions, ([], 3), {}), (rules.positions, ([0, 2], 3), {}),
]  # fmt: skip
REFUSED = [
    (rules.positive, (0.0,), {}, "q must be positive; got 0.0."),
    (rules.positive, (float("nan"),), {}, "q must be positive; got nan."),
    (rules.positive, ("1",), {}, "q must be positive; got '1'."),
    (rules.positive, (None,), {"remedy": "Take 1."}, "q must be positive; got None. Take 1."),
    (rules.positive, (np.inf,), {"finite": True}, "q must be finite and positive; got inf."),
    (rules.at_least, (1, 2), {"why": " for an interval"}, "at least 2 for an interval; got 1."),
    (rules.at_least, (np.inf, 0), {"finite": True}, "q must be at least 0 and finite; got inf."),
    (rules.integer, (2.0,), {}, "q must be a whole number of at least 1; got 2.0."),
    (rules.integer, (True,), {}, "q must be a whole number of at least 1; got True."),
    (rules.in_interval, (1, 0, 1, "[)"), {}, r"q must lie in [0, 1); got 1."),
    (rules.fraction, (0,), {}, "q must lie in (0, 1]; got 0."),
    (rules.fraction, (1,), {"ends": "()"}, "q must lie in (0, 1); got 1."),
    (rules.one_of, ("max", ("sum", "mean")), {}, "q must be 'sum' or 'mean'; got 'max'."),
    (
        rules.one_of,
        (7, "abc"),
        {"alternative": "a list"},
        "q must be one of a, b, c, or a list; got 7.",
    ),
    (rules.finite, ([1, np.nan, np.inf],), {}, "q must be finite; got 2 values that are not."),
    (rules.positions, ([0, 3], 3), {}, "q must hold positions in 0..2; got 0 to 3."),
    (rules.positions, ([0.0], 3), {}, "q must hold positions in 0..2; got type float64."),
    (
        rules.probabilities,
        (np.array([[0.5, 0.5], [1.5, -0.5]]),),
        {},
        "q must be at least 0 and sum to 1 in each row; got 1 rows that do not, the first at "
        "position 1: [1.5, -0.5].",
    ),
]


@pytest.mark.parametrize(("rule", "given", "words"), HOLD)
def test_what_a_rule_allows(rule, given, words):
    rule("q", *given, **words)


@pytest.mark.parametrize(("rule", "given", "words", "sentence"), REFUSED)
def test_what_a_rule_refuses(rule, given, words, sentence):
    with pytest.raises(SettingError) as refused:
        rule("q", *given, **words)
    assert str(refused.value).endswith(sentence)
    with pytest.raises(DataError):
        rule("q", *given, **words, error=DataError)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://KEY:SECRET@bucket/a.npz", "s3://***@bucket/a.npz"),
        ("s3://KEY:SEC/R+ET@bucket/a", "s3://***@bucket/a"),
        ("https://me:p@ss?w#rd@host/x", "https://***@host/x"),
        ("https://token@host/x", "https://***@host/x"),
        ("https://host:80/x?sig=abc&b=1#c=2", "https://host:80/x?***"),
        ("https://host/x#access_token=1", "https://host/x#***"),
        ("cache::s3://K:S@b/x and gs://c/d", "cache::s3://***@b/x and gs://c/d"),
        ("--store=s3://K:S@b", "--store=s3://***@b"),
        ("https://host/a@b/c", "https://host/a@b/c"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("a folder: no/url@all?x=1", "a folder: no/url@all?x=1"),
        ("x" * 100_000, "x" * 100_000),  # not in minutes
    ],
)
def test_urls_are_shown_without_credentials(text, shown):
    assert hide_credentials(text) == shown == str(DataError(text))


def test_a_url_given_alone_may_hold_spaces_and_quotes():
    assert hide_credentials("--data=s3://K:S 'x\" y@b/c", is_url=True) == "--data=s3://***@b/c"
