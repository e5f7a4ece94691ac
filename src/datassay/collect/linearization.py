"""The linearised network: everything that one pass over the model collects for the scores."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.collect.engine.base import IN_PROCESS, Engine
from datassay.collect.form import Form
from datassay.data.samples import LabelType
from datassay.optional import select_rows
from datassay.results import short
from datassay.store.chunks import StoredFeatures

Features = Float[Tensor, "rows p"] | StoredFeatures


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, repr=False)
class Linearization:
    """A network's first-order model around its weights w₀, on n training and m other samples.

    Rows of the kernel or the features are grouped by sample: b rows each, b = k ("joint": one row
    an output) or b = 1 ("averaged": one row that all k outputs share). Exactly one of kernel and
    features is held, whichever is smaller.

    Attributes:
        outputs: f₀(X), [n, k], the model's output unit.
        targets: Y, [n, k], same unit; classes are one-hot, two classes with one output are {0, 1}.
        ids: [n], the samples' ids.
        labels: [n] class indices, or None for regression.
        class_names: the classes in index order; empty for regression.
        kernel: Θ = ΦΦᵀ, [n b, n b] float64, or None.
        features: Φ, [n b, p], or None. Those that a store holds and the memory does not are read
            from it in slices of rows (`StoredFeatures`).
        val_outputs: f₀ on the validation inputs, [m, k], or None without a validation set.
        val_kernel: Θ(X_val, X), [m b, n b], or None.
        val_features: [m b, p], or None.
        form: how it was collected and why: exact or projected, joint or averaged, precision.
        val_targets: of the validation samples, [m, k], as targets; None where they are not known.
        warnings: what the user should know about these numbers; empty when nothing.
        label_type: of the user's labels, which class_names are the words of.
        engine: where the scores' passes over the features are computed.
    """

    outputs: Float[Tensor, "n k"]
    targets: Float[Tensor, "n k"]
    ids: np.ndarray
    labels: np.ndarray | None
    class_names: tuple[str, ...]
    kernel: Float[Tensor, "rows rows"] | None
    features: Float[Tensor, "rows p"] | StoredFeatures | None
    val_outputs: Float[Tensor, "m k"] | None
    val_kernel: Float[Tensor, "val_rows rows"] | None
    val_features: Float[Tensor, "val_rows p"] | StoredFeatures | None
    form: Form
    warnings: tuple[str, ...] = ()
    val_targets: Float[Tensor, "m k"] | None = None
    label_type: LabelType = "string"
    engine: Engine = IN_PROCESS

    __repr__ = short

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def rows_per_sample(self) -> int:
        """b: k for joint outputs, 1 for averaged ones."""
        if self.form.outputs != "joint":
            return 1
        return self.outputs.shape[1]

    @property
    def residual(self) -> Float[Tensor, "n b c"]:
        """Y − f₀ in float64, as b rows per sample and c = k / b columns that share a row."""
        residual = (self.targets - self.outputs).double()
        return residual.reshape(len(self), self.rows_per_sample, -1)

    def average_outputs(self) -> "Linearization":
        """Return the linearisation with one kernel row per sample, averaged over outputs.

        Returns:
            Itself if it is so already; else with Θ_ij = (1/k) Σ_a Θ[(i,a),(j,a)], [n, n].
        """
        n = len(self)
        b = self.rows_per_sample
        if b == 1:
            return self
        form = replace(self.form, representation="kernel", outputs="averaged", n_rows=n)
        has_val = self.val_outputs is not None
        return replace(
            self,
            kernel=self._average(self.kernel, self.features),
            val_kernel=self._average(self.val_kernel, self.val_features) if has_val else None,
            features=None,
            val_features=None,
            form=form,
        )

    def _average(self, kernel: Tensor | None, features: Features | None) -> Tensor:
        """Return the kernel averaged over outputs, from a joint kernel or from features."""
        n = len(self)
        b = self.rows_per_sample
        if kernel is not None:
            blocks = kernel.reshape(-1, b, n, b)
            return blocks.diagonal(dim1=1, dim2=3).mean(-1)
        assert self.features is not None and features is not None
        # [samples, b p]: products of these are sums over the outputs.
        pair = (features, self.features)
        lhs, rhs = (f[0 : len(f)].double().reshape(-1, b * f.shape[1]) for f in pair)
        return lhs @ rhs.T / b

    def _rows(self, indices: np.ndarray) -> Tensor:
        """Return the rows, [s b], of the samples at these positions, [s]."""
        b = self.rows_per_sample
        return (torch.as_tensor(indices)[:, None] * b + torch.arange(b)).flatten()

    def subset(self, indices: np.ndarray) -> "Linearization":
        """Return the linearisation with only the training samples at `indices`.

        Args:
            indices: [s] positions.

        Returns:
            The smaller linearisation; the validation samples stay.
        """
        keep = torch.as_tensor(indices)
        rows = self._rows(indices)
        return replace(
            self,
            outputs=self.outputs[keep],
            targets=self.targets[keep],
            ids=self.ids[indices],
            labels=select_rows(self.labels, indices),
            kernel=None if self.kernel is None else self.kernel[rows][:, rows],
            features=_take_rows(self.features, rows),
            val_kernel=None if self.val_kernel is None else self.val_kernel[:, rows],
            form=replace(self.form, n_rows=len(rows)),
        )

    def held_out(self, indices: np.ndarray, val_idx: np.ndarray) -> "Linearization":
        """Make some of the training samples the validation samples, without collecting anew.

        Args:
            indices: [s] positions that stay training samples.
            val_idx: [m] positions of the new validation samples; the old ones are left out.

        Returns:
            The smaller linearisation.
        """
        rows = self._rows(indices)
        held_rows = self._rows(val_idx)
        return replace(
            self.subset(indices),
            val_outputs=self.outputs[val_idx],
            val_targets=self.targets[val_idx],
            val_kernel=None if self.kernel is None else self.kernel[held_rows][:, rows],
            val_features=_take_rows(self.features, held_rows),
        )

    def judged_on(self, val_idx: np.ndarray) -> "Linearization":
        """Return the linearisation with only the validation samples at positions val_idx, [m]."""
        rows = self._rows(val_idx)
        features = self.val_features
        return replace(
            self,
            val_outputs=select_rows(self.val_outputs, val_idx),
            val_targets=select_rows(self.val_targets, val_idx),
            val_kernel=select_rows(self.val_kernel, rows),
            val_features=_take_rows(features, rows),
        )


def _take_rows(features: Features | None, rows: Tensor) -> Tensor | None:
    if features is None:
        return None
    if isinstance(features, StoredFeatures):
        return features.take(rows)
    return features[rows]
