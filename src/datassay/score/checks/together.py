"""Columns, or the order of rows, by which samples belong together: the cost for new groups."""

import shlex
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int, Shaped

from datassay.collect.curvature.output_loss import sample_scores
from datassay.collect.linearization import Linearization
from datassay.data.samples import SampleSet
from datassay.data.splits import TIME_BLOCKS, time_blocks
from datassay.models.tabular import column_parts, fit_seconds
from datassay.optional import drop_none
from datassay.progress import silent
from datassay.results import result
from datassay.score.checks.issue import DataIssue
from datassay.score.label_issues import LabelIssues
from datassay.score.labels.ridge import ridge_fit
from datassay.score.neighbors.exact import nearest_exact
from datassay.stats import mean_interval, sum_by_group
from datassay.train.folds import FOLDS, held_out_outputs

# A column may name groups if it has FEWEST_GROUPS values, of ROWS_EACH rows on average. Rows are
# alike within groups if the share ALIKE of them have their nearest neighbour, by the other columns,
# in their group; for groups of few rows TIMES the share by chance is enough.
FEWEST_GROUPS = 10
ROWS_EACH = 3
ALIKE = 0.5
TIMES = 5
# Members of a group may share outcomes though their inputs differ: others of the group then explain
# the share SHARED of the residuals. Boosted trees, which can memorise values, measure the cost.
SHARED = 0.1
TREE_ROWS = 5000  # at most
TREE_SECONDS = 15  # nominal, at most
# A column is reported if it surely costs COST of the score, or ORDER_COST where errors grow GROWS
# times; an order if it costs ORDER_COST.
COST = 0.05
ORDER_COST = 0.03
GROWS = 1.5
FEWEST_ROWS = 100  # below, nothing is reported
MOST_NAMED = 3  # columns
MOST_ROWS, ASKED = 20_000, 1000  # rows among which neighbours are searched, and whose they are
SAMPLED_ROWS, FEWEST_SAMPLED = 1000, 5  # rows, groups that show first whether little is lost
MOST_WORK = 6e10  # operations of leaving out groups, above which only trees measure the cost
Candidate = tuple[str, str, Shaped[np.ndarray, " n"], float]  # name, role, groups, share alike
PENALTIES = torch.tensor([1.0, 1e2, 1e4], dtype=torch.float64)  # tried, times that of the rows


@result
class HeldTogether:
    """A column by which samples may have to be held out.

    Attributes:
        column: its name; "" of the order of rows.
        role: "groups" or "time", the setting that would take it; "" of the order.
        share_alike: share of rows whose nearest neighbour is in their group; nan where it was not
            computed: for a time or order, and for a category that the fit can judge.
        by_rows: held-out accuracy, or R² of numbers, if each sample is left out alone.
        by_column: the same if its group, or its tenth of the time or order, is left out with it.
        metric: "accuracy" or "R²".
    """

    column: str
    role: str
    share_alike: float
    by_rows: float
    by_column: float
    metric: str

    @property
    def warning(self) -> str:
        """The sentence on what ignoring the groups or time costs, and what to type."""
        text = f"Held-out {self.metric} is {self.by_rows:.2f} by rows and {self.by_column:.2f} for"
        if not self.role:
            text += " stretches of rows that were never seen: the order of rows carries something,"
            return f"{text} such as time. Name its column as time (--time) or groups (--groups)."
        unseen = "a time that was never seen"
        rows = "later"
        if self.role == "groups":
            unseen = f"a new {self.column}"
            rows = "of such"
        take = f"{self.role} (--{self.role} {shlex.quote(self.column)})"
        return f"{text} {unseen}. If new rows are {rows}, name it as {take}."


