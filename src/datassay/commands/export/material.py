"""What an export is made of: a finished run and, read where they are needed, its samples."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from datassay.commands.finished import FinishedRun, check_columns, index_rows, sets_of
from datassay.data.pictures import Pictures
from datassay.errors import DataError
from datassay.models.names import asked_encoder
from datassay.report.drawing import draw, shown_texts

if TYPE_CHECKING:
    from datassay.data.samples import SampleSet

Parts = dict[str, pa.Table | str | Callable[[Path], object]]
LARGEST_SIDE = 1024  # pixels of an image that is written

# Columns of scores that an export of single labels needs.
OF_LABELS = ("is_issue", "wrong_probability", "suggested_label")


@dataclass(frozen=True)
class Exported:
    """Files for another tool.

    Attributes:
        parts: file name → what to write.
        opening: how the tool opens them, in words.
    """

    parts: Parts
    opening: str


@dataclass(frozen=True)
class Export:
    """One tool that a run can be exported to; a module of this folder or of another package.

    Attributes:
        name: as `--to` takes it.
        help: the tool and what it gets, one sentence.
        export: the files, from a finished run.
    """

    name: str
    help: str
    export: "Callable[[Material], Exported]"


@dataclass(frozen=True)
class Material:
    """A finished run, ready to be exported.

    Attributes:
        run: of the folder that was named.
        out: where the files will go.
        data: where the run's data are now; None: where they were.
        top: samples, the most suspect first; None: those to review.
    """

    run: FinishedRun
    out: Path
    data: str | None = None
    top: int | None = None

    @property
    def scores(self) -> pa.Table:
        """One row per training sample."""
        return self.run.scores

    @property
    def name(self) -> str:
        """The name of the data."""
        return str(self._facts.get("Data", "data")).partition(":")[0]

    @property
    def made_by(self) -> str:
        """The version of datassay that scored the samples."""
        return f"datassay {self._facts.get('Version', '')}".strip()

    @property
    def given(self) -> pa.ChunkedArray:
        """[n], the given labels: names of classes, or targets."""
        has_names = "class_name" in self.scores.column_names
        return self.scores["class_name" if has_names else "label"]

    @cached_property
    def samples(self) -> "SampleSet":
        """The training samples as they are shown, in the order of the scores."""
        return self._check_order(*sets_of(self.run, self.data, index_rows))[0]

    @cached_property
    def embedded(self) -> "tuple[SampleSet, SampleSet | None]":
        """(train, val) with the inputs that the run saw as x."""
        name = asked_encoder(str(self._facts.get("Model", "")).partition(", ")[0])
        encode: Any = None
        if name:
            from datassay.collect.backbone import Backbone

            encode = Backbone(name)
        return self._check_order(*sets_of(self.run, self.data, encode))

    @property
    def _facts(self) -> dict[str, Any]:
        return self.run.summary.get("facts", {})

    def _check_order(
        self, train: "SampleSet", val: "SampleSet | None"
    ) -> "tuple[SampleSet, SampleSet | None]":
        """Return both sets; raise if the training ids are not in the order of scores.parquet."""
        if train.ids.tolist() != self.scores["id"].to_pylist():
            raise DataError(
                f"{self.run.folder} must have a score for each training sample, in their order; "
                "ids differ. Run again."
            )
        return train, val


def image_paths(samples: "SampleSet") -> list[Path] | None:
    """Return each image's file, [n]; None if they are arrays, in a table, or missing."""
    files = []
    if isinstance(samples.images, Pictures):
        files = samples.images.files
    paths = [file for file in files if isinstance(file, Path)]
    if paths and len(paths) == len(files):
        return paths
    return None


def images(samples: "SampleSet", positions: Sequence[int]) -> list[bytes]:
    """Return the samples at these positions as PNG files' bytes; [] if they are no images."""
    drawn = draw(samples, np.asarray(positions, int), LARGEST_SIDE)
    encoded = [drawing.image.partition(",")[2] for drawing in drawn]
    if not all(encoded):
        return []
    return [base64.b64decode(text) for text in encoded]


def image_files(
    samples: "SampleSet", positions: Sequence[int]
) -> tuple[list[str], dict[str, Callable[[Path], object]]]:
    """Return names of images to write, and what writes each.

    Args:
        samples: the whole set; of arrays.
        positions: [m], which of them.

    Returns:
        [m] names, and name → what writes that file.
    """

    def writer(png: bytes) -> Callable[[Path], object]:
        return lambda path: path.write_bytes(png)

    names = [f"image-{position}.png" for position in positions]
    contents = images(samples, positions)
    return names, dict(zip(names, map(writer, contents), strict=True))


def own_columns(samples: "SampleSet") -> dict[str, Any]:
    """Return what a viewer shows of a sample: image (PNG), text, or the columns of the table.

    Args:
        samples: [n].

    Returns:
        Column name → [n] values.
    """
    pictures = images(samples, range(len(samples))) if samples.kind == "image" else []
    if pictures:
        return {"image": pa.array([{"bytes": png} for png in pictures])}
    texts = shown_texts(samples)
    if texts is not None:
        return {"text": pa.array([str(text) for text in texts])}
    rows = samples.used_rows
    if rows is not None:
        return {name: rows[name] for name in rows.column_names}
    return {name: pa.array(values) for name, values in plain_columns(samples).items()}


def plain_columns(samples: "SampleSet") -> dict[str, np.ndarray]:
    """Return feature name → values [n]; features without names are called x0, x1, …."""
    flat = samples.x.reshape(len(samples), -1)
    names = samples.feature_names or [f"x{j}" for j in range(flat.shape[1])]
    return dict(zip(names, flat.T, strict=True))


def single_labels(material: Material, tool: str) -> None:
    """Raise if samples have several labels or targets, or scores say nothing of labels.

    Raises:
        DataError: the run has such.
    """
    if pa.types.is_list(material.given.type):
        raise DataError(
            f"{tool} must have one label per sample; {material.run.folder} is about several. "
            "Export to croissant or embedding-atlas."
        )
    check_columns(material.run.folder, material.scores, OF_LABELS, f" for {tool}")
