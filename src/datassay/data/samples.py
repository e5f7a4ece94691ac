"""A labelled sample set: what every later step receives."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from datassay.data.strings import Texts, check_encodable
from datassay.errors import DataError
from datassay.results import result

Kind = Literal["image", "text", "row"]
LabelType = Literal["string", "integer", "boolean", "number"]
LONGEST_NAME = 1000  # characters of an id or of the name of a class
# What a set holds one of for each sample, beside rows of a table.
OF_EACH = ("x", "y", "ids", "texts", "images", "true_y", "source", "trusted", "groups")
if TYPE_CHECKING:
    Array = np.ndarray
else:  # a torch tensor too, of which a SampleSet makes an array
    Array = Any


@result
class Column:
    """How one column of a table was read, as plain values."""

    name: str  # of a folder, what was found there
    # "number", "boolean", "date", "vector", "category", "text", "target", "ids", "source",
    # "trusted", "groups", "time" or "left out".
    read_as: str
    n_values: int | None = None  # distinct values of a category, classes of a target
    missing: int = 0
    treatment: str = ""  # what became of it in x, in words
    note: str = ""  # why it was left out, or what is not as usual
    form: str = ""  # of strings that are dates or numbers, how they are written
    missing_code: float | None = None  # the number that stands for a missing one, such as -999
    tells_target: bool = False  # whether it predicts the target almost alone, or with one other


@runtime_checkable
class Preparation(Protocol):
    """The treatment of a table's columns, fitted: what gives x for new rows."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those that are used, as they were read."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One per column of x."""
        ...

    def transform(self, frame: Any, /) -> np.ndarray:
        """Return the input for new rows, x, [n, features], from a frame of any library."""
        ...


