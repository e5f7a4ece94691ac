"""Models that commands wrote to files, read again to predict: an estimator that is fitted."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from torch import nn

from datassay.collect.backbone import Backbone
from datassay.data.arguments import checks_arguments
from datassay.data.new_rows import RowFormat
from datassay.data.samples import SampleSet
from datassay.data.targets import as_given
from datassay.errors import ModelError, SettingError
from datassay.methods.partition import block_model
from datassay.methods.partition.block_model import ROUTING, BlockModel, block_model_of
from datassay.methods.polynomial.surrogate import Surrogate, surrogate_of
from datassay.methods.weigh import network_file
from datassay.methods.weigh.network_file import FittedNetwork, fitted_network_of
from datassay.results import result
from datassay.rules import one_of
from datassay.store.folders import heal
from datassay.store.model_file import NAME, POLYNOMIAL, read_model, readable

COMMANDS = "partition, weigh or polynomial"


@result
class SavedModel:
    """A fitted model of a file, and what new rows must be for it.

    Attributes:
        model: of `datassay partition` a BlockModel, of `weigh` a FittedNetwork, of `polynomial` a
            Surrogate.
        rows: what new rows must be.
    """

    model: BlockModel | FittedNetwork | Surrogate
    rows: RowFormat

    def samples(self, data: Any, *, ids: str | None = None) -> SampleSet:
        """Read new rows as the training's were: the same columns, treatment and encoder.

        Args:
            data: a path, a built-in name, a frame of any library, an array [m, ...], or samples.
            ids: the column of a table that names its rows; None: as the training had it, else
                they are numbered.

        Returns:
            [m] samples with targets of 0; their warnings say which categories are new.

        Raises:
            DataError: columns are absent or of another kind, or samples have another shape.
        """
        encoding = self.rows.example.encoding
        encode = None
        if encoding is not None and encoding.name:
            encode = Backbone(encoding.name)
        return self.rows.samples(data, ids=ids, encode=encode)

    def outputs(self, data: Any, *, routing: str = "soft") -> Float[np.ndarray, "m k"]:
        """Return class probabilities (of a polynomial outputs fitted to 0 and 1), or targets.

        Args:
            data: as `samples` takes them.
            routing: of blocks, "soft" or "hard"; of other models "soft" alone.

        Returns:
            [m, k].

        Raises:
            DataError: as `samples`.
            SettingError: another routing.
        """
        one_of("routing", routing, ROUTING if isinstance(self.model, BlockModel) else ROUTING[:1])
        x = self.samples(data).x
        if isinstance(self.model, BlockModel):
            return self.model.outputs(x, routing=routing)
        return self.model.outputs(x)

    def predict_proba(self, data: Any, *, routing: str = "soft") -> Float[np.ndarray, "m k"]:
        """Return the probability of each class, in the order of `rows.example.class_names`.

        Args:
            data: as `samples` takes them.
            routing: as for `outputs`.

        Returns:
            [m, n_classes], rows sum to 1.

        Raises:
            ModelError: it predicts numbers, or it is a polynomial.
        """
        if not self.rows.example.is_classification or isinstance(self.model, Surrogate):
            raise ModelError("only blocks and networks of classes have probabilities; see outputs.")
        return self.outputs(data, routing=routing)

    def predict(self, data: Any, *, routing: str = "soft") -> np.ndarray:
        """Predict labels as the user gave them, or targets.

        Args:
            data: as `samples` takes them.
            routing: as for `outputs`.

        Returns:
            [m], or [m, k] of several targets.
        """
        return self._answers(self.outputs(data, routing=routing)).to_numpy(zero_copy_only=False)

    def table(self, data: SampleSet, *, routing: str = "soft") -> pa.Table:
        """Return one row per sample: id, the prediction, and the outputs behind it.

        Args:
            data: as `samples` read them.
            routing: as for `outputs`.

        Returns:
            id; predicted, or the target's name of numbers; block, where there are several; for
            classes probability_NAME of each, or output_NAME of a polynomial.
        """
        outputs = self.outputs(data, routing=routing)
        training = self.rows.example
        columns = {"id": pa.array(data.ids.tolist())}
        columns["predicted" if training.class_names else self.rows.target] = self._answers(outputs)
        if isinstance(self.model, BlockModel) and len(self.model.block) > 1:
            columns["block"] = pa.array(self.model.blocks(data.x))
        kind = "probability"
        if isinstance(self.model, Surrogate):
            kind = "output"
        has_classes = bool(training.class_names)  # else there are outputs, but no names
        for name, values in zip(training.class_names, outputs.T, strict=has_classes):
            columns[f"{kind}_{name}"] = pa.array(np.ascontiguousarray(values))
        return pa.table(columns)

    def _answers(self, outputs: np.ndarray) -> pa.Array:
        """Return predictions as the user has targets: labels as they were given, or numbers."""
        training = self.rows.example
        if training.class_names:
            return as_given(outputs.argmax(1), training.class_names, training.label_type)
        return pa.array((outputs if training.y.ndim > 1 else outputs[:, 0]).tolist())


@checks_arguments
def load_model(path: str | Path, *, model: str | nn.Module | None = None) -> SavedModel:
    """Read a model that `datassay partition`, `weigh` or `polynomial` wrote; no code is in it.

    Args:
        path: of the file, or of the folder of results that holds it.
        model: the network, or its name as for `build_model`, where `weigh` was given the user's own
            code: a file says no code to run. None: the built-in one that the file names.

    Returns:
        The model, ready to predict.

    Raises:
        ModelError: it is no such file, damaged, or of an earlier version.
        SettingError: a model is given for what is no network.
    """
    file = Path(path)
    if file.is_dir():
        heal(file)  # a killed command may have moved the model aside
        candidates = [file / name for name in (NAME, POLYNOMIAL) if (file / name).is_file()]
        if not candidates:
            raise ModelError(
                f"{path} must hold {NAME} or {POLYNOMIAL}; it holds neither. Name the folder that "
                f"datassay {COMMANDS} wrote."
            )
        file = candidates[0]
    with readable(file, COMMANDS):
        file_format, arrays, facts = read_model(file)
        if file_format == network_file.FORMAT:
            fitted = fitted_network_of(file_format, arrays, facts, model)
        else:
            model_of = block_model_of if file_format == block_model.FORMAT else surrogate_of
            fitted = model_of(file_format, arrays, facts)
    if model is not None and file_format != network_file.FORMAT:
        raise SettingError(f"model is for networks; {file} holds something else. Leave it out.")
    if fitted.rows is None:
        raise ModelError(
            f"{file} does not say what new rows must be: an earlier version wrote it. Fit again."
        )
    return SavedModel(fitted, fitted.rows)
