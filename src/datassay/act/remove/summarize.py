"""A smaller training set: which samples stay, by the rule that does best on held-out samples."""

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Unpack

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int

from datassay import rules
from datassay.act.remove import rules as keep_rules
from datassay.act.remove.growth import unit_rows
from datassay.act.remove.rules import Candidates, rank_within_group, split_quota
from datassay.act.settings import KEEP_RULES, Keeping
from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.data.settings import check_seed
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.score.label_issues import LabelIssues
from datassay.score.sample_information import SampleInformation, sample_information
from datassay.score.settings import Run, Smoothing

# Each class keeps at least this part of its proportional share. Information alone, and more so the
# suspects, can empty a rare class: its samples are the hard ones.
LEAST_SHARE = 0.9
AUTO = "auto"
INFORMATION = "information"


@result
class KeepSet(Tabular):
    """The samples to keep, and the order in which the others were removed.

    Attributes:
        keep: [kept] positions in the training set, ascending.
        removed: [n − kept] positions, in the order of removal.
        kept_ids: [kept], the ids at `keep`.
        iterative: whether the information was scored again after each step.
        rule: what ordered the samples: one of `RULES`, or "information".
        kept_order: [kept] positions, in the order in which they would go next.
        tried: the rules that were compared; empty where the rule was given.
        held_out: what each reached on samples that it did not see: accuracy in [0, 1] of a linear
            classifier on what it kept, each sample weighted by the chance that its label is right;
            R² of targets.
    """

    keep: Int[np.ndarray, " kept"]
    removed: Int[np.ndarray, " removed"]
    kept_ids: np.ndarray
    iterative: bool
    rule: str = INFORMATION
    kept_order: Int[np.ndarray, " kept"] = field(default_factory=lambda: np.empty(0, int))
    tried: tuple[str, ...] = ()
    held_out: Float[np.ndarray, " tried"] = field(default_factory=lambda: np.empty(0))

    @property
    def removed_first(self) -> Int[np.ndarray, " n"]:
        """All positions in the order of removal, as `removal_curve` takes them.

        The order was made for one fraction. The best set at another need not be a part of this one:
        for several fractions call `summarize` for each.
        """
        if len(self.kept_order):
            kept_order = self.kept_order
        else:
            kept_order = self.keep
        return np.concatenate([self.removed, kept_order])

    @property
    def added_first(self) -> Int[np.ndarray, " n"]:
        """All positions, most useful first, suspects last: best by rule "fit" at half of them."""
        return self.removed_first[::-1]

    def to_table(self) -> pa.Table:
        """Return one row per kept sample: position, id."""
        return pa.table({"position": self.keep, "id": self.kept_ids})


def suspects_first(information: np.ndarray, issues: LabelIssues) -> np.ndarray:
    """Return positions in the order of removal: likely label errors, then what informs least."""
    # A wrong label is informative: by information alone it would stay to the end.
    lowest = np.argsort(information, kind="stable")
    return np.concatenate([issues.suspects, lowest[~issues.to_try[lowest]]])


def minimum_by_class(classes: Int[np.ndarray, " n"], target: int) -> Int[np.ndarray, " k"]:
    """Return the least number of each class that must stay if `target` samples do."""
    counts = np.bincount(classes)
    exact = LEAST_SHARE * target / len(classes) * counts
    roundings = (np.ceil(exact), np.maximum(np.floor(exact), counts > 0), np.floor(exact))
    return next(minimum for minimum in roundings if minimum.sum() <= target).astype(int)


def _take_spare(
    order: Int[np.ndarray, " m"],
    classes: Int[np.ndarray, " n"],
    target: int,
    removed: Int[np.ndarray, " removed"],
    limit: int,
) -> Int[np.ndarray, " s"]:
    """Return the first samples of `order` that their classes can spare, at most `limit`."""
    n_least = minimum_by_class(classes, target)
    n_spare = np.bincount(classes) - np.bincount(classes[removed], minlength=len(n_least)) - n_least
    return order[rank_within_group(classes[order]) < n_spare[classes[order]]][:limit]


