"""Load a training and a validation set from a name, file, folder, data frame, arrays or Dataset."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from datassay import rules
from datassay.data.arguments import checks_arguments
from datassay.data.assemble import Encode, encode_plainly, sample_sets
from datassay.data.back.original import Original
from datassay.data.format import Format, TableFormat, known_format, suffixes
from datassay.data.formats.npz import original_builtin
from datassay.data.memory.convert import add_arrays, read_in_memory
from datassay.data.memory.frames import check_index, frame_table
from datassay.data.samples import SampleSet
from datassay.data.settings import HELD_OUT, Loading, check_seed, is_fraction
from datassay.data.source import Source, parts_among
from datassay.data.synthetic.builtin import BUILTINS
from datassay.data.tables.doubts import skew_warning, with_log_target
from datassay.data.tables.images import image_column, with_named_images
from datassay.data.tables.read import OF_SAMPLES, ROLES, Choices, join_targets, names_of
from datassay.data.tables.roles import check_names
from datassay.data.tables.sources import Glance, glance_at, table_source
from datassay.errors import DataError

SMALL = 10_000_000  # bytes of a table whose columns are read before all else
NAMING = "target, ids, source, trusted, groups, time, drop, keep, categorical and text"


@checks_arguments
def load(
    data: Any,
    *,
    target: Any = Loading.target,
    ids: Any = Loading.ids,
    source: Any = Loading.source,
    trusted: Any = Loading.trusted,
    groups: Any = Loading.groups,
    time: Any = Loading.time,
    task: str | None = Loading.task,
    val_fraction: float | None = Loading.val_fraction,
    seed: int = Loading.seed,
    drop: Any = Loading.drop,
    keep: Any = Loading.keep,
    categorical: Any = Loading.categorical,
    text: Any = Loading.text,
    log_target: bool = Loading.log_target,
    encode: Encode | None = None,
    val: Any = None,
    held_out: Any = None,
) -> tuple[SampleSet, SampleSet | Any]:
    """Load the training and the validation samples, and check them.

    A source without a validation part gives up round(val_fraction · n) samples, drawn with `seed`
    and in proportion to the classes; a class with a single sample stays in training. Of a table
    nothing is split off unless val_fraction asks for it: every row is then scored. Values are
    never rescaled, except 8- and 16-bit image files, which become [0, 1]. x keeps float32 and
    float64; whole numbers and float16 become float32 (float64 beyond 2^24). Texts become tf-idf
    weights of the 2,000 most frequent words of the training part, unless `encode` says otherwise.

    Args:
        data: one of: digits, breast_cancer, wine, iris, diabetes, moons, and the mixtures sd2,
            sd3, routable (a built-in name wins over a file of that name); a path to .npz (x, y,
            and x_val, y_val, ids, class_names, source, source_val if there), .csv or .tsv (either
            may be gzipped), .parquet, .jsonl, .ndjson, .feather or .arrow; a folder of IDX files,
            of class-named folders of images, that save_to_disk of Hugging Face's datasets wrote
            (one split), or that datassay apply made; a data frame of pandas, polars or Arrow, or a
            Dataset or DatasetDict of Hugging Face's datasets, of images, too; (x, y) or
            (x, y, x_val, y_val) arrays, where x of a pair may be a frame; a torch Dataset of
            (x, y), or (train, val) Datasets.
        target: the column of a table to predict, several as a,b; None: the one called target,
            label, y or class. Of several, all of numbers, or of 0 and 1 for several labels, a list,
            or their names with commas between; of arrays y is [n, k] then.
        ids: the column of a table that names its rows. For arrays and Datasets [n] strings or
            integers. None: the index of a pandas frame that does more than count the rows, else a
            column whose values name the rows, row numbers, or the paths of image files.
        source: the column of a table that says where each row came from (no feature then). For
            arrays and Datasets [n] strings or integers. None: unknown.
        trusted: the column of a table that says whose labels somebody knows to be right, of 0 and
            1, booleans, yes and no (no feature then). For arrays and Datasets [n] bool. None: none.
        groups: the column of a table whose equal values stay together (no feature then), such as a
            patient or a country: every held-out part, also those by which labels are judged and
            actions measured, holds whole groups. For arrays and Datasets [n] strings or integers.
            None: each sample by itself.
        time: the column of a table that says when each sample was taken, dates or numbers (no
            feature then): the latest are held out, and further parts are of one stretch of time
            each, tenths of all. For arrays and Datasets [n]. Instead of groups. None: no order.
        task: "classification" or "regression"; None: strings and booleans are labels, and so are
            whole numbers of at most 20 distinct values or that run 0..k−1 or 1..k with 10 samples
            a class; other numbers are quantities.
        val_fraction: of all samples, in [0, 1); 0: none, all samples are for training. None: 0 of a
            table (a file or a data frame), 0.2 of anything else. Unused where the source has a
            validation part.
        seed: of the split, 0 ≤ seed < 2^32.
        drop: columns of a table to leave out; they are neither features nor shown.
        keep: columns that are features though they number or name the rows, or never vary.
        categorical: columns read as categories, whatever they hold: one 0/1 column a value.
        text: columns read as texts.
        log_target: whether to predict the natural logarithm of a target that is a number, ln y, or
            ln(1 + y) where some are 0; targets and residuals are then in that unit.
        encode: makes numbers of images and texts, such as Backbone("lite0"); None: pixels of
            images, which then need one size, and word weights of texts.
        val: the validation samples, from a source of their own of the same kind: its columns are
            treated as those of `data`, its labels are among theirs. None: those of `data`.
        held_out: ids of the samples to hold out, compared as text, of a source without a validation
            part; None: val_fraction decides.

    Returns:
        (train, val): the same input shape and classes; within each, the source's order. val is
        None where nothing is held out.

    Raises:
        DataError: a setting is outside its rule, or the source is unknown, unreadable, malformed,
            not finite, too small, or has one class only; pickled data is refused.
    """
    options = {"drop": drop, "keep": keep, "categorical": categorical, "text": text}
    roles = {"trusted": trusted, "groups": groups, "time": time}
    choices = _make_choices(target, ids, source, task, val_fraction, seed, roles, **options)
    target_task = choices.task
    raw = _read_any(data, choices)
    if val is not None:
        raw = _add_val(raw, val, choices)
    if held_out is not None and raw.val is not None:
        raise DataError(
            "held_out takes samples from the training part; this source has a validation part of "
            "its own. Leave it out."
        )
    if val_fraction is None:
        val_fraction = HELD_OUT
        if raw.is_table:
            val_fraction = 0.0
    if log_target:
        raw = with_log_target(raw)
        target_task = "regression"
    train, val = sample_sets(
        raw, task=target_task, val_fraction=val_fraction, seed=seed, held_out=held_out,
        encode=encode or encode_plainly,
    )  # fmt: skip
    if not raw.is_table or train.is_classification or log_target:
        return train, val
    warnings = train.warnings + skew_warning(train.y)
    if val is not None:
        val = replace(val, warnings=warnings)
    return replace(train, warnings=warnings), val


def _make_choices(
    target: Any, ids: Any, source: Any, task: str | None,
    val_fraction: float | None, seed: int, roles: dict[str, Any], **columns: Any,
) -> Choices:  # fmt: skip
    """Return the user's choice of columns and their roles; raise for invalid values."""
    if task is not None:
        tasks = ("classification", "regression")
        rules.one_of("task", task, tasks, remedy="Leave it out.", error=DataError)
    if val_fraction is not None and (not is_fraction(val_fraction) or val_fraction == 1):
        raise DataError(
            "val_fraction must be at least 0, which holds nothing out, and below 1; got "
            f"{val_fraction!r}."
        )
    check_seed(seed)
    options: dict[str, Any] = {option: names_of(option, value) for option, value in columns.items()}
    if roles["groups"] is not None and roles["time"] is not None:
        raise DataError(
            "groups and time are two ways to hold samples out together; got both. Leave one out."
        )
    options["task"] = task
    return Choices(join_targets(target), ids, source, finds_ids=True, **roles, **options)


