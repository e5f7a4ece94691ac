"""Fitted polynomials."""

from functools import cache

import numpy as np

from datassay.data.samples import SampleSet
from datassay.methods.polynomial.command import PolynomialSettings
from datassay.methods.polynomial.job import run
from helpers.blocks import NAMES


def samples(n, kind, seed):
    """A product decides; every name that a user could write wants to be markup."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(-1, 1, (n, 9))
    y = x[:, 0] * x[:, 1] + 0.1 * x[:, 2]
    shape = (n, 1, 3, 3) if kind == "image" else (n, 9)
    classes = kind != "numbers"
    return SampleSet(
        (x + 1).reshape(shape) / 2 if kind == "image" else x,
        (y > 0).astype(np.int64) if classes else y,
        np.array([f"<i>{i}</i>" for i in range(n)]),
        NAMES[:2] if classes else (),
        "image" if kind == "image" else "row",
        feature_names=() if kind == "image" else ("<b>a", "c&d", *"efghijk"),
        name="mixed & <friends>",
    )


@cache
def surrogate_findings(kind, **settings):
    wanted = PolynomialSettings(command="datassay polynomial <x>", **settings)
    return run(samples(120, kind, 0), samples(40, kind, 1), wanted)