@checks_arguments
def summarize(
    lin: Linearization,
    fraction: float,
    *,
    rule: str = Keeping.rule,
    iterative: bool = Keeping.iterative,
    step: float = 0.05,
    smoothing: str = Smoothing.smoothing,
    issues: LabelIssues | None = None,
    seed: int = Keeping.seed,
    progress: Progress = silent,
    **run: Unpack[Run],
) -> KeepSet:
    """Choose which samples of a training set to keep.

    Likely label errors go first, where `issues` names them. Of the others a rule says which stay:

    - "fit": each sample is kept for what it adds to those kept before it: how far it lowers the
      squared error and the variance, over all samples, of the linearised network's ridge fit.
    - "boundary": the same with variance alone, counted where the fit so far is still wrong. Keeps
      what is hard, and yet covers all of it.
    - "margin": smallest lead of the given class in the fit without the sample.
    - "random".
    - "information": S1's: what informs most, by `sample_information`.
    - "auto": of the first four the one whose keep-set, at this fraction, teaches a linear
      classifier most about samples that the rule did not see.

    Of each class at least 90 % of its proportional share stays: `LEAST_SHARE` · fraction of its
    samples, one at least.

    Args:
        lin: the linearisation.
        fraction: of the samples to keep, in (0, 1].
        rule: one of these.
        iterative: by information only: remove `step` of what remains, score again, and so on, since
            the information of a sample grows when another that says the same is removed.
        step: fraction of what remains that one step removes, in (0, 1).
        smoothing: of `sample_information`.
        issues: label scores, as `label_issues(lin)` gives them; suspects are then removed before
            anything else, as far as their class can spare them. None: nothing is suspected, and the
            hard samples that a rule keeps hold the wrong labels.
        seed: of pools, folds and the random order.
        progress: called with (step, units done, units in all).
        run: lr, steps, weight_decay, reduction, dynamics of `leave_one_out`; for "information".

    Returns:
        The samples to keep, the others in the order of removal, and which rule ordered them.

    Raises:
        SettingError: fraction, step or rule is out of range, iterative does not suit the rule, or
            fewer than 2 samples would remain.

    Cost: with q = 256 directions at most, 70 q² operations a kept sample and rule ("fit",
    "boundary"), which n enters only through 20 n q² log(kept); "auto" about four times as much. No
    [n, n] array is made. "information": one `leave_one_out`; iterative: one a step,
    log(fraction)/log(1 − step) of them.
    Source: "information": S1 §6, "Data summarization" (Fig. 2c), which removes 5 % of what remains
    at a time; the bound on classes and removing suspects first are ours. "fit" and "boundary" are
    ours, after Cohn et al. (1996) and Mirzasoleiman et al. (2015): see `growth.grow`. Choosing by
    held-out samples follows the search for β of Zheng et al. (2023).
    """
    rules.one_of("rule", rule, KEEP_RULES)
    if iterative and rule not in {AUTO, INFORMATION}:
        raise SettingError(
            f"iterative must be False with rule {rule!r}, which takes account of what stays by "
            "itself; got True. Take rule 'information'."
        )
    check_seed(seed)
    rules.fraction("fraction", fraction)
    rules.fraction("step", step, "()")
    n = len(lin)
    target = round(fraction * n)
    if target < 2:
        raise SettingError(f"fraction must keep at least 2 samples; {fraction} of {n} is {target}.")
    classes = np.zeros(n, int) if lin.labels is None else np.asarray(lin.labels)
    suspects = np.empty(0, int) if issues is None else issues.suspects
    suspects_out = _take_spare(suspects, classes, target, suspects[:0], n - target)
    results: dict[str, float] = {}  # score by rule
    if iterative or rule == INFORMATION:
        rule = INFORMATION
        score = partial(sample_information, smoothing=smoothing, **run)
        size = step if iterative else 1.0
        order = _order_by_information(lin, classes, target, suspects_out, size, score, progress)
    else:
        idx = np.setdiff1d(np.arange(n), suspects_out)
        p_right = np.ones(n) if issues is None else 1 - issues.probability
        candidates = Candidates(
            unit_rows(lin, seed)[idx], _code_targets(lin)[idx], classes[idx], p_right[idx],
            is_classification=lin.labels is not None,
        )  # fmt: skip
        n_least = minimum_by_class(classes, target)
        quota = split_quota(np.bincount(candidates.groups, minlength=len(n_least)), n_least, target)
        if rule == AUTO:
            results = keep_rules.compare_rules(candidates, quota, seed, progress)
            rule = max(results, key=lambda name: results[name])
        best_first = keep_rules.RULES[rule](candidates, quota, seed, progress)
        order = np.concatenate([suspects_out, idx[best_first[::-1]]])
    removed = order[: n - target]
    kept_idx = order[n - target :]
    keep = np.sort(kept_idx)
    values = np.array(list(results.values()))
    return KeepSet(keep, removed, lin.ids[keep], iterative, rule, kept_idx, tuple(results), values)


def _code_targets(lin: Linearization) -> Float[torch.Tensor, "n k"]:
    """Return one-hot classes minus 1/k, or targets standardised to mean 0 and variance 1."""
    if lin.labels is not None:
        k = max(len(lin.class_names), int(lin.labels.max()) + 1)
        return torch.nn.functional.one_hot(torch.as_tensor(lin.labels), k).float() - 1 / k
    centred = lin.targets.double() - lin.targets.double().mean(0)
    spread = centred.square().mean(0).sqrt()
    return (centred / torch.where(spread > 0, spread, 1.0)).float()


def _order_by_information(
    lin: Linearization,
    classes: Int[np.ndarray, " n"],
    target: int,
    removed: Int[np.ndarray, " removed"],
    step: float,
    score: Callable[[Linearization], SampleInformation],
    progress: Progress,
) -> Int[np.ndarray, " n"]:
    """Return all positions in removal order, rescored after each `step`; step 1: scored once."""
    keep = np.setdiff1d(np.arange(len(lin)), removed)
    n_removals = len(lin) - target
    while len(keep) > target:
        size = min(max(1, round(step * len(keep))), len(keep) - target)
        information = score(lin if not len(removed) else lin.subset(keep)).information
        lowest = np.argsort(information, kind="stable")
        batch = _take_spare(keep[lowest], classes, target, removed, size)
        removed = np.concatenate([removed, batch])
        keep = keep[lowest]  # in the order in which they would go next
        keep = keep[~np.isin(keep, batch)]
        progress("remove what informs least", len(removed), n_removals)
    return np.concatenate([removed, keep])
