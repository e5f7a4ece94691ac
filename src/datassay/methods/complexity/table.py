"""Sample complexity of many network sizes; each finished size is kept, so a run can resume."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from datassay.methods.complexity.sample_complexity import (
    STEP,
    SampleComplexity,
    Search,
    check_search,
    check_size,
    search_samples,
)
from datassay.progress import Progress, part_of, silent
from datassay.results import Tabular, result
from datassay.rules import require
from datassay.store.results import ResultStore

KEPT = ("n_opt", "n_doubled", "trial_teacher", "trial_samples", "trial_probability", "trial_r2")


@result
class ComplexityTable(Tabular):
    """Sample complexity of several network sizes.

    Attributes:
        sizes: one result per size, in the order given.
        search: settings shared by all sizes.
    """

    sizes: tuple[SampleComplexity, ...]
    search: Search

    @property
    def n_inputs(self) -> Int[np.ndarray, " sizes"]:
        """Inputs d of each size."""
        return np.array([s.n_inputs for s in self.sizes])

    @property
    def width(self) -> Int[np.ndarray, " sizes"]:
        """Width m of each size."""
        return np.array([s.width for s in self.sizes])

    @property
    def n_opt(self) -> Float[np.ndarray, "sizes teachers"]:
        """Samples; infinite where a teacher was not recovered."""
        return np.stack([s.n_opt for s in self.sizes])

    @property
    def n_doubled(self) -> Float[np.ndarray, "sizes teachers"]:
        """Samples by doubling only (Algorithm 2); infinite where a teacher was not recovered."""
        return np.stack([s.n_doubled for s in self.sizes])

    def to_table(self) -> pa.Table:
        """Return a row per size and teacher: n_inputs, width, teacher, n_opt, n_doubled."""
        return pa.concat_tables([s.to_table() for s in self.sizes])


def complexity_table(
    sizes: Iterable[tuple[int, int]],
    search: Search | None = None,
    *,
    store: str | Path | None = None,
    progress: Progress = silent,
) -> ComplexityTable:
    """Compute the sample complexity of each network size.

    Args:
        sizes: (n_inputs, width) of each.
        search: settings of all sizes; None is `Search()`, as in S3.
        store: folder that keeps each finished size in one file; a later call with the same
            settings reads it, whichever other sizes it has. None keeps nothing.
        progress: called with (step, trials done, most trials) over all sizes.

    Returns:
        One result per size, in the order given; stored results equal computed ones.

    Raises:
        SettingError: sizes is empty, a setting is out of range, or the store holds results of
            other settings (the message names the difference).

    Cost: `sample_complexity` for each size not stored; an interruption loses at most one size.
    """
    sizes = list(dict.fromkeys((int(d), int(m)) for d, m in sizes))
    search = search or Search()
    require(sizes, "sizes", "name at least one (n_inputs, width)", "none")
    check_search(search)
    for d, m in sizes:
        check_size(d, m)
    result_store = ResultStore(store, search.manifest())
    most_trials = search.n_teachers * (search.n_doublings + search.depth)  # of one size
    rows = []
    for i, (d, m) in enumerate(sizes):
        name = f"inputs-{d}-width-{m}"
        if name not in result_store:
            report = part_of(progress, STEP, i * most_trials, len(sizes) * most_trials)
            result = search_samples(d, m, search, progress=report)
            result_store.put(name, {key: getattr(result, key) for key in KEPT})
        rows.append(SampleComplexity(d, m, **result_store.get(name), search=search))
        progress(STEP, (i + 1) * most_trials, len(sizes) * most_trials)
    return ComplexityTable(tuple(rows), search)
