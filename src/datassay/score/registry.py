"""Scores: each is one module that says what it computes, needs, shows and costs.

A module's `SCORE` registers it: the built-in ones are listed here, those of other distributions
are found by the entry points of the group `datassay.scores`. What is registered has its columns,
section, summary and plan wherever it comes from.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from datassay.errors import SettingError
from datassay.machine import release_memory, thread_count
from datassay.optional import text_if
from datassay.plan import PlanStep
from datassay.plugins import checked_plugins
from datassay.progress import Progress, silent
from datassay.results import columns_of, table_of

if TYPE_CHECKING:
    from datassay.collect.form import Form
    from datassay.collect.linearization import Linearization
    from datassay.data.samples import SampleSet

BUILT_IN = (
    "attribution",
    "sample_information",
    "label_issues",
    "influence.linear",
    "information.average",
    "checks.odd_inputs",
    "checks.data_issues",
)
"""Their modules, in the order in which they are computed and in which their columns stand."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Everything that a score may be computed from.

    Attributes:
        lin: the linearised network, collected once for all scores.
        train: the n training samples, in the order of `lin`.
        val: the held-out ones; None: nothing is held out.
        seed: of whatever is drawn.
        options: what the user set, by name, such as "lr" or "smoothing".
        progress: called with (step, units done, units in all).
        results: of the scores named in `needs`, by name.
    """

    lin: "Linearization"
    train: "SampleSet"
    val: "SampleSet | None" = None
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress = silent
    results: Mapping[str, Any] = field(default_factory=dict)

    def select_options(self, *names: str) -> dict[str, Any]:
        """Return those of the named options that are set."""
        return {name: self.options[name] for name in names if name in self.options}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What a score's cost depends on, known before anything is computed.

    Attributes:
        form: of the linearisation.
        train: training samples.
        val: held-out samples; 0: none.
        classes: of the labels; 0: numbers.
        options: what the user set, by name, as in `Context`.
    """

    form: "Form"
    train: int
    val: int
    classes: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def outputs(self) -> int:
        """Number of the network's outputs for a sample."""
        return self.form.n_outputs

    @property
    def parameters(self) -> int:
        """Number of the network's parameters."""
        return self.form.n_parameters

    @property
    def eigenproblem(self) -> int:
        """Side of the largest matrix that the scores decompose."""
        return self.form.eigenproblem

    @property
    def rows(self) -> int:
        """Number of the linearisation's rows for a sample: its outputs, or 1 that they share."""
        return self.form.n_rows // self.train

    @property
    def is_dual(self) -> bool:
        """Whether a kernel is decomposed, and no features are read."""
        return self.form.representation == "kernel"

    @property
    def products(self) -> str:
        """Kind of the products over all rows, as `datassay.plan.rate` takes it."""
        if self.form.products.precision == "float64":
            return "float64"
        return "float32"


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """A score: what computes it, what it needs, what its page shows and what it costs.

    Attributes:
        name: under which its result is stored, and its section of the page linked.
        help: in a sentence, what it says of a sample.
        compute: from a context to a result: a dataclass whose fields with a value per sample
            declare their columns (`results.column`); None where it says nothing of these samples.
        result: its class, whose columns `--help` lists; None: they are not listed.
        needs: names of the scores whose results it reads.
        section: from (training samples, result) to its section of the page; None: histograms of
            its columns and the samples at both ends.
        is_in_text: whether the text of a run's page and its table name it, as those do that others
            need; any other has a section and columns of its own.
        cost: from sizes to the additions and multiplications it takes, or to steps of the plan;
            None: not worth a line of it.
    """

    name: str
    help: str
    compute: Callable[[Context], Any]
    result: type | None = None
    needs: tuple[str, ...] = ()
    section: "Callable[[SampleSet, Any], Any] | None" = None
    is_in_text: bool = False
    cost: Callable[[Sizes], float | list[PlanStep]] | None = None

    @property
    def columns(self) -> str:
        """A sentence on the score's columns in scores.parquet and their units; "" without any."""
        descriptions = []
        for name, column in columns_of(self.result, joint=True).items():
            if name != "id":
                unit = text_if(column.unit, f", {column.unit}")
                descriptions.append(f"{name} ({column.meaning}{unit})")
        if not descriptions:
            return ""
        return f"Columns: {'; '.join(descriptions)}."


def scores() -> tuple[Score, ...]:
    """Return all scores: the built-in ones in their order, then other distributions'."""
    modules = (import_module(f"datassay.score.{name}") for name in BUILT_IN)
    return (*(module.SCORE for module in modules), *further_scores())


def further_scores() -> tuple[Score, ...]:
    """Return the scores of plug-ins, in the order of their entry points' names."""
    names = [import_module(f"datassay.score.{name}").SCORE.name for name in BUILT_IN]
    return tuple(checked_plugins("scores", Score, names))


def scores_with_sections() -> tuple[Score, ...]:
    """Return the scores that the text of a run's page does not name, built in or added."""
    return tuple(score for score in scores() if not score.is_in_text)


def score_steps(sizes: Sizes) -> list[PlanStep]:
    """Return the planned steps of all scores, in their order."""
    steps: list[PlanStep] = []
    for score in scores():
        if score.cost is None:
            continue
        cost = score.cost(sizes)
        if isinstance(cost, int | float):
            cost = [PlanStep(score.name, score.help, work={"float64": cost})]
        steps += cost
    return steps


# Rows times the square of the columns, above which a second thread gains more than it costs.
ONE_THREAD = 1e10


def few_threads(n_rows: int, n_columns: int) -> AbstractContextManager[None]:
    """Return a context of one thread where products are small, else one that changes nothing."""
    if n_rows * n_columns**2 < ONE_THREAD:
        return thread_count(1)
    return nullcontext()


def compute_scores(scores: Iterable[Score], context: Context) -> dict[str, Any]:
    """Compute scores, each after those it needs.

    Args:
        scores: in any order.
        context: of a run; its results count as computed.

    Returns:
        Name of the score → its result, of these scores only.

    Raises:
        SettingError: a score needs one that is not there, or two need each other; or its columns
            are not one value per sample, in the samples' order.
    """
    results = dict(context.results)
    pending = list(scores)
    names = [score.name for score in pending]
    while pending:
        ready = next((s for s in pending if results.keys() >= set(s.needs)), None)
        if ready is None:
            missing = sorted(set(pending[0].needs) - results.keys())
            raise SettingError(
                f"the score {pending[0].name} needs {', '.join(missing)}, which is not computed "
                f"before it; there are {', '.join(results)}. Update the package that adds it."
            )
        pending.remove(ready)
        release_memory()  # of the score before, and of collecting
        with few_threads(context.lin.form.n_rows, context.lin.form.eigenproblem):
            results[ready.name] = ready.compute(replace(context, results=results))
        _check_rows(ready.name, results[ready.name], context.train.ids)
    return {name: results[name] for name in names}


def _check_rows(name: str, result: Any, ids: np.ndarray) -> None:
    """Raise if a result's columns are not one value per sample, in the samples' order."""
    if not columns_of(result, joint=True):
        return
    table = table_of(result, joint=True)
    result_ids = getattr(result, "ids", ids)
    if table.num_rows != len(ids) or not np.array_equal(result_ids, ids):
        raise SettingError(
            f"the score {name} must give a value per sample, in the samples' order; it gives "
            f"{table.num_rows:,} for {len(ids):,} samples. Update the package that adds it."
        )