def check_named(data: str, *, log_target: bool, held_out: Any, **options: Any) -> Glance | None:
    """Raise if `load` would refuse path or settings; return a small table's summary, or None."""
    # held_out is checked where samples are split.
    if log_target:
        options["task"] = "regression"
    roles = {name: options.pop(name, None) for name in OF_SAMPLES}
    choices = _make_choices(roles=roles, **options)
    path, file_format = _find_format(data, choices)
    is_small = path.is_file() and path.stat().st_size <= SMALL
    if not (isinstance(file_format, TableFormat) and is_small):
        return None
    names = []
    if file_format.names is not None:
        names = file_format.names(path)
    if choices.targets(names):
        return None  # loading is as quick
    if names:
        check_names(names, str(path), choices)
    table = file_format.table(path, choices)
    if image_column(with_named_images(table, str(path), choices)):
        return None
    return glance_at(table, str(path), choices)


def _add_val(source: Source, val: Any, choices: Choices) -> Source:
    """Return a source whose validation part is the samples of `val`."""
    if source.is_table:
        return _add_val_table(source, val, choices)
    rule = "val must be one set of samples, of the kind of data; it is a"
    if _is_table(val):
        raise DataError(f"{rule} table.")
    val_source = _read_any(val, Choices())
    if val_source.val is not None:
        raise DataError(f"{rule} training and a validation part.")
    if val_source.class_names != source.class_names and val_source.class_names:
        raise DataError(
            f"val must have the class names of data, in their order; it has "
            f"{', '.join(val_source.class_names[:10])}."
        )
    return replace(source, val=val_source.train)


def _is_table(data: Any) -> bool:
    """Return whether data are a table, in memory or in a file."""
    if isinstance(data, str | Path):
        return data not in BUILTINS and existing_format(data)[1].is_table
    return frame_table(data) is not None


