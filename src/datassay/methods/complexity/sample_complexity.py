"""Samples that a student network needs to recover its teacher, by doubling and bisection."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from datassay.methods.complexity.laws import median
from datassay.methods.complexity.settings import Recovery
from datassay.methods.complexity.teacher_student import StudentRecipe, check_recipe
from datassay.methods.complexity.training_procedure import Teachers, student_losses
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.rules import at_least, fraction, require

STEP = "sample complexity"


@dataclass(frozen=True)
class Search(Recovery):
    """Settings of the search for the smallest N at which enough students recover their teacher.

    Attributes:
        recipe: how students are trained and tested.
    """

    recipe: StudentRecipe = field(default_factory=StudentRecipe)

    @property
    def n_doublings(self) -> int:
        """How many N the doubling tries: 1, 2, 4, ... up to max_samples."""
        return self.max_samples.bit_length()

    def manifest(self) -> dict[str, object]:
        """Return everything that determines a result, as plain JSON values."""
        values = asdict(self)
        return {**values.pop("recipe"), **values}


@result
class SampleComplexity(Tabular):
    """Sample complexity of one network size.

    Attributes:
        n_inputs: d.
        width: m.
        n_opt: [teachers], samples by Algorithm 4; infinite where the teacher was not recovered
            from max_samples or fewer.
        n_doubled: [teachers], samples by Algorithm 2: the power of two at which the doubling
            stopped; infinite where not recovered.
        trial_teacher: [trials], teacher of each trial, in the order computed.
        trial_samples: [trials], N of each trial.
        trial_probability: [trials], share of the students that recovered the teacher.
        trial_r2: [trials], mean R² of the students on fresh samples (Algorithm 3), −inf for N = 1.
        search: settings of the search.
    """

    n_inputs: int
    width: int
    n_opt: Float[np.ndarray, " teachers"]
    n_doubled: Float[np.ndarray, " teachers"]
    trial_teacher: Int[np.ndarray, " trials"]
    trial_samples: Int[np.ndarray, " trials"]
    trial_probability: Float[np.ndarray, " trials"]
    trial_r2: Float[np.ndarray, " trials"]
    search: Search

    @property
    def median(self) -> float:
        """Median of n_opt over the teachers; infinite if half of them were not recovered."""
        return float(median(self.n_opt[None])[0])

    @property
    def n_not_recovered(self) -> int:
        """Number of teachers not recovered from max_samples."""
        return int(np.isinf(self.n_opt).sum())

    def to_table(self) -> pa.Table:
        """Return a row per teacher: n_inputs, width, n_opt, n_doubled (null: not recovered)."""

        def or_null(values: np.ndarray) -> pa.Array:
            return pa.array([int(v) if np.isfinite(v) else None for v in values], pa.int64())

        n = len(self.n_opt)
        return pa.table({
            "n_inputs": np.full(n, self.n_inputs),
            "width": np.full(n, self.width),
            "teacher": np.arange(n),
            "n_opt": or_null(self.n_opt),
            "n_doubled": or_null(self.n_doubled),
        })


def sample_complexity(
    n_inputs: int,
    width: int,
    *,
    n_teachers: int = Recovery.n_teachers,
    n_students: int = Recovery.n_students,
    depth: int = Recovery.depth,
    max_samples: int = Recovery.max_samples,
    recovery_r2: float = Recovery.recovery_r2,
    probability: float = Recovery.probability,
    recipe: StudentRecipe | None = None,
    seed: int = Recovery.seed,
    progress: Progress = silent,
) -> SampleComplexity:
    """Return the fewest samples from which students recover each teacher of one size.

    Args:
        n_inputs: d.
        width: m, of teachers and students.
        n_teachers: independent teacher networks.
        n_students: T, random starts per teacher and N.
        depth: bisections after the doubling; 0 is Algorithm 2.
        max_samples: largest N tried; the doubling stops there.
        recovery_r2: R² on fresh samples above which a student has recovered its teacher.
        probability: share of students that must recover.
        recipe: how students are trained and tested; None is Adam, step 5e-3, 300 epochs.
        seed: random seed.
        progress: called with (step, trials done, most trials).

    Returns:
        N for each teacher, and every trial.

    Raises:
        SettingError: a setting is out of range.

    Cost: about 5 n_opt d m n_teachers n_students epochs · 4 operations.
    Source: S3 Algorithms 2 and 4. Deviations: Adam; a cap on N; a student has recovered when
    1 − R² < 1 − recovery_r2 (S3 prints 'loss < L'); N_low starts at ⌊N_high/2⌋ (S3 prints
    N_low/2); the bisection stops where N_high − N_low is 1.
    """
    recipe = recipe or StudentRecipe()
    search = Search(
        n_teachers, n_students, depth, max_samples, recovery_r2, probability, seed, recipe
    )
    return search_samples(n_inputs, width, search, progress=progress)


def search_samples(
    n_inputs: int, width: int, search: Search, *, progress: Progress = silent
) -> SampleComplexity:
    """Run `sample_complexity` with its settings in one object."""
    check_search(search)
    check_size(n_inputs, width)
    teachers = Teachers(n_inputs, width, search.seed)

    def trial(group: list[int], n: int) -> tuple[np.ndarray, np.ndarray]:
        loss = student_losses(teachers, group, n, search.n_students, search.recipe)
        return (loss < 1 - search.recovery_r2).mean(1), (1 - loss).mean(1)

    doubled, opt, trials = bisect(trial, search, progress)
    teacher, samples, share, r2 = (np.array(column) for column in zip(*trials, strict=True))
    return SampleComplexity(n_inputs, width, opt, doubled, teacher, samples, share, r2, search)


def recovery_r2(
    n_inputs: int,
    width: int,
    n_samples: int,
    *,
    n_teachers: int = Recovery.n_teachers,
    n_students: int = Recovery.n_students,
    recipe: StudentRecipe | None = None,
    seed: int = Recovery.seed,
) -> Float[np.ndarray, "teachers T"]:
    """Return the R² of every student on fresh samples: its mean is the recovery R².

    Args:
        n_inputs: d.
        width: m.
        n_samples: N.
        n_teachers: independent teacher networks.
        n_students: T, random starts per teacher.
        recipe: how students are trained and tested; None is Adam, step 5e-3, 300 epochs.
        seed: random seed.

    Returns:
        R², at most 1, unbounded below; −inf where the test set is one sample.

    Raises:
        SettingError: a setting is out of range.

    Source: S3 Algorithm 3. Deviation: every student's, not only their mean.
    """
    search = Search(n_teachers, n_students, recipe=recipe or StudentRecipe(), seed=seed)
    check_search(search)
    check_size(n_inputs, width)
    at_least("n_samples", n_samples, 1)
    teachers = Teachers(n_inputs, width, seed)
    return 1 - student_losses(teachers, range(n_teachers), n_samples, n_students, search.recipe)


Trial = Callable[[list[int], int], tuple[np.ndarray, np.ndarray]]
TrialRow = tuple[int, int, float, float]


def bisect(
    trial: Trial, search: Search, progress: Progress = silent
) -> tuple[Float[np.ndarray, " teachers"], Float[np.ndarray, " teachers"], list[TrialRow]]:
    """Run Algorithms 2 and 4 on any `trial`: (teachers, N) → share recovered and mean R² of each.

    Returns:
        N of the doubling and N after the bisection, infinite where not recovered, and the trials.
    """
    doubled = np.full(search.n_teachers, np.inf)
    trials: list[TrialRow] = []
    total = search.n_teachers * (search.n_doublings + search.depth)

    def recover(teachers: list[int], n: int) -> np.ndarray:  # [teachers], whether each is
        share, r2 = trial(teachers, n)
        trials.extend(zip(teachers, [n] * len(teachers), share.tolist(), r2.tolist(), strict=True))
        return share >= search.probability

    for i in range(search.n_doublings):
        pending = np.flatnonzero(np.isinf(doubled))
        if len(pending):
            is_recovered = recover(pending.tolist(), 2**i)
            doubled[pending[is_recovered]] = 2**i
        progress(STEP, search.n_teachers * (i + 1), total)
    high = {k: int(n) for k, n in enumerate(doubled) if np.isfinite(n)}
    low = {k: n // 2 for k, n in high.items()}
    for i in range(search.depth):
        for n, teachers in _group_by_middle(low, high).items():
            for k, is_enough in zip(teachers, recover(teachers, n), strict=True):
                if is_enough:
                    high[k] = n
                else:
                    low[k] = n
        progress(STEP, search.n_teachers * (search.n_doublings + i + 1), total)
    opt = np.array([high.get(k, np.inf) for k in range(search.n_teachers)], dtype=float)
    return doubled, opt, trials


def _group_by_middle(low: Mapping[int, int], high: Mapping[int, int]) -> dict[int, list[int]]:
    """Return next N to try → teachers whose search interval has it as its middle."""
    groups: dict[int, list[int]] = {}
    for k, top in high.items():
        if top - low[k] > 1:
            groups.setdefault((low[k] + top) // 2, []).append(k)
    return groups


def check_size(n_inputs: int, width: int) -> None:
    """Raise unless the network has inputs and units."""
    at_least("n_inputs", n_inputs, 1)
    at_least("width", width, 1)


def check_search(search: Search) -> None:
    """Raise if a setting is out of range."""
    check_recipe(search.recipe)
    for name, minimum in (("n_teachers", 1), ("n_students", 1), ("depth", 0), ("max_samples", 1)):
        at_least(name, getattr(search, name), minimum)
    fraction("probability", search.probability)
    why = ", which no trained student reaches"
    require(search.recovery_r2 < 1, "recovery_r2", "be below 1", search.recovery_r2, why=why)
