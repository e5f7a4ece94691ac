"""Findings of explained networks, simulated."""

from dataclasses import replace
from functools import cache

import numpy as np

from datassay.commands.explain.job import ExplainFindings
from helpers.findings import (
    digit_samples,
    regression_samples,
    row_samples,
    simulated_attribution,
    text_samples,
)

KINDS = {
    "images": digit_samples,
    "rows": row_samples,
    "texts": text_samples,
    "regression": regression_samples,
}


@cache
def explained(kind="images", measure="margin"):
    """Simulated effects of samples on each other."""
    samples, rng = KINDS[kind](), np.random.default_rng(0)
    attribution, outputs = simulated_attribution(samples, rng)
    own = rng.exponential(1, len(samples)) ** 4
    attribution = replace(attribution, measure=measure, self_influence=own)
    return ExplainFindings(
        samples=samples,
        queries=samples,
        kind="validation",
        attribution=attribution,
        loss="cross_entropy" if samples.is_classification else "mse",
        fitted=outputs,
        predicted=outputs,
        facts={"Data": "<b>some</b>", "Seed": "0"},
        warnings=("<i>careful</i>",),
    )
