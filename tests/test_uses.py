"""The uses of sample information (S1 §6, App. A.4-A.8), each in small on digits."""

from dataclasses import replace

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.stats import mannwhitneyu

import datassay as da
from datassay.act.remove.auroc import auroc
from datassay.act.remove.removal_curve import removal_curve
from datassay.data.samples import SampleSet


def digits(*classes, seed=0):
    """Training and validation samples of these digits, numbered in this order."""
    sets = da.load("digits", seed=seed)
    parts = [s.subset(np.isin(s.y, classes)) for s in sets]
    names = tuple(map(str, classes))
    return [
        replace(p, y=np.array([classes.index(c) for c in p.y]), class_names=names) for p in parts
    ]


def information(train, val, network="mlp"):
    lin = da.collect(da.build_model(network, train), train, val)
    return da.sample_information(lin).information


def test_the_more_varied_source_informs_more():
    """S1 Fig. 2a: a source whose samples look alike informs less; here one is blurred."""

    def mixed(samples: SampleSet, seed):
        blurred = np.random.default_rng(seed).random(len(samples)) < 0.5
        x = samples.x.copy()
        x[blurred] = gaussian_filter(x[blurred], (0, 0, 1, 1))
        return replace(samples, x=x, source=np.where(blurred, "blurred", "sharp"))

    train, val = (mixed(s, seed) for seed, s in enumerate(digits(4, 9)))
    result = information(train, val)
    sharp, blurred = (result[train.source == name] for name in ("sharp", "blurred"))
    assert sharp.mean() > 1.2 * blurred.mean()
    assert mannwhitneyu(sharp, blurred).pvalue < 1e-3


def test_a_rare_subclass_is_found_without_its_labels():
    """S1 Fig. 9: few of one kind in a class of another inform more, each of them."""
    train, val = digits(3, 7, 4)

    def merged(samples, rare):
        too_many = np.flatnonzero(samples.y == 1)[rare:]
        some = samples.subset(np.setdiff1d(np.arange(len(samples)), too_many))
        return replace(
            some,
            y=(some.y == 2).astype(np.int64),
            class_names=("3 or 7", "4"),
            source=np.array(["3", "7", "4"])[some.y],
        )

    train, val = merged(train, 10), merged(val, 4)
    both = train.y == 0
    assert auroc(train.source[both] == "7", information(train, val)[both]) > 0.9


def test_the_most_informative_samples_are_the_hard_ones():
    """S1 Figs 1, 4, 6: least informative typical, most informative atypical."""
    train, val = digits(4, 9)
    lin = da.collect(da.build_model("mlp", train), train, val)
    loo = da.leave_one_out(lin)
    order = np.argsort(da.sample_information(lin, loo=loo).information)
    error = np.abs(loo.held_out[:, 0] - train.y)
    assert error[order[-20:]].mean() > 2 * error[order[:20]].mean()


def test_removing_the_least_informative_costs_less_than_the_most():
    """S1 Figs 2c and 7b: scores of one hidden layer, networks of one and of two retrained."""
    train, val = digits(4, 9)
    lowest = np.argsort(information(train, val), kind="stable")
    for network in ("mlp:width=64", "mlp:width=64,depth=2"):
        models = [da.build_model(network, train, seed=seed) for seed in (1, 2)]
        rankings = {"bottom": lowest, "top": lowest[::-1].copy()}
        curve = removal_curve(models, train, val, rankings, fractions=(0.0, 0.3))
        assert curve.at("bottom", 0.3).mean() > curve.at("top", 0.3).mean()
        assert curve.at("bottom", 0.3).mean() > curve.at("bottom", 0.0).mean() - 0.02
