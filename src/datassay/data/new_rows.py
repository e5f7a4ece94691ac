"""What new rows must be for a fitted model, stored with it: they become x as the training did."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datassay.data.assemble import Encode, check_sample_names, encode_plainly
from datassay.data.format import TableFormat
from datassay.data.formats.npz import inputs_of
from datassay.data.load import existing_format
from datassay.data.memory.frames import frame_table, row_ids
from datassay.data.pictures import Pictures
from datassay.data.samples import OF_EACH, Column, Encoding, SampleSet
from datassay.data.source import SourcePart, to_numpy
from datassay.data.strings import Texts
from datassay.data.synthetic.builtin import BUILTINS
from datassay.data.tables.columns import read_column
from datassay.data.tables.preparation import FittedColumns, refuse
from datassay.data.tables.read import Choices, abridge
from datassay.data.tables.sources import join_texts
from datassay.data.tables.sources import plain_values as plain_values
from datassay.data.tables.stored import describe_treatment, describe_unseen, restore_treatment
from datassay.data.text import weighed_words
from datassay.errors import DataError
from datassay.optional import coalesce, map_optional
from datassay.results import result

AS_IT_IS = ("as it is", "0 or 1")  # of columns that arrays may stand for


@result
class RowFormat:
    """What new rows must be, and how they become x.

    Attributes:
        example: two samples with made-up values, but the training's shape, classes, columns, fitted
            treatment and words.
    """

    example: SampleSet

    @property
    def target(self) -> str:
        """The name of what is predicted: the target's column, or its logarithm, "ln(…)"."""
        names = (c.note if c.note[:3] == "ln(" else c.name for c in self._columns("target"))
        return next(names, "target")

    def samples(
        self, data: Any, *, ids: str | None = None, encode: Encode | None = None
    ) -> SampleSet:
        """Return new rows as samples; their targets, which are not known, are 0.

        Args:
            data: a path or a built-in name, a frame of any library, an array [m, ...], or samples.
            ids: the column of a table that names its rows; None: as the training had it, else the
                rows are numbered.
            encode: gives x of images or texts where the training had embeddings.

        Returns:
            [m] samples; their warnings say which categories are new.

        Raises:
            DataError: columns are absent or of another kind, or samples have another shape.
        """
        if isinstance(data, SampleSet):
            return self._check_shape(data)
        rows = _read_rows(data, ids)
        name = "rows"
        if isinstance(data, str | Path):
            name = str(data)[:80]
        if not len(rows.x if isinstance(rows, SourcePart) else rows):
            raise DataError(f"{name} must hold at least one row; it has none. Add rows.")
        if not isinstance(rows, SourcePart):
            samples = self._read_table(rows, ids)
        elif ids is None:
            samples = self._read_part(rows)
        else:
            raise DataError(f"ids must name a column of a table; {name} is none. Leave it out.")
        return self._check_shape(self._encode(samples, encode))

    def _columns(self, role: str) -> list[Column]:
        """Return the training's columns that were read in a role, such as "text"."""
        return [column for column in self.example.columns if column.read_as == role]

    def _read_table(self, table: pa.Table, ids: str | None) -> SampleSet:
        """Return a table's rows as samples, each column prepared as in the training."""
        table, index_column = row_ids(table)
        texts = [column.name for column in self._columns("text")]
        absent = [name for name in texts if name not in table.column_names]
        if absent:
            raise DataError(
                f"rows must have the columns of the training data; they have no {abridge(absent)}. "
                f"Their columns are {abridge(table.column_names)}."
            )
        warnings = ()
        fitted = self.example.preparation
        if fitted is not None:
            assert isinstance(fitted, FittedColumns)
            x = fitted.transform(table)
            warnings = tuple(describe_unseen(fitted, table))
        elif texts:
            x = np.zeros((len(table), 0))
        else:
            x = self._read_numbers(table)
        id_columns = [c.name for c in self._columns("ids") if c.name in table.column_names]
        id_column = ids or next(iter(id_columns), None) or index_column
        if id_column is not None and id_column not in table.column_names:
            raise DataError(f"ids must name a column; the rows have {abridge(table.column_names)}.")
        row_names = None
        if id_column is not None:
            read = read_column(table[id_column], id_column, Choices(ids=id_column))
            refuse([read], "rows")
            row_names = plain_values(read)
        joined = self._join_columns(table, texts)
        return self._make_samples(SourcePart(x, np.zeros(len(x)), row_names, joined), warnings)

    def _read_numbers(self, table: pa.Table) -> np.ndarray:
        """Return the columns named as the training's features, as numbers [m, features]."""
        shape = self.example.input_shape
        names = self.example.feature_names or tuple(f"x{i}" for i in range(shape[0]))
        if len(shape) != 1 or not set(names) <= set(table.column_names):
            raise DataError(
                f"rows must be arrays of shape {shape} as in training, or a table with the columns "
                f"{abridge(names)}; it has {abridge(table.column_names)}."
            )
        read = [read_column(table[name], name, Choices(keep=(name,))) for name in names]
        refuse(read, "rows")
        bad = [c.column.name for c in read if c.values is None or c.column.missing]
        if bad:
            raise DataError(
                f"columns must hold numbers, none missing, as in training; {abridge(bad)} does not."
            )
        return np.stack([np.asarray(c.values, np.float64) for c in read], 1)

    def _join_columns(self, table: pa.Table, names: list[str]) -> Texts | None:
        """Return the texts of the named columns, joined for each row; None without columns."""
        read = [read_column(table[name], name, Choices(text=(name,))) for name in names]
        refuse(read, "rows")
        no_words = pa.array([""] * len(table), pa.large_string())
        return join_texts([coalesce(c.words, no_words) for c in read])

    def _read_part(self, raw: SourcePart) -> SampleSet:
        """Return new arrays as a set; raise if the training was a table with prepared columns."""
        fitted = self.example.preparation
        columns = ()
        if fitted is not None:
            columns = fitted.columns
        prepared_columns = [c for c in columns if c.treatment not in AS_IT_IS]
        if prepared_columns:
            raise DataError(
                f"rows must be a table with the columns used in training, since those such as "
                f"{prepared_columns[0].name!r} were made numbers of; got an array."
            )
        return self._make_samples(raw, ())

    def _make_samples(self, raw: SourcePart, warnings: tuple[str, ...]) -> SampleSet:
        """Return new rows as a SampleSet with targets of 0."""
        n = len(raw.x)
        reference = self.example
        x = raw.x
        texts = raw.texts
        if x.dtype.kind in "UO" and x.ndim == 1:
            texts = Texts(pa.array(x.tolist(), pa.large_string()))
            x = np.zeros((n, 0))
        if x.dtype.kind not in "biuf" or x.ndim < 2:
            raise DataError(
                f"rows must be [m, ...] numbers, one row each; got {x.dtype} in shape {x.shape}."
            )
        if raw.ids is None:
            ids = np.arange(n)
        else:
            ids = check_sample_names(raw.ids, "ids")
        return SampleSet(
            x=x, y=np.zeros(n), ids=ids, kind=reference.kind, texts=texts, images=raw.images,
            feature_names=reference.feature_names, warnings=warnings,
        )  # fmt: skip

    def _encode(self, samples: SampleSet, encode: Encode | None) -> SampleSet:
        """Return samples with x computed from images or texts by the training's encoder."""
        encoding = self.example.encoding
        if encoding is not None and encoding.name:
            assert encode is not None
            encoded, _ = encode(samples, None)
            if encoded.encoding is None or encoded.encoding.digest != encoding.digest:
                raise DataError(
                    f"the encoder {encoding.name} must be the one of the training, whose weights "
                    f"have the digest {encoding.digest[:16]}; this one has others. Install that."
                )
            return encoded
        if encoding is not None and encoding.word_weights is not None:
            if samples.texts is None:
                raise DataError("rows must be texts as in training; got numbers.")
            words = self.example.feature_names[-encoding.width :]
            return replace(samples, x=weighed_words(samples, words, encoding.word_weights))
        if isinstance(samples.images, Pictures):
            return encode_plainly(samples, None)[0]
        return samples

    def _check_shape(self, samples: SampleSet) -> SampleSet:
        """Return samples with x of the training's dtype; raise if the shape differs."""
        shape = self.example.input_shape
        if samples.input_shape != shape:
            raise DataError(
                f"rows must have the shape that the model was fitted to, {shape}; got "
                f"{samples.input_shape}. Give samples like those of the training."
            )
        return replace(samples, x=samples.x.astype(self.example.x.dtype, copy=False))

    def to_json(self) -> dict[str, Any]:
        """Return the format as JSON values, which `from_json` reads."""
        reference = self.example
        fields = None
        if reference.encoding is not None:
            weights = reference.encoding.word_weights
            if weights is not None:
                weights = weights.tolist()
            fields = asdict(reference.encoding) | {"word_weights": weights}
        fitted = reference.preparation
        return {
            "name": reference.name,
            "shape": list(reference.input_shape),
            "dtype": str(reference.x.dtype),
            "kind": reference.kind,
            "targets": list(reference.y.shape[1:]),
            "class_names": list(reference.class_names),
            "label_type": reference.label_type,
            "feature_names": list(reference.feature_names),
            "columns": [asdict(column) for column in reference.columns],
            "preparation": describe_treatment(fitted)
            if isinstance(fitted, FittedColumns)
            else None,
            "encoding": fields,
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> "RowFormat":
        """Rebuild a format from what `to_json` gave; raise ValueError if its parts disagree."""
        shape = tuple(map(int, stored["shape"]))
        dtype = np.dtype(stored["dtype"])
        if dtype.kind != "f":
            raise ValueError(f"x of {dtype}")
        names = tuple(map(str, stored["class_names"]))
        fields = stored["encoding"]
        y = np.arange(2.0).reshape(2, *[1] * len(stored["targets"]))
        encoding = None
        if fields is not None:
            weights = fields["word_weights"]
            if weights is not None:
                weights = np.array(weights, np.float64)
            encoding = Encoding(**fields | {"word_weights": weights})
        fitted = stored["preparation"]
        return RowFormat(
            SampleSet(
                x=np.stack([np.zeros(shape, dtype), np.ones(shape, dtype)]),
                y=np.arange(2) if names else np.tile(y, (1, *stored["targets"])),
                ids=np.arange(2),
                class_names=names,
                kind=stored["kind"],
                feature_names=tuple(map(str, stored["feature_names"])),
                encoding=encoding,
                name=str(stored["name"]),
                columns=tuple(Column(**column) for column in stored["columns"]),
                preparation=map_optional(restore_treatment, fitted),
                label_type=stored["label_type"],
            )
        )


def row_format(train: SampleSet) -> RowFormat:
    """Return the format of new rows for a model that was fitted to `train`."""
    x = np.zeros((2, *train.input_shape), train.x.dtype)
    x[1] = 1
    y = np.zeros((2, *train.y.shape[1:]), train.y.dtype)
    y[1] = 1
    absent: dict[str, Any] = dict.fromkeys({*OF_EACH, "rows"} - {"x", "y", "ids"})
    return RowFormat(replace(train, x=x, y=y, ids=np.arange(2), warnings=(), **absent))


def _read_rows(data: Any, ids: str | None) -> pa.Table | SourcePart:
    """Return new rows as a table, or else as arrays, images or texts."""
    if isinstance(data, str | Path):
        if data in BUILTINS:
            return BUILTINS[str(data)]().train
        path, file_format = existing_format(data)
        if isinstance(file_format, TableFormat):
            return file_format.table(path, Choices(ids=ids))
        if path.suffix.lower() == ".npz":
            return inputs_of(path)
        source = file_format.source(path, Choices())
        if source.val is not None:
            raise DataError(
                f"{path} must hold one set of samples; it holds a training and a validation part. "
                "Name the folder of one."
            )
        return source.train
    if (table := frame_table(data)) is not None:
        return table
    x = np.atleast_1d(to_numpy(data, "rows"))
    return SourcePart(x, np.zeros(len(x)))
