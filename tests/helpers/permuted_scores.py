"""How far scores move when the rows of the training or validation set come in another order."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from datassay.collect.collection import collect
from datassay.data.corrupt.label_noise import add_label_noise
from datassay.data.load import load
from datassay.data.samples import SampleSet
from datassay.data.scaling import standardized_inputs
from datassay.methods.purify.loop import purify
from datassay.methods.weigh.weights import local_variance_weights
from datassay.models.build import build_model
from datassay.score.information.groups import group_information
from helpers.same_scores import scores

Sets = tuple[SampleSet, SampleSet]
# Network and form: every kind of form, and every kind of network.
FORMS = {
    "joint": ("mlp", {"outputs": "joint"}),
    "joint features": ("mlp", {"outputs": "joint", "projection": 40}),
    "mixed features": ("mlp", {"outputs": "mixed", "projection": 15}),
    "float32 products": ("mlp", {"outputs": "mixed", "projection": 15, "products": "float32"}),
    "logistic": ("logistic", {}),
}
NETWORKS = {"averaged": ("cnn", {"outputs": "averaged"})}


def samples(family: str, n: int = 300) -> Sets:
    """(train, val) of at most n and n / 5 samples; a tenth of the labels is wrong."""
    if family == "images":
        return images(min(n, 60))
    if family == "mixed columns":
        with tempfile.TemporaryDirectory() as folder:
            file = mixed_columns(Path(folder), min(n, 120))
            return load(file, target="bought", val_fraction=0.2)
    train, val = (
        s.subset(np.arange(min(most, len(s))))
        for s, most in zip(load(family, seed=1), (n, n // 5), strict=True)
    )
    return (add_label_noise(train, 0.1) if train.is_classification else train), val


def mixed_columns(folder: Path, n: int = 120) -> Path:
    """A table with numbers, words, booleans, a constant column and repeated rows."""
    rng, file = np.random.default_rng(3), folder / "mixed.csv"
    rows = [
        f"{rng.normal():.3f},{rng.integers(5)},{'red blue green'.split()[rng.integers(3)]},"
        f"{bool(rng.integers(2))},7,{'yes no'.split()[rng.integers(2)]}"
        for _ in range(n)
    ]
    file.write_text("\n".join(["size,count,colour,open,always,bought", *rows, *rows[:9]]))
    return file


def images(n: int = 60, size: int = 20) -> Sets:
    """Blobs at one of three places, noisy."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, n + n // 3)
    x = rng.normal(size=(len(y), 1, size, size)).astype(np.float32)
    for index in range(3):
        x[y == index, :, 5 * index : 5 * index + 6] += 1
    return load((x[:n], y[:n], x[n:], y[n:]))


def all_scores(sets: Sets, form: tuple[str, dict]) -> dict[str, np.ndarray]:
    """Every score by the samples' ids; what is not one value per sample as it is."""
    (train, val), (network, settings) = sets, form
    lin = collect(build_model(network, train), train, val, **settings)
    by_id = np.argsort(train.ids)
    results = {
        name: values if name.startswith("learning curve") else values.take(by_id, values.ndim - 1)
        for name, values in scores(lin, n_partners=len(train)).items()
    }
    # Parts that the ids draw, so that both orders have the same groups.
    parts = train.ids.astype(int) % 7
    for smoothing in ("functional", "isotropic"):
        results[f"group information {smoothing}"] = group_information(
            lin, parts, smoothing=smoothing, steps=500
        ).information
    return results


def decisions(sets: Sets) -> dict[str, np.ndarray]:
    """What purify removes, in order, and the weights by local variance."""
    train, val = sets
    by_id = np.argsort(train.ids)
    results = {}
    if train.x.ndim == 2:
        inputs = standardized_inputs(train)
        results["weight"] = local_variance_weights(inputs, train.y)[by_id]
        if train.is_classification:
            model = build_model("logistic", train)
            done = purify(model, train, val, step=1, stop="none", max_fraction=0.05)
            results["purify order"] = done.ids[done.removed].astype(float)
            results["purify gain"] = np.array([done.cross_fit.gain, done.cross_fit.error])
            assert np.isfinite(results["purify gain"]).all()  # else nothing was cross-fitted
    return results


def differences(sets: Sets, compute: Callable[[Sets], dict], seed: int = 0) -> dict[str, float]:
    """Score → largest difference from the order given, relative to the score's largest value."""
    train, val = sets
    rng = np.random.default_rng(seed)
    base = compute(sets)
    worst = dict.fromkeys(base, 0.0)
    orders = (
        (train.subset(rng.permutation(len(train))), val),
        (train, val.subset(rng.permutation(len(val)))),
        (train.subset(np.arange(len(train))[::-1]), val),
    )
    for order in orders:
        for name, values in compute(order).items():
            before = base[name]
            if values.shape != before.shape:
                worst[name] = np.inf
                continue
            apart = np.abs(values.astype(float) - before).max()
            worst[name] = max(worst[name], float(apart / (np.abs(before).max() or 1.0)))
    return worst
