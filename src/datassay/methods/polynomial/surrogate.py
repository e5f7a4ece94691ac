"""A polynomial with the scaling and names of the user's data, its file format and its score."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from datassay.data.new_rows import RowFormat, row_format
from datassay.data.samples import SampleSet
from datassay.data.scaling import column_units
from datassay.errors import DataError
from datassay.methods.polynomial.model import CHUNK, Polynomial
from datassay.methods.polynomial.monomials import Monomials, chosen_monomials
from datassay.optional import map_optional
from datassay.results import result
from datassay.stats import Interval, mean_interval
from datassay.store.model_file import read_model, readable, write_model

FORMAT = "datassay polynomial 1"
N_TRAIN = 5000  # so many training samples say enough: a score of 2000 is known to a point
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
ARRAYS = ("terms", "scale", "coef", "center", "spread")


@result
class Surrogate:
    """A polynomial of the user's inputs.

    Attributes:
        polynomial: takes (x − center) / spread, d values per sample.
        center: [d], column means; 0 for images.
        spread: [d], column standard deviations; 1 for images and for constant columns.
        output_names: one per class or target.
        feature_names: one per column of a table; empty for images.
        is_classification: whether outputs are classes.
        rows: what new rows must be to become inputs; None of a file written before it was stored.
    """

    polynomial: Polynomial
    center: Float[np.ndarray, " d"]
    spread: Float[np.ndarray, " d"]
    output_names: tuple[str, ...]
    feature_names: tuple[str, ...] = ()
    is_classification: bool = True
    rows: RowFormat | None = None

    def inputs(self, x: Shaped[np.ndarray, "n ..."]) -> Shaped[np.ndarray, "n d"]:
        """Scale samples to the polynomial's inputs.

        Args:
            x: [n, ...] as loaded.

        Returns:
            [n, d]; x itself where nothing is scaled.

        Raises:
            DataError: a sample does not have d values.
        """
        if len(x):
            rows = x.reshape(len(x), -1)
        else:
            rows = x.reshape(0, self.polynomial.monomials.n_inputs)
        if rows.shape[1] != len(self.center):
            raise DataError(
                f"the polynomial takes {len(self.center)} values per sample; got {rows.shape[1]}. "
                "Give it samples like those it was fitted to."
            )
        if not self.center.any() and (self.spread == 1).all():
            return rows
        return (rows - self.center) / self.spread

    def outputs(self, x: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, "n q"]:
        """Predict one output per class or target.

        Args:
            x: [n, ...] as loaded.

        Returns:
            [n, q].

        Raises:
            DataError: a sample does not have d values.
        """
        return self.polynomial.outputs(self.inputs(x))

    @property
    def input_names(self) -> list[str]:
        """Each input: its column's name, or (row, column) of a pixel, from 0."""
        monomials = self.polynomial.monomials
        if monomials.image_shape is not None:
            width = monomials.image_shape[1]
            return [f"({i // width}, {i % width})" for i in range(monomials.n_inputs)]
        return list(self.feature_names) or [f"x{i}" for i in range(monomials.n_inputs)]

    @property
    def term_names(self) -> list[str]:
        """Each product: "1", "age", "age · height²"; of images "(4, 7) · (5, 7)", from 0."""
        names = self.input_names
        products = []
        for term in self.polynomial.monomials.terms.tolist():
            powers = Counter(i for i in term if i >= 0)
            factors = (_raise_name(names[i], power) for i, power in powers.items())
            products.append(" · ".join(factors) or "1")
        return products

    def degree_spread(self, x: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, "k q"]:
        """Return [k, q], standard deviations over samples of what each degree adds."""
        monomials = self.polynomial.monomials
        rows = self.inputs(x)
        spreads = []
        for t in range(1, int(monomials.degree.max()) + 1):
            keep = np.flatnonzero(monomials.degree == t)
            parts = [
                monomials.features(rows[i : i + CHUNK], keep=keep) @ self.polynomial.coef[keep]
                for i in range(0, len(rows), CHUNK)
            ]
            spreads.append(np.concatenate(parts).std(axis=0))
        return np.stack(spreads)


