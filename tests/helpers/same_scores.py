"""How far scores move when nothing but where and in what pieces they are computed changes: over
threads, chunks, engines, ids, and with a store, whose features fit the memory or not.
"""

import tempfile
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch

from datassay.collect import choose_form as forms
from datassay.collect.collection import collect
from datassay.collect.engine.processes import engine_named
from datassay.score.influence.linear import linear_influence
from datassay.score.label_issues import label_issues
from datassay.score.learning_curve import learning_curve
from datassay.score.leave_one_out import leave_one_out
from datassay.score.sample_information import sample_information
from helpers.collecting import classes, network

FORMS = {
    "joint kernel": {"outputs": "joint"},
    "averaged kernel": {"outputs": "averaged"},
    "joint features": {"outputs": "joint", "projection": 9},
    "mixed features": {"outputs": "mixed", "projection": 9},
}
SMOOTHINGS = ("functional", "isotropic", "fisher")


def scores(lin, n_partners=30):
    loo, issues = leave_one_out(lin, steps=100), label_issues(lin)
    influence = linear_influence(lin, ridge=issues.ridge, n_partners=n_partners)
    curve = learning_curve(lin, loo.run)
    results = {
        f"{s} information": sample_information(lin, loo=loo, smoothing=s).information
        for s in SMOOTHINGS
    }
    arrays = {n: getattr(curve, n) for n in curve.__slots__}
    return results | {
        "prediction change": loo.prediction_change,
        "weight change": loo.weight_change,
        "label issue score": issues.score,
        "influence": np.stack([influence.mean, influence.variance]),
        **{f"learning curve {n}": a for n, a in arrays.items() if isinstance(a, np.ndarray)},
    }


@contextmanager
def changed(threads=1, working=2**28):
    before = torch.get_num_threads(), forms.WORKING_BYTES
    torch.set_num_threads(threads)
    forms.WORKING_BYTES = working
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        forms.WORKING_BYTES = before[1]


def computed(settings, n, *, rename=False, **others):
    train, val = classes(n), classes(n // 3, seed=1, first=5000)
    if rename:
        train = replace(train, ids=np.array([f"other {i}" for i in range(n)]))
    return scores(collect(network(), train, val, **settings, **others))


def differences(settings, n=150, engines=("processes",)):
    """Score → largest difference from the base run, relative to the score's largest value."""
    with changed():
        base = computed(settings, n)
    worst = dict.fromkeys(base, 0.0)

    def compare(found):
        for name, values in base.items():
            apart = np.abs(found[name].astype(float) - values).max()
            worst[name] = max(worst[name], float(apart / (np.abs(values).max() or 1.0)))

    for threads, working in ((2, 2**28), (1, 2**16), (2, 2**14)):
        with changed(threads, working):
            compare(computed(settings, n))
    with changed(), tempfile.TemporaryDirectory() as folder:
        compare(computed(settings, n, rename=True))
        compare(computed(settings, n, store=f"{folder}/kept"))
        compare(computed(settings, n, store=f"{folder}/kept"))
        if "projection" in settings:
            compare(computed(settings, n, store=f"{folder}/kept", memory=1e4))
    for engine in engines:
        with changed(1, 2**16):
            compare(computed(settings, n, engine=engine_named(engine)))
    return worst
