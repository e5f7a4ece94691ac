"""What every engine must compute alike."""

import numpy as np
import torch

from datassay.collect import choose_form as forms
from datassay.collect.collection import collect
from datassay.collect.engine import parcel as parcel_module
from datassay.score.influence.linear import linear_influence
from datassay.score.label_issues import label_issues
from datassay.score.leave_one_out import leave_one_out
from datassay.score.linear import panels as panels_module
from datassay.score.linear import removal
from datassay.score.linear.eigenbasis import eigenbasis
from helpers.collecting import classes, network

SAMPLES, QUERIES, PROJECTION = 150, 60, 9


TENSORS = ("outputs", "val_outputs", "kernel", "val_kernel", "features", "val_features")


# Several chunks and panels; workers are told slices, never these sizes.
SMALL = (
    (forms, "WORKING_BYTES", 2**17),
    (forms, "LARGEST_EIGENPROBLEM", 100),
    (panels_module, "PANEL_BYTES", 8 * 44 * 64),
    (panels_module, "WHOLE_BYTES", 8 * 44 * 64),
    (parcel_module, "LARGE", 2**12),
)


def problem():
    return network(), classes(SAMPLES), classes(QUERIES, seed=1, first=500)


def collected(engine, **settings):
    return collect(*problem(), projection=PROJECTION, outputs="averaged", engine=engine, **settings)


def scores(lin):
    loo, issues = leave_one_out(lin, steps=500), label_issues(lin)
    influence = linear_influence(lin, ridge=issues.ridge, n_partners=30)
    return (
        loo.held_out, loo.outputs, loo.prediction_change, loo.weight_change, issues.score,
        issues.held_out, issues.probability, influence.mean, influence.variance, influence.kurtosis,
    )  # fmt: skip


def same_bits(one, other):
    for name in TENSORS:
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        assert a is None or torch.equal(a[0 : len(a)], b[0 : len(b)]), name
    for ours, theirs in zip(scores(one), scores(other), strict=True):
        assert np.array_equal(ours, theirs)


def has_several_pieces(lin):
    assert lin.form.representation == "features" and lin.form.chunk < SAMPLES // 2
    assert removal.has_modes(eigenbasis(lin), 3) and not eigenbasis(lin).rows.is_small
