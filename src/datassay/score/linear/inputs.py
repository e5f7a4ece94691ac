"""The linearisation of a model that needs no network: linear in inputs and in Gaussian kernels."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from datassay.collect.collection import check_sets, network_targets
from datassay.collect.form import Form
from datassay.collect.linearization import Linearization
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.optional import drop_none

CENTRES = 512  # samples that the others' Gaussian kernels are with
PAIRS = 2000  # of samples, whose median distance is the kernel's width


def of_inputs(train: SampleSet, val: SampleSet | None = None, seed: int = 0) -> Linearization:
    """Linearise in inputs: features (x̃ / √d, kernels of x̃ with 512 samples, 1), x̃ scaled.

    Args:
        train: n samples; what follows the first axis of x is flattened to d.
        val: m validation samples, scaled as the training samples.
        seed: of the samples drawn.

    Returns:
        Features, n + m rows, with outputs 0: the ridge fit to them is kernel ridge regression by a
        linear and a Gaussian kernel, its width the median distance of two samples (Nyström).

    Raises:
        DataError: inputs are words, or the sets do not belong together.
    """
    sets, flat = flatten_inputs(train, val)
    scaler = StandardScaler().fit(flat[0])
    inputs = [np.asarray(scaler.transform(x_i)) for x_i in flat]
    x_i, x_j = inputs[0][np.random.default_rng(seed).integers(len(train), size=(2, PAIRS))]
    width = float(np.median(np.square(x_i - x_j).sum(1))) or 1.0
    count = min(CENTRES, len(train))
    kernels = Nystroem(gamma=1 / width, n_components=count, random_state=seed).fit(inputs[0])
    rows = [_feature_rows(x, kernels) for x in inputs]
    k = train.n_classes or train.y.reshape(len(train), -1).shape[1]
    targets = [network_targets(samples, k) for samples in sets]
    size = rows[0].numel() * 8.0
    form = Form(
        representation="features", outputs="averaged", projection=None, kind="coordinates",
        precision="float64", n_rows=len(train), n_features=rows[0].shape[1], n_outputs=k,
        n_parameters=rows[0].shape[1], chunk=len(train), jacobian_bytes=size, result_bytes=size,
        flops=0.0, reason="inputs and Gaussian kernels of them",
    )  # fmt: skip
    val_fields: dict[str, Any] = {"val_outputs": None, "val_features": None}
    if val is not None:
        val_fields = {
            "val_outputs": torch.zeros_like(targets[1]),
            "val_features": rows[1],
            "val_targets": targets[1],
        }
    return Linearization(
        outputs=torch.zeros_like(targets[0]),
        targets=targets[0],
        ids=train.ids,
        labels=train.y if train.is_classification else None,
        class_names=train.class_names,
        kernel=None,
        features=rows[0],
        val_kernel=None,
        form=form,
        label_type=train.label_type,
        **val_fields,
    )


def flatten_inputs(
    train: SampleSet, val: SampleSet | None
) -> tuple[list[SampleSet], list[Float[np.ndarray, "n d"]]]:
    """Return the sets that there are, and their inputs in rows; raise as `of_inputs` does."""
    check_sets(train, val)
    if train.x.dtype.kind not in "fiub":
        raise DataError(
            f"inputs must be numbers; these are {train.x.dtype}. Collect a network's features of "
            "them: collect(model, train, val)."
        )
    sets = drop_none(train, val)
    return sets, [samples.x.reshape(len(samples), -1).astype(np.float64) for samples in sets]


def _feature_rows(x: Float[np.ndarray, "n d"], kernels: Nystroem) -> Float[Tensor, "n p"]:
    parts = [x / x.shape[1] ** 0.5, kernels.transform(x), np.ones((len(x), 1))]
    return torch.from_numpy(np.hstack(parts))