@runtime_checkable
class Images(Protocol):
    """[n] images of any sizes: an array, or files that are read where they are needed."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __getitem__(self, index: Any, /) -> Any: ...


@result
class Encoding:
    """What images or texts were turned into.

    Attributes:
        name: of the frozen encoder, as `features:NAME` has it; empty: pixels or word weights.
        width: numbers of one embedding, or words; they are the last columns of x.
        digest: SHA-256 of the encoder's weights.
        recipe: what is done to one sample, in words.
        note: what the reader must know: texts cut, or an encoder that was not installed.
        seconds: that embedding all samples took, or of a plan will take; 0 where they were stored.
        word_weights: [words], by which counts of words are multiplied; None for an encoder.
    """

    name: str
    width: int = 0
    digest: str = ""
    recipe: str = ""
    note: str = ""
    seconds: float = 0.0
    word_weights: np.ndarray | None = None


@result
class SampleSet:
    """Inputs, targets and names of n samples; ids survive subsetting and shuffling.

    Arrays may be given as torch tensors; they are stored as NumPy's.

    Attributes:
        x: [n, *input_shape], the model's input, finite numbers; whole numbers reach a network that
            looks them up as integers, as ids of tokens. Images are [n, channels, height,
            width] when we load them, in [0, 1]; whatever shape the user's own arrays have is kept.
        y: classification: [n] int64, an index into class_names. Regression: [n] or [n, k] float64,
            target unit.
        ids: [n], unique; strings or integers, the key that joins results to the user's table.
        class_names: one string per class, in index order; empty means regression.
        label_type: of the user's labels, which class_names are the words of.
        kind: how a sample is shown: drawn as an image, printed as text, listed as a row of values.
        feature_names: one string per column of a row; empty means x0, x1, ...
        texts: [n] strings to show where kind is "text", as `load` keeps them or in an array; None
            otherwise.
        images: [n] images to show where kind is "image" and x holds something else: files, or an
            array as x would be; None where x holds the pixels.
        encoding: how x was made of images or texts; None where x was given as numbers.
        true_y: [n], the labels before noise was added; None where no truth is known.
        source: [n] strings, where each sample came from; None where that is unknown.
        trusted: [n] bool, whose labels somebody knows to be right; None where that is unknown.
        groups: [n] strings; samples are judged by models that saw none of their group. None: each
            sample is a group of its own.
        name: what to call the set on a page.
        split_off: whether `load` took these samples from the training set, so that what is wrong
            there is wrong here too.
        columns: how each column of a table was read, in the table's order; what was left out of a
            folder; empty for arrays.
        rows: [n] rows of the user's own columns as they came, missing values and columns left out
            by our rules included; target, ids and source are not among them. None where
            they came from no table.
        preparation: the fitted treatment that gives x for new rows; None without a table.
        warnings: what the reader must know of the data before trusting a figure.
    """

    x: Array
    y: Array
    ids: Array
    class_names: tuple[str, ...] = ()
    kind: Kind = "row"
    feature_names: tuple[str, ...] = ()
    texts: np.ndarray | Texts | None = None
    images: Images | None = None
    encoding: Encoding | None = None
    true_y: Array | None = None
    source: Array | None = None
    trusted: Array | None = None
    groups: Array | None = None
    name: str = "data"
    split_off: bool = False
    columns: tuple[Column, ...] = ()
    rows: pa.Table | None = None
    preparation: Preparation | None = None
    warnings: tuple[str, ...] = ()
    label_type: LabelType = "string"

    def __post_init__(self) -> None:
        for name in ("x", "y", "ids", "true_y", "source", "trusted", "groups"):
            values = tensor_to_array(getattr(self, name), name)
            if values is not None and not isinstance(values, np.ndarray):
                raise DataError(
                    f"{name} must be an array or a tensor; got a {type(values).__name__}. Pass "
                    f"np.asarray({name}), or load((x, y)), which takes lists and frames."
                )
            if name == "y" and values is not None and not values.flags.writeable:
                values = values.copy()  # a frame's: torch warns of what it could not write to
            object.__setattr__(self, name, values)
        check_samples(self)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def is_classification(self) -> bool:
        """Whether y holds class indices (True) or numbers to regress on (False)."""
        return bool(self.class_names)

    @property
    def class_labels(self) -> np.ndarray | None:
        """Class indices, [n]; None of numbers to regress on."""
        if self.is_classification:
            return self.y
        return None

    @property
    def metric(self) -> str:
        """What outputs are judged by: "accuracy" or "R²"."""
        if self.is_classification:
            return "accuracy"
        return "R²"

    @property
    def has_several_labels(self) -> bool:
        """Whether each sample has several labels, each given (1) or not (0)."""
        return not self.is_classification and are_several_labels(self.y)

    @property
    def target_names(self) -> tuple[str, ...]:
        """The columns of the table that y holds, in its order; empty where there was no table."""
        return tuple(column.name for column in self.columns if column.read_as == "target")

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 for regression."""
        return len(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample's input."""
        return self.x.shape[1:]

    @property
    def used_rows(self) -> pa.Table | None:
        """The rows without the columns left out when the table was read; None without a table."""
        if self.rows is None:
            return None
        left_out = {column.name for column in self.columns if column.read_as == "left out"}
        return self.rows.select([name for name in self.rows.column_names if name not in left_out])

    def subset(self, indices: np.ndarray) -> "SampleSet":
        """Return the samples at `indices` ([m] integers or an [n] mask), with their ids."""
        arrays = ((name, getattr(self, name)) for name in OF_EACH)
        subsets: dict[str, Any] = {n: values[indices] for n, values in arrays if values is not None}
        if "groups" in subsets and len(np.unique(subsets["groups"])) < 2:
            subsets["groups"] = None
        if self.rows is not None:
            subsets["rows"] = self.rows.take(pa.array(np.arange(len(self))[indices]))
        return replace(self, **subsets)

    def recode(
        self, codes: Sequence[int], class_names: tuple[str, ...], label_type: LabelType
    ) -> "SampleSet":
        """Return the set with other class names; class c becomes class `codes[c]`."""
        new_codes = np.asarray(codes)
        true_y = self.true_y
        return replace(
            self,
            y=new_codes[self.y],
            true_y=None if true_y is None else new_codes[true_y],
            class_names=class_names,
            label_type=label_type,
        )


def are_several_labels(y: np.ndarray) -> bool:
    """Return whether targets are several labels per sample, each 0 or 1."""
    return y.ndim == 2 and y.shape[1] > 1 and bool(((y == 0) | (y == 1)).all())


def tensor_to_array(values: Any, name: str) -> Any:
    """Return a torch tensor as an array, its memory shared if possible; other values unchanged."""
    if not hasattr(values, "detach"):  # without importing torch
        return values
    if values.is_meta:
        raise DataError(
            f"{name} must have values; got a tensor on the meta device, which has none. Make it on "
            "the processor."
        )
    values = values.detach().cpu()
    if str(values.dtype) == "torch.bfloat16":  # which NumPy has not
        values = values.float()
    try:
        return values.numpy()
    except (TypeError, RuntimeError) as error:
        raise DataError(
            f"{name} must be a dense tensor of a type that NumPy has; got {values.dtype}, "
            f"{values.layout}. Call .to_dense() or .float() on it."
        ) from error


def check_samples(samples: SampleSet) -> None:
    """Raise if lengths differ, ids repeat, or values are not finite."""
    n = len(samples.x)
    for name in (*OF_EACH, "rows"):
        column = getattr(samples, name)
        if column is not None and len(column) != n:
            raise DataError(f"{name} must have one entry per sample; got {len(column)} for {n}.")
    _check_names(samples)
    unique, counts = np.unique(samples.ids, return_counts=True)
    if len(unique) != n:
        repeated = str(unique[counts.argmax()])[:80]
        raise DataError(
            f"ids must be unique; {repeated} occurs {counts.max()} times. Name another id column "
            "or none."
        )
    if samples.groups is not None and n and len(np.unique(samples.groups)) < 2:
        raise DataError(
            f"groups must part the samples; all {n} are of {str(samples.groups[0])[:80]}. Leave "
            "them out."
        )
    check_finite("x", samples.x)
    check_finite("y", samples.y)
    if samples.is_classification:
        if len(set(samples.class_names)) != samples.n_classes:
            raise DataError(f"class names must differ; got {', '.join(samples.class_names)}.")
        for labels in (samples.y, samples.true_y):
            if labels is not None:
                _check_labels(labels, samples.n_classes)


def _check_names(samples: SampleSet) -> None:
    """Raise if names of samples, classes or features cannot be stored in files."""
    check_encodable("the name of the data", [samples.name])
    check_encodable("class names", samples.class_names)
    check_encodable("feature names", samples.feature_names)
    _check_length("class names", samples.class_names)
    if samples.ids.dtype.kind in "UO":
        _check_length("ids", samples.ids)
    if samples.ids.dtype.kind == "u" and len(samples.ids) and samples.ids.max() >= 2**63:
        raise DataError(
            f"ids that are numbers must lie below 2^63, as files hold them; got "
            f"{samples.ids.max()}. Pass them as strings."
        )
    for name in ("ids", "texts", "source", "groups"):
        values = getattr(samples, name)
        if values is not None and (isinstance(values, Texts) or values.dtype.kind in "UO"):
            check_encodable(name, values)


def _check_length(name: str, values: Iterable[str]) -> None:
    """Raise if a name has more than LONGEST_NAME characters."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "U":
        if values.dtype.itemsize <= 4 * LONGEST_NAME:
            return
    longest = max(values, key=lambda value: len(str(value)), default="")
    if len(str(longest)) > LONGEST_NAME:
        raise DataError(
            f"{name} must have at most {LONGEST_NAME} characters; one has {len(str(longest)):,}: "
            f"{ascii(longest)[:40]}... Name another column, or shorten them."
        )


def _check_labels(labels: np.ndarray, n_classes: int) -> None:
    """Raise if labels are not class indices, [n]."""
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(
            f"labels must be [n] integers that index the class names; got {labels.dtype} in shape "
            f"{labels.shape}. Load the data with load((x, y)), which indexes any labels."
        )
    if len(labels) and not 0 <= labels.min() <= labels.max() < n_classes:
        raise DataError(
            f"labels must lie in 0..{n_classes - 1} (the {n_classes} classes); got "
            f"{labels.min()}..{labels.max()}. Fix the labels or give every class a name."
        )


def check_finite(name: str, values: np.ndarray) -> None:
    """Raise DataError where samples hold NaN or infinity, and name the first."""
    if np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():
        bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
        raise DataError(
            f"{name} must be finite; {len(bad)} of {len(values)} samples hold NaN or infinity, "
            f"the first at position {bad[0]}. Remove or impute them."
        )


def wrong_labels(samples: SampleSet) -> np.ndarray | None:
    """Return which labels differ from the true ones, [n] bool; None if these are unknown."""
    if samples.true_y is None:
        return None
    different = np.not_equal(samples.y, samples.true_y).reshape(len(samples), -1)
    return np.logical_or.reduce(different, axis=1)
