"""Targets in another unit: the factor is named, and none where nothing is off by one."""

import numpy as np
import pytest

from datassay.collect.collection import collect
from datassay.data.samples import SampleSet
from datassay.models.build import build_model
from datassay.score.checks.units import unit_warning
from datassay.score.label_issues import label_issues


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
        (1 / 60, True, "about 1/60 of what"),
    ],
)  # fmt: skip
def test_the_factor_is_named(factor, is_log, words):
    assert words in told(factor, is_log=is_log)


def test_nothing_is_said_where_no_factor_is_shared():
    assert told(1.0) == "" and told(2.2, is_log=True) == ""
