"""Purified and divided sets."""

from dataclasses import replace
from functools import cache

import numpy as np

from datassay.data.samples import SampleSet
from datassay.methods.partition.command import PartitionSettings
from datassay.methods.partition.division import run as run_partition
from datassay.methods.purify.command import PurifySettings
from datassay.methods.purify.job import run as run_purify
from helpers.findings import EVIL

NAMES = (EVIL, 'b<i>" onload="x')


def two_rules(n=160, minority=0.25, seed=0):
    """Inputs in the plane, labels by the first coordinate, the minority's by the opposite."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 2))
    x[:, 0] += np.sign(x[:, 0])
    other = np.arange(n) < round(minority * n)
    y = (x[:, 0] > 0) ^ other
    order = draw.permutation(n)
    return x[order], y[order].astype(int), np.where(other, "theirs", "ours")[order]


def samples(n=160, seed=0, minority=0.25):
    """Two rules, and every name that a user could write wants to be markup."""
    x, y, source = two_rules(n, minority, seed)
    return SampleSet(
        x,
        y.astype(np.int64),
        np.array([f"<i>{i}</i>" for i in range(n)]),
        NAMES,
        feature_names=("<b>a", "c&d"),
        source=np.where(source == "ours", "<u>ours", f"{EVIL}theirs"),
        name="mixed & <friends>",
    )


def aside():
    """A validation part as `load` splits it off."""
    return replace(samples(60, 1), split_off=True)


@cache
def purified(order="adjoint", **changes):
    settings = PurifySettings(order=order, step=4, command="datassay purify <x>", **changes)
    return run_purify(samples(), aside(), settings)


@cache
def divided():
    settings = PartitionSettings(blocks=2, restarts=2, gate="off", command="datassay <x>")
    return run_partition(samples(), aside(), settings)


def evil_names(findings):
    """The same findings, of samples and a model whose names want to be markup."""
    return replace(findings, model=EVIL, samples=replace(findings.samples, name=EVIL))


def evil_images(findings):
    """The same findings of images: one channel of 3 x 3 pixels."""
    x = np.linspace(0, 1, 9 * len(findings.samples), dtype=np.float32).reshape(-1, 1, 3, 3)
    return replace(findings, samples=replace(findings.samples, x=x, kind="image"))
