"""The built-in data sets: scikit-learn's bundled ones, moons, mixtures; never the network."""

from collections.abc import Callable
from typing import Any

import numpy as np

from datassay.data.samples import SampleSet
from datassay.data.source import Source, SourcePart
from datassay.data.synthetic.mixtures import routable_mixture, sd_mixture


def _load_bunch(name: str) -> Any:
    """Return a data set of scikit-learn."""
    from sklearn import datasets  # slow to import

    return getattr(datasets, f"load_{name}")()


def _digits() -> Source:
    """Return 1 797 handwritten digits as images of 8 by 8 grey levels."""
    bunch = _load_bunch("digits")
    images = (bunch.images / 16).astype(np.float32)[:, None]  # [1797, 1, 8, 8], levels 0..16
    return Source(
        "digits",
        SourcePart(images, bunch.target),
        task="classification",
        class_names=tuple(str(digit) for digit in range(10)),
        kind="image",
    )


def _make_reader(name: str) -> Callable[[], Source]:
    """Return the function that reads a table of numbers of scikit-learn."""

    def source() -> Source:
        bunch = _load_bunch(name)
        return Source(
            name,
            SourcePart(bunch.data, bunch.target),
            task="classification" if "target_names" in bunch else "regression",
            class_names=tuple(str(c) for c in bunch.get("target_names", ())),
            kind="row",
            feature_names=tuple(str(f) for f in bunch.feature_names),
        )

    return source


def _moons() -> Source:
    """Return 1 000 points of two half circles with noise."""
    from sklearn.datasets import make_moons

    x, y = map(np.asarray, make_moons(1000, noise=0.2, random_state=0))
    return Source(
        "moons", SourcePart(x, y), None, "classification", ("upper", "lower"), "row",
        ("horizontal", "vertical"),
    )  # fmt: skip


def _to_source(samples: SampleSet) -> Source:
    """Return the source that holds the samples of a set of rows."""
    return Source(
        samples.name, SourcePart(samples.x, samples.y, source=samples.source), None,
        "classification", samples.class_names, "row", samples.feature_names,
    )  # fmt: skip


BUILTINS: dict[str, Callable[[], Source]] = {
    "digits": _digits,
    "breast_cancer": _make_reader("breast_cancer"),
    "wine": _make_reader("wine"),
    "iris": _make_reader("iris"),
    "diabetes": _make_reader("diabetes"),
    "moons": _moons,
    "sd2": lambda: _to_source(sd_mixture((700, 300))),
    "sd3": lambda: _to_source(sd_mixture((700, 150, 150))),
    "routable": lambda: _to_source(routable_mixture()),
}
"""Name → reader; all but diabetes (regression) are classification."""
