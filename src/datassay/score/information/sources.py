"""Which data source informs a task more: data set A for task B."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

from datassay.collect.linearization import Linearization
from datassay.errors import SettingError
from datassay.results import result
from datassay.score.compare.aggregate import Aggregate, aggregate
from datassay.score.information.groups import GroupInformation, group_information
from datassay.score.sample_information import SampleInformation, sample_information
from datassay.score.settings import Smoothing


@result
class SourceInformation:
    """Information from each source about the predictions on the task's inputs.

    Attributes:
        samples: information of each sample given all others, from every source.
        by_source: the same by source, with a test of the difference.
        whole: information of each source as a whole, left out together.
    """

    samples: SampleInformation
    by_source: Aggregate
    whole: GroupInformation


def source_information(
    lin: Linearization,
    source: Shaped[np.ndarray, " named"],
    *,
    sigma: float = Smoothing.sigma,
    seed: int = 0,
    **run: float | int | str,
) -> SourceInformation:
    """Functional information of the samples, and of the whole, of each source for one task.

    To learn what data set A tells about task B, collect on the samples of A, or of A and B
    together, with validation inputs of B: all information is about predictions on these.

    Args:
        lin: collected on samples of all sources, with validation inputs of the task.
        source: each training sample's source.
        sigma: σ, output unit.
        seed: of the bootstrap intervals.
        run: lr, steps, weight_decay, reduction and dynamics of `leave_one_out`.

    Returns:
        Nats by sample, summed up by source, and by source as a whole.

    Raises:
        SettingError: there are no validation inputs, fewer than two sources, not one source a
            sample, or a setting is out of range.

    Cost: one decomposition, shared; that of `sample_information` and `group_information`.
    Source: S1 §6, which proposes it after comparing sources on their own validation mix (Fig. 2a).
    """
    if lin.val_outputs is None:
        raise SettingError(
            "lin must have validation inputs of the task, as information about a task is about "
            "predictions on them; got none. Collect with a validation set."
        )
    if len(source) != len(lin) or len(np.unique(source)) < 2:
        raise SettingError(
            f"source must name one of at least 2 sources for each of {len(lin)} samples; got "
            f"{len(source)} names of {len(np.unique(source))} sources."
        )
    samples = sample_information(lin, sigma=sigma, **run)  # pyright: ignore[reportArgumentType]
    return SourceInformation(
        samples=samples,
        by_source=aggregate(samples.information, source, seed=seed),
        whole=group_information(lin, source, sigma=sigma, **run),  # pyright: ignore[reportArgumentType]
    )