def held_together(
    lin: Linearization, train: SampleSet, issues: LabelIssues
) -> tuple[HeldTogether, ...]:
    """Return columns that look like groups or times, whose new values are predicted worse.

    Args:
        lin: the linearisation of the samples.
        train: n samples, of a table, without groups.
        issues: its label issues, with outputs for each sample by the fit without it.

    Returns:
        The columns, the costliest first; none where the samples have groups, or are of no table.

    Cost: one search for neighbours a column that may name groups; then that of `ridge_fit`, or of
    ten fits of boosted trees.
    """
    if train.groups is not None or train.rows is None or len(train) < FEWEST_ROWS:
        return ()
    residual = (lin.targets.double().numpy() - issues.held_out).reshape(len(train), -1)
    columns = []
    for candidate in _find_candidates(lin, train, residual):
        _, role, groups, share = candidate
        is_small = _count_operations(lin, groups) <= MOST_WORK
        cost = None
        if is_small:
            cost = _estimate_cost(lin, train, issues, candidate)
        if cost is None and role == "groups":
            has_alike_rows = not is_small and share >= ALIKE
            if has_alike_rows or _measure_shared(residual, groups) >= SHARED:
                cost = _estimate_cost_by_trees(train, candidate)
        columns += drop_none(cost)
    columns.sort(key=lambda column: column.by_column - column.by_rows)
    return tuple(columns[:MOST_NAMED])


def order_issues(lin: Linearization, train: SampleSet, issues: LabelIssues) -> list[DataIssue]:
    """Return an issue if neighbouring rows of the file predict each other better than others.

    Args:
        lin: the linearisation of the samples.
        train: n samples, in the order of the file.
        issues: their label issues, as in `held_together`.

    Returns:
        One issue where tenths of the file are predicted worse if left out whole; of a file sorted
        by label, which is no fault, tenths of each class, or of each tenth of the targets.
    """
    n = len(train)
    y = train.y.reshape(n, -1)[:, 0]
    if train.groups is not None or n < FEWEST_ROWS or np.isnan(issues.ridge):
        return []
    # A file sorted by label changes class less than twice a class, and numbers less than twice
    # their range: then each stretch is a tenth of one class, or of one tenth of the numbers.
    steps = np.diff(y)
    strata = np.zeros(n)
    stretch = np.zeros(n, np.int64)
    if train.is_classification and (steps != 0).sum() < 2 * train.n_classes:
        strata = y
    elif not train.is_classification and np.abs(steps).sum() < 2 * np.ptp(y):
        strata = time_blocks(y)
    for stratum in np.unique(strata):
        (members,) = np.nonzero(strata == stratum)
        stretch[members] = TIME_BLOCKS * np.arange(len(members)) // len(members)
    if _count_operations(lin, stretch) > MOST_WORK:
        return []
    cost = _estimate_cost(lin, train, issues, ("", "", stretch, np.nan))
    if cost is None:
        return []
    return [DataIssue("row order", "look", n, "rows", cost.warning)]


def _estimate_cost(
    lin: Linearization, train: SampleSet, issues: LabelIssues, candidate: Candidate
) -> HeldTogether | None:
    """Return scores with rows and with groups left out; None if groups cost little."""
    # Cheap tests come first: the best penalty of rows before others, and a sample of the groups.
    _, _, groups, _ = candidate
    penalty_sets = [PENALTIES[:1] * issues.ridge, PENALTIES * issues.ridge]
    by_rows = scores(train, issues.held_out)
    cost = None
    is_sampled = _sample_groups(groups)
    tests = [] if is_sampled is None else penalty_sets
    for penalties in tests:
        fit = ridge_fit(lin, silent, groups, penalties, is_scored=is_sampled)
        loss = (by_rows - scores(train, fit.held_out.numpy()))[None, is_sampled]
        group_loss = sum_by_group([loss], [groups[is_sampled]])[0][0]
        if mean_interval(group_loss).high < ORDER_COST:
            return None
    for penalties in penalty_sets:
        fit = ridge_fit(lin, silent, groups, penalties)
        cost = _report_cost(train, candidate, by_rows, scores(train, fit.held_out.numpy()))
        if cost is None:
            return None
    return cost


