"""Check a source and turn it into sample sets."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int

from datassay.data.pictures import with_pixels
from datassay.data.samples import SampleSet
from datassay.data.source import Source, SourcePart, Task, to_numpy
from datassay.data.splits import group_folds, split_indices, time_blocks
from datassay.data.strings import Texts, as_arrow, compact
from datassay.data.tables.numeric import check_differences
from datassay.data.tables.read import QUOTE
from datassay.data.targets import (
    Coding,
    encode_for_outputs,
    encode_like,
    encode_targets,
    label_type,
    target_warnings,
)
from datassay.data.text import with_tfidf
from datassay.errors import DataError
from datassay.optional import select_rows, text_if

# Beyond this, float32 no longer holds every integer.
_FLOAT32_INTEGERS = 2**24
_ROWS = 1024  # moved at a time
_N_FOLDS = 20  # of whole groups; those held out come nearest to the share asked for


Encode = Callable[[SampleSet, SampleSet | None], tuple[SampleSet, SampleSet | None]]
"""Called with the training and the validation set, or None where nothing is held out; gives both
with an x of numbers."""


def encode_plainly(train: SampleSet, val: SampleSet | None) -> tuple[SampleSet, SampleSet | None]:
    """Return samples whose x needs no encoder: an image's pixels, a text's tf-idf weights."""
    if train.texts is not None:
        return with_tfidf(train, val)
    if train.images is None:
        return (train, val)
    return with_pixels(train, val)


def sample_sets(
    source: Source,
    *,
    task: Task | None,
    val_fraction: float,
    seed: int,
    held_out: Collection[Any] | None = None,
    encode: Encode = encode_plainly,
) -> tuple[SampleSet, SampleSet | None]:
    """Return the training and the validation set, checked; None where nothing is held out."""
    # task: the user's; None: the source's own, or what its targets say. What is split off a source
    # without a validation part: the samples of the ids `held_out`, else val_fraction of all. No
    # array is rescaled.
    if task and source.task and task != source.task:
        raise DataError(
            f"{source.name} is a {source.task} set; got task='{task}'. Leave task out, or pass "
            "its arrays as (x, y)."
        )
    if np.ndim(source.train.y) and len(source.train.y) == 1:
        raise DataError("at least 2 training samples are needed; got 1. Add samples.")
    val_y = None if source.val is None else source.val.y
    task = task or source.task
    try:
        y, y_val, names = encode_targets(source.train.y, val_y, source.class_names, task)
    except DataError as error:
        n_missing = sum(c.missing for c in source.columns if c.read_as == "target")
        raise DataError(
            f"{error}{text_if(n_missing, f' Missing: {n_missing:,}. {QUOTE}.')}"
        ) from None
    is_guessed = not (task or source.class_names)
    warnings = target_warnings(np.asarray(source.train.y), names, is_guessed=is_guessed)
    columns = tuple(
        replace(c, n_values=len(names) or c.n_values) if c.read_as == "target" else c
        for c in source.columns
    )
    source = replace(source, columns=columns, warnings=(*source.warnings, *warnings))
    train = _build(source, source.train, y, names)
    val = None
    if source.val is not None and y_val is not None:
        val = _build(source, replace(source.val, groups=None, time=None), y_val, names)
    elif val_fraction or held_out is not None:
        indices = _split(train, val_fraction, seed, held_out, source.train.time)
        train, val = _divide(train, *indices, owns_x=bool(source.columns))
    if val is not None and (train.texts is None) != (val.texts is None):
        raise DataError(
            "x and x_val must both be numbers or both be texts; got one of each. Prepare both "
            "parts alike."
        )
    train, val = encode(train, val)
    if len(train) < 2:
        raise DataError(f"at least 2 training samples are needed; got {len(train)}. Add samples.")
    if 0 in train.input_shape:
        raise DataError(f"x must hold at least one feature; got shape {train.x.shape}.")
    if val is not None:
        _check_pair(train, val)
    _check_differ(train)
    return train, val


def one_set(
    source: Source, reference: SampleSet | None = None, coding: Coding | None = None
) -> SampleSet:
    """Return all samples of a source as one checked set; raise if they are texts."""
    # y follows the task and classes of `reference`, else `coding` by a network's outputs.
    x = source.train.x
    is_numeric = source.train.texts is None and x.dtype.kind in "biuf" and x.ndim > 1
    if reference is not None:
        names = reference.class_names
        y = encode_like(source.train.y, names, reference.y.dtype)
        fitted = reference.preparation
        rows = source.train.rows
        if fitted is not None and rows is not None:  # x as the samples before have it
            train = replace(source.train, x=fitted.transform(rows), texts=None)
            source = replace(source, train=train, feature_names=fitted.feature_names)
            source = replace(source, preparation=fitted)
    elif coding is not None and source.task != "regression" and is_numeric:
        y, names, warnings = encode_for_outputs(source.train.y, x, source.class_names, coding)
        source = replace(source, warnings=(*source.warnings, *warnings))
    else:
        y, _, names = encode_targets(source.train.y, None, source.class_names, source.task)
    samples = _build(source, source.train, y, names)
    if samples.texts is not None:
        raise DataError(
            "x must hold numbers here; got texts. load((x, y)) turns texts into word weights."
        )
    if reference is None and (coding is None or coding.is_training):
        _check_differ(samples)
    return samples


def _split(
    samples: SampleSet,
    val_fraction: float,
    seed: int,
    held_out: Collection[Any] | None,
    time: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of training samples and of held-out ones, [n_train] and [n_val]."""
    # held_out: their ids; None: val_fraction of the samples, by groups or time where there are any.
    if held_out is None and samples.groups is not None:
        return _split_together(samples, samples.groups, val_fraction, seed, time)
    if held_out is None:
        return split_indices(
            samples.y,
            is_classification=samples.is_classification,
            val_fraction=val_fraction,
            seed=seed,
            order=np.argsort(samples.ids, kind="stable"),
        )
    ids = [str(name) for name in samples.ids.tolist()]
    held_ids = {str(name) for name in held_out}
    is_held = np.array([name in held_ids for name in ids])
    if is_held.sum() < len(held_ids):
        unknown = sorted(held_ids - set(ids))
        raise DataError(
            f"held_out must be ids of samples; {len(unknown):,} are none, the first "
            f"{unknown[0][:80]}. Name ids as the data have them."
        )
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def _split_together(
    samples: SampleSet, groups: np.ndarray, val_fraction: float, seed: int, time: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return positions to train on and to hold out: the latest samples, or whole groups."""
    n = len(samples)
    if time is not None:
        cut_time = np.sort(time)[n - max(1, round(val_fraction * n))]
        is_held = time >= cut_time
    else:
        by_id = np.argsort(samples.ids, kind="stable")
        strata = select_rows(samples.class_labels, by_id)
        fold = np.empty(n, dtype=np.int64)
        fold[by_id] = group_folds(groups[by_id], strata, _N_FOLDS, seed)
        is_held = _mark_held_out(fold, samples.y, val_fraction, has_classes=strata is not None)
    if n - is_held.sum() < 2:
        raise DataError(
            f"at least 2 training samples must remain; val_fraction {val_fraction} by "
            f"{'time' if time is not None else 'groups'} leaves {n - is_held.sum()} of {n}. Lower "
            "val_fraction, or leave the column out."
        )
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def _mark_held_out(
    fold: Int[np.ndarray, " n"], y: np.ndarray, share: float, has_classes: bool
) -> np.ndarray:
    """Return [n] bool, True in the folds held out, whose samples are nearest to `share` of all."""
    # Of the first run of folds whose classes all occur in training; if there is none, from fold 0.
    n_folds = int(fold.max()) + 1
    candidates = []
    for first_fold in range(n_folds):
        offset = (fold - first_fold) % n_folds
        sizes = np.bincount(offset, minlength=n_folds).cumsum()[:-1]  # of runs of 1, 2, ... folds
        is_held = offset <= np.abs(sizes - share * len(fold)).argmin()
        if not has_classes or len(np.setdiff1d(y[is_held], y[~is_held])) == 0:
            return is_held
        candidates.append(is_held)
    return candidates[0]


def _divide(
    samples: SampleSet, train_idx: np.ndarray, val_idx: np.ndarray, *, owns_x: bool
) -> tuple[SampleSet, SampleSet]:
    """Return (train, val); with `owns_x` training rows move up in place, so that x is held once."""
    val = replace(samples.subset(val_idx), split_off=True)
    if not owns_x:
        return samples.subset(train_idx), val
    x = samples.x
    for start in range(0, len(train_idx), _ROWS):  # ascending: none is overwritten before it moved
        rows = train_idx[start : start + _ROWS]
        x[start : start + len(rows)] = x[rows]
    train = replace(samples, x=x[:, :0]).subset(train_idx)
    return replace(train, x=x[: len(train_idx)]), val


def _build(source: Source, raw: SourcePart, y: np.ndarray, names: tuple[str, ...]) -> SampleSet:
    """Return one part of a source as a checked SampleSet; names: of the classes."""
    x = raw.x
    texts = raw.texts
    if x.dtype.kind in "UO" and x.ndim == 1:
        texts = Texts(as_arrow(x, "x"))
        x = np.zeros((len(x), 0), dtype=np.float32)
    feature_names = source.feature_names
    x = _check_inputs(x, feature_names, is_read=bool(source.columns))
    if not names:
        check_differences(y, [f"output {k}" for k in range(y[:1].size)], "target")
    origins = None
    if raw.source is not None:
        origins = check_sample_names(raw.source, "source")
    if origins is not None and origins.dtype.kind in "iu":
        origins = origins.astype(str)
    trusted = None if raw.trusted is None else _parse_flags(raw.trusted)
    groups = None
    if raw.groups is not None:
        groups = check_sample_names(raw.groups, "groups").astype(str)
    if raw.time is not None:
        groups = time_blocks(to_numpy(raw.time, "time"))
    width = x.shape[1] if x.ndim == 2 else -1
    has_channels = x.ndim == 4 and (x.shape[1] in {1, 3} or x.shape[3] in {1, 3})
    is_image = x.ndim == 3 or has_channels
    return SampleSet(
        x=x,
        y=y,
        ids=np.arange(len(x)) if raw.ids is None else check_sample_names(raw.ids, "ids"),
        class_names=names,
        kind=source.kind or ("image" if is_image else "row"),
        feature_names=feature_names if len(feature_names) == width else (),
        texts=texts,
        images=raw.images,
        source=origins,
        trusted=trusted,
        groups=groups,
        name=source.name,
        columns=source.columns,
        rows=raw.rows,
        label_type="string" if source.class_names or not names else label_type(raw.y),
        preparation=source.preparation,
        warnings=source.warnings,
    )


def _check_inputs(x: np.ndarray, names: tuple[str, ...], *, is_read: bool) -> np.ndarray:
    """Return inputs as float32, or float64 where float32 would lose differences; or raise."""
    if x.dtype.kind not in "biuf":
        raise DataError(
            f"x must hold numbers, or be [n] strings; got {_name_dtype(x)} in shape {x.shape}. "
            "Encode categories as numbers, or save the table as .csv and load that."
        )
    if x.ndim < 2:
        raise DataError(
            f"x must be [n, ...], one row per sample; got shape {x.shape}. For a single feature "
            "pass x.reshape(-1, 1)."
        )
    if x.dtype.kind == "f":
        is_double = x.dtype.itemsize > 4
    else:
        is_double = x.size > 0 and max(-int(x.min()), int(x.max())) > _FLOAT32_INTEGERS
    if is_double and not is_read:  # of a table, each column was checked as it was read
        check_differences(x, names)
    return np.ascontiguousarray(x, dtype=np.float64 if is_double else np.float32)


def _name_dtype(values: np.ndarray) -> str:
    """Return an array's dtype in words for an error, "strings" if it holds any."""
    if values.dtype.kind in "UO":
        return "strings"
    return str(values.dtype)


def check_sample_names(values: np.ndarray, name: str) -> np.ndarray:
    """Return ids or sources as integers or compact strings, [n]; raise for other values."""
    values = to_numpy(values, name)
    if values.dtype.kind == "b":
        values = values.astype(str)
    is_whole = values.dtype.kind == "f" and (np.abs(values) < 2**53).all()
    if is_whole and (values == values.round()).all():  # pandas makes floats of whole numbers
        values = values.astype(np.int64)
    if values.dtype.kind not in "iuUO" or values.ndim != 1:
        raise DataError(
            f"{name} must be [n] strings or integers; got {_name_dtype(values)} in shape "
            f"{values.shape}. Name another column, or leave {name} out."
        )
    if values.dtype.kind == "u" and len(values) and values.max() < 2**63:
        return values.astype(np.int64)
    if values.dtype.kind in "UO":
        return compact(as_arrow(values, name))
    return values


FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _parse_flags(values: np.ndarray) -> np.ndarray:
    """Return which labels are trusted, [n] bool, from booleans, 0 and 1, or words."""
    words = [str(value).lower().removesuffix(".0") for value in values.tolist()]
    unknown = [word for word in words if word not in FLAGS]
    if unknown:
        raise DataError(
            f"trusted must hold {', '.join(FLAGS)}; got {unknown[0][:80]!r}. Write yes where the "
            "label is known to be right, no elsewhere."
        )
    flags = np.array([FLAGS[word] for word in words], bool)
    if flags.all():
        raise DataError(
            f"trusted must leave a label to judge; all {len(flags)} are trusted. Leave trusted out."
        )
    return flags


def _check_differ(train: SampleSet) -> None:
    """Raise if all samples have the same inputs."""
    if len(train) > 1 and all(np.array_equal(row, train.x[0]) for row in train.x[1:]):
        raise DataError(
            f"inputs must differ; all {len(train)} samples are the same. Check what was read as x."
        )


def _check_pair(train: SampleSet, val: SampleSet) -> None:
    """Raise if validation samples have another shape, or a class that training has not."""
    if len(val) < 1:
        raise DataError("at least 1 validation sample is needed; got 0. Add samples.")
    if train.input_shape != val.input_shape or train.y.shape[1:] != val.y.shape[1:]:
        raise DataError(
            "training and validation samples must have one shape; got x "
            f"{train.input_shape} and {val.input_shape}, y {train.y.shape[1:]} and "
            f"{val.y.shape[1:]}. Prepare both parts alike."
        )
    if train.is_classification:
        absent = np.setdiff1d(val.y, train.y)
    else:
        absent = np.array([])
    if len(absent):
        raise DataError(
            "every class of the validation part must occur in training; "
            f"not there: {', '.join(train.class_names[c] for c in absent)}. Lower val_fraction, or "
            "move samples of it into training."
        )