def _add_val_table(source: Source, val: Any, choices: Choices) -> Source:
    """Return a table's source whose validation part is the rows of another table, `val`."""
    path = Path("val")
    table = None
    if not isinstance(val, str | Path):
        table = frame_table(val)
    elif val not in BUILTINS:
        path, file_format = existing_format(val)
        if isinstance(file_format, TableFormat):
            table = file_format.table(path, choices)
    if table is None:
        kinds = ", ".join(suffixes(of_tables=True))
        raise DataError(f"val must be a table as data is ({kinds}); got {str(val)[:80]!r}.")
    read_as = {c.name: c.read_as for c in source.columns if c.name in table.column_names}
    features = []
    if source.preparation is not None:
        features = [c.name for c in source.preparation.columns]
    target = next(c.name for c in source.columns if c.read_as == "target")
    ids = next((name for name, role in read_as.items() if role == "ids"), None)
    texts = tuple(name for name, role in read_as.items() if role == "text")
    keep = tuple(name for name in features if name in read_as)
    earlier = {c.name: c for c in source.columns}
    left_out = tuple(name for name, role in read_as.items() if role == "left out")
    choices = replace(choices, target=target, keep=keep, text=texts, categorical=(), drop=left_out)
    choices = replace(choices, ids=choices.ids or ids, finds_ids=False, earlier=earlier)
    val_source = table_source(table, str(path), choices)
    val_part = val_source.train
    warnings = tuple(f"val: {text}" for text in val_source.warnings)
    if source.preparation is not None and val_part.rows is not None:
        val_part = replace(val_part, x=source.preparation.transform(val_part.rows))
    return replace(source, val=val_part, warnings=source.warnings + warnings)


def _read_any(data: Any, choices: Choices) -> Source:
    """Return the source of data of any kind: a path, a frame, arrays or datasets."""
    if isinstance(data, str | Path):
        return _read_named(data, choices)
    if isinstance(data, dict) and all(hasattr(split, "with_format") for split in data.values()):
        return _read_parts(data, choices)
    frame = frame_table(data)
    if frame is not None:
        if choices.ids is None:
            check_index(frame)
        return table_source(frame, "data", choices)
    if choices.any:
        raise DataError(
            f"{NAMING} name columns of a table; got a {type(data).__name__}. Make a data frame of "
            "it, or pass arrays: the targets as y, ids and source as arrays."
        )
    read = read_in_memory(data, choices.ids, choices.source)
    if read is None:
        raise DataError(
            "data must be a built-in name, a path, a data frame, (x, y) arrays or a Dataset with "
            f"__len__ and __getitem__; got a {type(data).__name__}. Pass arrays as a pair (x, y), "
            "and a DataLoader as its .dataset."
        )
    roles = {name: getattr(choices, name) for name in OF_SAMPLES}
    return replace(read, train=add_arrays(read.train, **roles))


def _read_parts(data: dict[str, Any], choices: Choices) -> Source:
    """Return the source of a Hugging Face DatasetDict: its training and held-out parts."""
    parts = parts_among(data)
    if not parts:
        raise DataError(
            f"a DatasetDict must have a part called train; it has {', '.join(data)[:200]}. Pass "
            "one of them, as data[name]."
        )
    read = _read_any(data[parts[0]], choices)
    if len(parts) == 1:
        return read
    return _add_val_table(read, data[parts[1]], choices)


def _read_named(data: str | Path, choices: Choices) -> Source:
    """Return the source that a path or a built-in name means."""
    path, file_format = _find_format(data, choices)
    if file_format is None:
        return BUILTINS[str(data)]()
    return file_format.source(path, choices)


def _find_format(data: str | Path, choices: Choices) -> tuple[Path, Format | TableFormat | None]:
    """Return the path and its format; None as the format of built-in data."""
    if data in BUILTINS:
        path = Path(data)
        file_format = None
    else:
        path, file_format = existing_format(data)
    has_roles = any(getattr(choices, role) is not None for role in ROLES)
    if (choices.any or has_roles) and not isinstance(file_format, TableFormat):
        kinds = ", ".join(suffixes(of_tables=True))
        raise DataError(
            f"{NAMING} name columns of a table ({kinds}); {data} is none. Leave them out."
        )
    return path, file_format


def existing_format(data: str | Path) -> tuple[Path, Format | TableFormat]:
    """Return the file or folder to read and its format; raise if it does not exist."""
    try:
        path = Path(data).expanduser()
    except RuntimeError as error:
        raise DataError(
            f"data must be a built-in name or an existing path; {str(data)!r} names a home folder "
            "that is not known. Write the path in full."
        ) from error
    if not str(data) or not os.path.exists(path):  # Path.exists raises on a long name
        raise DataError(
            f"data must be a built-in name ({', '.join(BUILTINS)}) or an existing path; got "
            f"{str(data)!r}. Check the spelling."
        )
    return known_format(path)


def original(data: str | Path, choices: Choices, *, may_link: bool = True) -> Original:
    """Return data as stored, to be written with other labels; raise where `load` would."""
    # may_link: whether files that do not change may be given back as second names of the same file.
    if data in BUILTINS:
        return original_builtin(str(data))
    path, file_format = existing_format(data)
    return file_format.original(path, choices, may_link=may_link)