def _sample_groups(groups: Shaped[np.ndarray, " n"]) -> Bool[np.ndarray, " n"] | None:
    """Return a mask of the rows of randomly drawn groups; None if that is most rows."""
    group, sizes = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    order = np.random.default_rng(0).permutation(len(sizes))
    n_drawn = 1 + max(int((sizes[order].cumsum() < SAMPLED_ROWS).sum()), FEWEST_SAMPLED)
    is_sampled = np.isin(group, order[:n_drawn])
    if is_sampled.sum() <= len(is_sampled) / 2:
        return is_sampled
    return None


def _count_operations(lin: Linearization, groups: Shaped[np.ndarray, " n"]) -> float:
    """Return the operations of leaving each group out, under all penalties."""
    sizes = np.unique(groups, return_counts=True)[1].astype(float)
    p = lin.form.eigenproblem
    return 4 * len(PENALTIES) * float((sizes * np.minimum(sizes, p)).sum()) * p


def _estimate_cost_by_trees(train: SampleSet, candidate: Candidate) -> HeldTogether | None:
    """Return the same as `_estimate_cost`, by boosted trees on a subset of the rows."""
    from datassay.models.table_estimators import TableClassifier, TableRegressor

    name, role, groups, share = candidate
    group = np.unique(groups, return_inverse=True)[1]
    # At most TREE_ROWS rows: of each group a share of them, drawn, then some groups, drawn.
    generator = np.random.default_rng(0)
    shuffled = generator.permutation(len(group))
    row_order = shuffled[group[shuffled].argsort(kind="stable")]
    sizes = np.bincount(group)
    rank = np.arange(len(group)) - np.repeat(sizes.cumsum() - sizes, sizes)  # within its group
    rows = np.sort(row_order[rank < TREE_ROWS // FEWEST_GROUPS])
    group_order = generator.permutation(len(sizes))
    drawn_groups = group_order[np.bincount(group[rows])[group_order].cumsum() <= TREE_ROWS]
    rows = rows[np.isin(group[rows], drawn_groups)]
    samples = train.subset(rows)
    parts = column_parts(train)
    seconds = 2 * FOLDS * fit_seconds(len(rows), len(parts), train.n_classes)
    if len(rows) < FEWEST_ROWS or seconds > TREE_SECONDS:
        return None
    model_class = TableRegressor
    if train.is_classification:
        model_class = TableClassifier
    model = model_class(parts=parts, quick=True)
    by_rows, by_column = (
        scores(samples, held_out_outputs(model, data, 0, silent))
        for data in (samples, replace(samples, groups=groups[rows]))
    )
    return _report_cost(samples, (name, role, groups[rows], share), by_rows, by_column)


def _report_cost(
    train: SampleSet,
    candidate: Candidate,
    by_rows: Float[np.ndarray, " n"],
    by_column: Float[np.ndarray, " n"],
) -> HeldTogether | None:
    """Return mean scores by rows and by groups if the loss is large and significant; or None.

    by_rows, by_column: score of each sample, left out alone, and with its group.
    """
    name, role, groups, share = candidate
    loss = sum_by_group([(by_rows - by_column)[None]], [groups])[0][0]
    cost = loss.mean()
    p = mean_interval(loss).p
    if not role:  # the order of rows; one-sided 5 %
        is_sure = cost >= ORDER_COST and p < 0.1
    else:
        grows = 1 - by_column.mean() >= GROWS * (1 - by_rows.mean())
        is_sure = cost >= (ORDER_COST if grows else COST) and p < 0.05
    if not is_sure:
        return None
    row_score = float(by_rows.mean())
    return HeldTogether(name, role, share, row_score, float(by_column.mean()), train.metric)


def scores(train: SampleSet, held_out: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """Return a score per sample whose mean is accuracy, or R²."""
    spread = None
    if not train.is_classification:  # a target that is always the same counts as predicted
        variance = train.y.reshape(len(train), -1).var(0)
        spread = np.where(variance > 0, variance, np.inf)
    return sample_scores(torch.from_numpy(held_out), train, spread, boundary=0.5).numpy()


def _find_candidates(
    lin: Linearization, train: SampleSet, residual: Float[np.ndarray, "n k"]
) -> Iterator[Candidate]:
    """Yield candidate columns that may group rows: words, dates, and the row order."""
    sampled = np.unique(np.linspace(0, len(train) - 1, min(len(train), MOST_ROWS)).astype(np.int64))
    x = np.asarray(train.x[sampled], np.float64).reshape(len(sampled), -1)
    x = (x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1.0)
    nearest = None
    if x.shape[1]:
        nearest = _find_nearest(x)
    for column in train.columns:
        name = column.name
        # Columns of x that were not made from this one.
        of_it = (f"{name}=", f"{name} ")
        is_other = np.array([f != name and not f.startswith(of_it) for f in train.feature_names])
        if column.read_as == "date" and f"{name} days" in train.feature_names:
            days = train.x[:, train.feature_names.index(f"{name} days")]
            yield name, "time", time_blocks(days), np.nan
            continue
        may_name_groups = column.read_as in {"category", "left out", "number"}
        codes = None
        if may_name_groups:
            codes = _encode_groups(train.rows, name)
        if codes is None or nearest is None or not is_other.any():
            continue
        is_category = column.read_as == "category"
        if is_category and _count_operations(lin, codes) <= MOST_WORK:  # the fit tells more
            yield name, "groups", codes.astype(str), np.nan
            continue
        share = _measure_alike(codes[sampled], nearest)
        if share and not is_other.all():
            share = _measure_alike(codes[sampled], _find_nearest(x[:, is_other]))
        is_alike = share >= min(ALIKE, TIMES * _chance_alike(codes))
        if is_category or is_alike or _measure_shared(residual, codes) >= SHARED:
            yield name, "groups", codes.astype(str), share


def _find_nearest(x: Float[np.ndarray, "n d"]) -> Int[np.ndarray, "a 2"]:
    """Return pairs (row, nearest other row) of at most ASKED rows."""
    queries = np.unique(np.linspace(0, len(x) - 1, min(len(x), ASKED)).astype(np.int64))
    nearest, runner_up = (
        nearest_exact(torch.from_numpy(x), torch.from_numpy(queries), 2).index.numpy().T
    )
    return np.stack([queries, np.where(nearest == queries, runner_up, nearest)], 1)


def _measure_alike(codes: Int[np.ndarray, " n"], nearest: Int[np.ndarray, "a 2"]) -> float:
    """Return the share of rows whose nearest row has the same value; 0 if near chance."""
    share = float((codes[nearest[:, 0]] == codes[nearest[:, 1]]).mean())
    if share >= 2 * _chance_alike(codes):
        return share
    return 0.0


def _measure_shared(residual: Float[np.ndarray, "n k"], groups: Shaped[np.ndarray, " n"]) -> float:
    """Return the share of residuals explained by the mean residual of the rest of the group."""
    group = np.unique(groups, return_inverse=True)[1]
    n_others = np.bincount(group)[group] - 1
    others_sum = (
        np.stack([np.bincount(group, column)[group] for column in residual.T], 1) - residual
    )
    explained = (residual * others_sum / np.maximum(n_others, 1)[:, None]).sum()
    return float(explained / max((residual**2).sum(), np.finfo(float).tiny))


def _chance_alike(codes: Int[np.ndarray, " n"]) -> float:
    """Return the probability that two rows drawn at random have the same value."""
    return float(((np.bincount(codes) / len(codes)) ** 2).sum())


def _encode_groups(rows: pa.Table | None, name: str) -> Int[np.ndarray, " n"] | None:
    """Return a column's values as codes from 0; None where it cannot define groups."""
    if rows is None or name not in rows.column_names:
        return None
    values = rows[name]
    if pa.types.is_dictionary(values.type):
        kind = values.type.value_type
    else:
        kind = values.type
    is_word = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_word or pa.types.is_integer(kind)) or values.null_count:
        return None
    codes = values.combine_chunks()
    if not pa.types.is_dictionary(codes.type):
        codes = codes.dictionary_encode()
    codes = np.unique(codes.indices.to_numpy(zero_copy_only=False), return_inverse=True)[1]
    n_groups = int(codes.max()) + 1
    if FEWEST_GROUPS <= n_groups <= len(codes) / ROWS_EACH:
        return codes
    return None
