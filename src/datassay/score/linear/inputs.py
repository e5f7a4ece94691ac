"""The linearisation of a model that needs no network: linear in inputs and in Gaussian kernels."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import StandardScaler

from datassay.collect.collection import check_sets, network_targets
from datassay.collect.form import Form
from datassay.collect.linearization import Linearization
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.optional import drop_none

CENTRES = 512  # samples at which Gaussian kernels are centred
LONGEST = 1.2  # length of a row of scaled inputs, in median lengths
PAIRS = 2000  # of samples, whose median squared distance is the kernel's


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
    # The lists have the training samples first, then, where there are any, the validation samples.
    sets, inputs = flatten_inputs(train, val)
    scaled = _scale_inputs(inputs)
    x_i, x_j = scaled[0][np.random.default_rng(seed).integers(len(train), size=(2, PAIRS))]
    squared_width = float(np.median(np.square(x_i - x_j).sum(1))) or 1.0
    n_centres = min(CENTRES, len(train))
    kernels = Nystroem(gamma=1 / squared_width, n_components=n_centres, random_state=seed)
    kernels.fit(scaled[0])
    features = []  # of each set: x / √d, its kernels, 1
    for x in scaled:
        columns = [x / x.shape[1] ** 0.5, kernels.transform(x), np.ones((len(x), 1))]
        features.append(torch.from_numpy(np.hstack(columns)))
    k = train.n_classes or train.y.reshape(len(train), -1).shape[1]
    targets = [network_targets(samples, k) for samples in sets]
    n_bytes = features[0].numel() * 8.0
    p = features[0].shape[1]
    form = Form(
        representation="features", outputs="averaged", projection=None, kind="coordinates",
        precision="float64", n_rows=len(train), n_features=p, n_outputs=k, n_parameters=p,
        chunk=len(train), jacobian_bytes=n_bytes, result_bytes=n_bytes, flops=0.0,
        reason="inputs and Gaussian kernels of them",
    )  # fmt: skip
    val_fields: dict[str, Any] = {"val_outputs": None, "val_features": None}
    if val is not None:
        val_fields = {
            "val_outputs": torch.zeros_like(targets[1]),
            "val_features": features[1],
            "val_targets": targets[1],
        }
    return Linearization(
        outputs=torch.zeros_like(targets[0]),
        targets=targets[0],
        ids=train.ids,
        labels=train.class_labels,
        class_names=train.class_names,
        kernel=None,
        features=features[0],
        val_kernel=None,
        form=form,
        label_type=train.label_type,
        **val_fields,
    )


def _scale_inputs(inputs: list[Float[np.ndarray, "n d"]]) -> list[Float[np.ndarray, "n d"]]:
    """Return inputs with the training samples' means 0 and deviations 1, long rows shortened.

    Columns that are seldom not constant make single rows long. Of such rows the linear part learns
    little but them: a wrong label there seemed to help the others. LONGEST times the median length
    is left.
    """
    scaler = StandardScaler().fit(inputs[0])
    scaled = [np.asarray(scaler.transform(x)) for x in inputs]
    lengths = [np.linalg.norm(x, axis=1, keepdims=True) for x in scaled]
    longest = LONGEST * np.median(lengths[0])
    return [
        x * np.divide(longest, length, out=np.ones_like(length), where=length > longest)
        for x, length in zip(scaled, lengths, strict=True)
    ]


def flatten_inputs(
    train: SampleSet, val: SampleSet | None
) -> tuple[list[SampleSet], list[Float[np.ndarray, "n d"]]]:
    """Return the sets that are given, and each one's inputs as float64 rows [n, d]."""
    check_sets(train, val)
    if train.x.dtype.kind not in "fiub":
        raise DataError(
            f"inputs must be numbers; these are {train.x.dtype}. Collect a network's features of "
            "them: collect(model, train, val)."
        )
    sets = drop_none(train, val)
    return sets, [samples.x.reshape(len(samples), -1).astype(np.float64) for samples in sets]