def _raise_name(name: str, power: int) -> str:
    """Return a factor's name and power, "age²"; what is not one word stands in brackets."""
    if power == 1:
        return name
    if not re.fullmatch(r"\w*[^\W\d]|[(].*[)]", name):
        name = f"({name})"
    return name + str(power).translate(SUPERSCRIPTS)


def empty_surrogate(train: SampleSet, degree: int, window: int | None) -> Surrogate:
    """Return the surrogate before its fit: all coefficients 0; columns of rows standardised."""
    shape: tuple[int, ...] | None = grey_shape(train)
    if shape is None and window is not None:
        shape = train.input_shape  # no grey image, which `chosen_monomials` then refuses
    monomials = chosen_monomials(int(np.prod(train.input_shape)), degree, window, shape)
    names = output_names(train)
    d = monomials.n_inputs
    center = np.zeros(d)
    spread = np.ones(d)
    if train.kind == "row":
        center, spread = column_units(train.x.reshape(len(train), -1))
    columns = ()
    if len(train.feature_names) == d:
        columns = train.feature_names
    return Surrogate(
        polynomial=Polynomial(monomials, np.zeros((monomials.n_features, len(names)))),
        center=center, spread=spread, output_names=names, feature_names=columns,
        is_classification=train.is_classification, rows=row_format(train),
    )  # fmt: skip


def output_names(samples: SampleSet) -> tuple[str, ...]:
    """Return one name per class or target."""
    if samples.is_classification:
        return samples.class_names
    k = output_targets(samples).shape[1]
    if k == 1:
        return ("target",)
    return tuple(f"target {j}" for j in range(k))


def output_targets(samples: SampleSet) -> Float[np.ndarray, "n q"]:
    """Return a one at each sample's class and zeros elsewhere, or the targets, [n, q]."""
    if samples.is_classification:
        return np.eye(samples.n_classes)[samples.y]
    return samples.y.reshape(len(samples), -1)


def grey_shape(samples: SampleSet) -> tuple[int, int] | None:
    """Return the rows and columns of grey images; None for colour images and other data."""
    if samples.kind != "image":
        return None
    shape = samples.input_shape
    if len(shape) == 3 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) == 2:
        return (shape[0], shape[1])
    return None


def save_surrogate(surrogate: Surrogate, path: Path) -> None:
    """Write a safetensors file: arrays and names only, so loading runs no code.

    Args:
        surrogate: to keep.
        path: of the file.
    """
    monomials = surrogate.polynomial.monomials
    arrays = {
        "terms": monomials.terms,
        "scale": monomials.scale,
        "coef": surrogate.polynomial.coef,
        "center": surrogate.center,
        "spread": surrogate.spread,
    }
    facts = {
        "image_shape": monomials.image_shape,
        "window": monomials.window,
        "output_names": surrogate.output_names,
        "feature_names": surrogate.feature_names,
        "is_classification": surrogate.is_classification,
        "rows": None if surrogate.rows is None else surrogate.rows.to_json(),
    }
    write_model(path, FORMAT, arrays, facts)


def load_surrogate(path: Path) -> Surrogate:
    """Read what `save_surrogate` wrote.

    Args:
        path: of the file.

    Returns:
        The same surrogate.

    Raises:
        ModelError: the file is of another kind, damaged or inconsistent.
    """
    with readable(path, "polynomial"):
        file_format, arrays, facts = read_model(path)
        return surrogate_of(file_format, arrays, facts)


