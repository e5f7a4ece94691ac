"""Each rule holds where it says so, and otherwise names argument, rule, value and remedy."""

import numpy as np
import pytest
import torch

from datassay import rules
from datassay.errors import DataError, SettingError

HOLD = [
    (rules.positive, (0.1,), {}),
    (rules.positive, (float("inf"),), {}),
    (rules.positive, (torch.tensor(2.0),), {}),
    (rules.at_least, (0, 0), {}),
    (rules.at_least, (np.float32(3), 2), {}),
    (rules.whole, (np.int64(1),), {}),
    (rules.within, (0, 0, 1), {}),
    (rules.within, (0.5, 0, 1, "()"), {}),
    (rules.fraction, (1,), {}),
    (rules.one_of, ("sum", ("sum", "mean")), {}),
    (rules.one_of, (np.str_("b"), "abc"), {}),
    (rules.finite, ([[1.0, 2], [3, 4]],), {}),
    (rules.positions, ([], 3), {}),
    (rules.positions, ([0, 2], 3), {}),
]
REFUSED = [
    (rules.positive, (0.0,), {}, "q must be positive; got 0.0."),
    (rules.positive, (float("nan"),), {}, "q must be positive; got nan."),
    (rules.positive, ("1",), {}, "q must be positive; got '1'."),
    (rules.positive, (None,), {"remedy": "Take 1."}, "q must be positive; got None. Take 1."),
    (rules.positive, (np.inf,), {"finite": True}, "q must be finite and positive; got inf."),
    (rules.at_least, (1, 2), {"why": " for an interval"}, "at least 2 for an interval; got 1."),
    (rules.at_least, (np.inf, 0), {"finite": True}, "q must be at least 0 and finite; got inf."),
    (rules.whole, (2.0,), {}, "q must be a whole number of at least 1; got 2.0."),
    (rules.whole, (True,), {}, "q must be a whole number of at least 1; got True."),
    (rules.within, (1, 0, 1, "[)"), {}, r"q must lie in [0, 1); got 1."),
    (rules.fraction, (0,), {}, "q must lie in (0, 1]; got 0."),
    (rules.fraction, (1,), {"ends": "()"}, "q must lie in (0, 1); got 1."),
    (rules.one_of, ("max", ("sum", "mean")), {}, "q must be 'sum' or 'mean'; got 'max'."),
    (rules.one_of, (7, "abc"), {"also": "a list"}, "q must be one of a, b, c, or a list; got 7."),
    (rules.finite, ([1, np.nan, np.inf],), {}, "q must be finite; got 2 values that are not."),
    (rules.positions, ([0, 3], 3), {}, "q must hold positions in 0..2; got 0 to 3."),
    (rules.positions, ([0.0], 3), {}, "q must hold positions in 0..2; got type float64."),
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