def surrogate_of(
    file_format: str, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]
) -> Surrogate:
    """Build a surrogate from a file's parts; raise ValueError if they are inconsistent."""
    if file_format != FORMAT or set(arrays) != set(ARRAYS):
        raise ValueError("it holds something else.")
    names = tuple(map(str, facts["output_names"]))
    columns = tuple(map(str, facts["feature_names"]))
    terms = arrays["terms"]
    d = len(arrays["center"])
    p = len(terms)
    shape = facts["image_shape"]
    shape_of = {
        "terms": (p, terms.shape[-1]),
        "scale": (p,),
        "coef": (p, len(names)),
        "center": (d,),
        "spread": (d,),
    }
    if (
        any(arrays[name].shape != expected for name, expected in shape_of.items())
        or any(a.dtype != np.float64 for name, a in arrays.items() if name != "terms")
        or not all(np.isfinite(a).all() for a in arrays.values())
        or not _are_terms(terms, d)
        or (shape is not None and int(np.prod(shape)) != d)
        or len(columns) not in {0, d}
    ):
        raise ValueError("its parts contradict each other.")
    image_shape = None
    if shape is not None:
        image_shape = (int(shape[0]), int(shape[1]))
    monomials = Monomials(terms, arrays["scale"], d, image_shape, facts["window"])
    return Surrogate(
        polynomial=Polynomial(monomials, arrays["coef"]),
        center=arrays["center"], spread=arrays["spread"], output_names=names, feature_names=columns,
        is_classification=bool(facts["is_classification"]),
        rows=map_optional(RowFormat.from_json, facts.get("rows")),
    )  # fmt: skip


def _are_terms(terms: np.ndarray, d: int) -> bool:
    """Return whether these are valid `Monomials.terms` of d inputs, the constant first."""
    return bool(
        terms.dtype == np.int64
        and terms.size
        and (terms[0] == -1).all()
        and (terms >= -1).all()
        and (terms < d).all()
        and (np.diff(terms, axis=1) >= 0).all()
    )


def score_each(outputs: Float[np.ndarray, "m q"], samples: SampleSet) -> Float[np.ndarray, " m"]:
    """Return each sample's score, [m]: their mean is the accuracy or R².

    Returns:
        [m]. Classes: 1 where the largest output is the label's, else 0. Targets: 1 minus squared
        error over the variance of these targets, averaged over targets (constant ones are left
        out); only the mean over samples is an R².
    """
    if samples.is_classification:
        return (outputs.argmax(axis=1) == samples.y).astype(float)
    y = samples.y.reshape(len(samples), -1)
    variance = y.var(axis=0)
    varies = variance > 0
    if not varies.any():
        return np.zeros(len(y))
    error = (y - outputs)[:, varies] ** 2
    return (1 - error / variance[varies]).mean(axis=1)


@result
class SurrogateScores:
    """Scores of models from simple to ours, on the same validation samples."""

    names: tuple[str, ...]  # of the r models, ours last
    sample_scores: Float[np.ndarray, "r m"]  # see `score_each`
    train: Float[np.ndarray, " r"]  # mean score on n_train training samples
    n_train: int
    n_features: tuple[int, ...]  # of each model, constant included
    metric: str  # "accuracy" or "R²"

    def ahead_of(self, rival: int) -> Interval:
        """Return ours minus another's score, paired over samples, as an interval."""
        unit = 1.0 if self.metric == "accuracy" else 0.0
        return mean_interval(self.sample_scores[-1] - self.sample_scores[rival], unit)


def surrogate_scores(
    models: Mapping[str, Surrogate],
    outputs: Mapping[str, Float[np.ndarray, "m q"]],
    train: SampleSet,
    val: SampleSet,
    *,
    seed: int,
) -> SurrogateScores:
    """Return the scores of a constant and of models, each by its validation `outputs`."""
    subset = train.subset(np.sort(np.random.default_rng(seed).permutation(len(train))[:N_TRAIN]))
    mean = output_targets(train).mean(axis=0)
    val_scores = [score_each(np.tile(mean, (len(val), 1)), val)]
    train_scores = [score_each(np.tile(mean, (len(subset), 1)), subset).mean()]
    for name, model in models.items():
        val_scores.append(score_each(outputs[name], val))
        train_scores.append(score_each(model.outputs(subset.x), subset).mean())
    return SurrogateScores(
        names=("the commonest class" if train.is_classification else "the mean", *models),
        sample_scores=np.stack(val_scores),
        train=np.array(train_scores),
        n_train=len(subset),
        n_features=(1, *(model.polynomial.monomials.n_features for model in models.values())),
        metric="accuracy" if train.is_classification else "R²",
    )
