"""A run compared with the run before a review: the same samples held out, the same model."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from datassay.act.choose.parts import SUSPECTED
from datassay.act.review.decisions import KEEP, RELABEL, Decision, label_word
from datassay.act.review.gain import BeforeAfter, Corrected, Trial, review_gain
from datassay.act.review.judged import FILE as JUDGED
from datassay.act.review.judged import read_judged
from datassay.act.review.remaining import BATCH, remaining_after
from datassay.commands.finished import FinishedRun, finished_run, sets_of
from datassay.commands.inputs import DataInputs
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps.acts import learner_of
from datassay.commands.run.steps.budget import act_plan, forward_work
from datassay.commands.run.steps.settings import starting_network, with_network, with_width
from datassay.data.back.original import Changelog, read_changelog
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.models.tabular import TABLE_MODELS
from datassay.optional import text_if
from datassay.progress import Progress
from datassay.results import result
from datassay.score.label_issues import LabelIssues
from datassay.train.folds import make_splits

# Samples from which on a gain is measured: fewer than a table of actions needs, since one gain is
# asked about, not the best of many.
FEWEST = 40
LEFT_OUT = (
    f"retraining is switched off, is beyond --budget, or there are fewer than {FEWEST} samples"
)
FEW = "fewer than two held-out samples have a label that both agree on"


@result
class Earlier:
    """The run before a review, and its samples."""

    run: FinishedRun
    log: Changelog  # what was changed since
    train: SampleSet  # its training samples, with the labels that it saw
    val: SampleSet | None  # its validation samples; None where nothing was held out

    @property
    def held_out(self) -> tuple[str, ...] | None:
        """The present ids of what that run had split off; None where it split nothing off."""
        if self.val is None or not self.val.split_off:
            return None
        return tuple(name for name in self.log.new_ids(self.val.ids) if name)


def earlier_run(folder: Path, data: str, encode: Any = None) -> Earlier:
    """Return the run before a review: its samples, and the changes made to them since."""
    run = finished_run(folder)
    log = read_changelog(Path(data).expanduser())
    if log is None:
        raise DataError(
            f"data must be what datassay apply made, to be compared with a run before; {data} has "
            "no changelog.json. Give the folder that apply wrote."
        )
    if log.digest != run.digest:
        raise DataError(
            f"before must be a run of the data that {data} was made of; {folder} is about other "
            "data, or about other labels of them. Name the run that was reviewed."
        )
    if run.noise.noise:
        raise DataError(
            f"before must be a run of labels as they are in the data; {folder} flipped some on "
            "purpose (--noise). Name the run that was reviewed."
        )
    return Earlier(run, log, *sets_of(run, encode=encode))


def inputs_like(earlier: Earlier, typed: DataInputs) -> DataInputs:
    """Return the inputs of the earlier run, replaced by those that are typed now."""
    inputs = earlier.run.inputs
    assert inputs is not None
    inherited = {
        field.name: getattr(inputs, field.name)
        for field in fields(DataInputs)
        if getattr(typed, field.name) == field.default and field.name not in {"data", "data_option"}
    }
    return replace(typed, **inherited | {"held_out": earlier.held_out, "val_fraction": 0.0})


def before_after(
    earlier: Earlier,
    train: SampleSet,
    val: SampleSet | None,
    issues: LabelIssues,
    settings: RunSettings,
    progress: Progress,
) -> tuple[BeforeAfter, LabelIssues]:
    """Return what a review gained, on held-out samples too, and the issues that it leaves open."""
    labels = _map_labels(train, val)
    run = earlier.run
    log = earlier.log
    # Only targets: one that is ten times too large would outweigh what the review gained.
    is_suspect = (issues.probability > SUSPECTED) & (not issues.noise)
    suspects = set(train.ids[is_suspect].astype(str).tolist())
    before = _relabel(earlier.train, log, labels, suspects)
    held_out = None
    old_val = earlier.val
    if old_val is not None:
        is_same = not old_val.split_off and old_val.ids.dtype.kind not in "UO"
        unchanged = Corrected(old_val, old_val.y, np.ones(len(old_val), dtype=bool))
        if is_same:
            held_out = unchanged
        else:
            held_out = _relabel(old_val, log, labels, suspects)
    parts = [before]
    if held_out is not None:
        parts = [before, held_out]
    earlier_ids = {name for side in parts for name in log.new_ids(side.samples.ids)}
    added_ids = sorted(labels.keys() - earlier_ids)
    if added_ids:
        raise DataError(
            f"data must hold no samples that {run.folder} lacks, to be compared with it; it holds "
            f"{len(added_ids):,}, the first {added_ids[0][:80]}. Run without --before, or set both "
            "runs side by side with datassay report."
        )
    settings = with_network(settings, earlier.train)
    model_name = (run.summary.get("actions") or {}).get("model")
    if settings.is_open and model_name in TABLE_MODELS:
        settings = replace(settings, table_model=model_name)
    trials = _split(before, held_out, settings)
    gain = None
    why = LEFT_OUT
    if trials:
        gain = review_gain(trials, progress)
        why = FEW
    pairs: Counter[tuple[str, str]] = Counter()
    for side in parts:
        names = side.samples.class_names
        rows = np.flatnonzero(side.is_new & side.keep)
        for i in rows if names else ():
            pairs[label_word(names, side.samples.y[i]), label_word(names, side.y[i])] += 1
    n = len(before.keep)
    summary = run.summary
    kept_ids = {row["new_id"] for row in log.rows if row["decision"] == KEEP}
    n_confirmed = sum(str(train.ids[i]) in kept_ids for i in np.flatnonzero(issues.is_issue))
    open_issues = _leave_open(earlier, train, issues)
    n_suspects = int(summary["counts"]["suspected_label_errors"])
    wrong_share = float(summary["labels"]["expected_wrong"]) / n
    comparison = BeforeAfter(
        relabelled=tuple((a, b, count) for (a, b), count in pairs.most_common()),
        n_relabelled=sum(int((side.is_new & side.keep).sum()) for side in parts),
        n_removed=sum(int((~side.keep).sum()) for side in parts),
        n=(n, len(train)),
        suspects=(n_suspects, int(open_issues.is_issue.sum())),
        confirmed=n_confirmed,
        expected_wrong=(wrong_share, float(issues.probability.sum()) / len(train)),
        gain=gain,
        why_none=text_if(gain is None, why),
        other_model=_find_other_model(run, settings),
        cleared=_count_cleared(run, before, log, train.ids[issues.is_issue]),
    )
    return comparison, open_issues


def _leave_open(earlier: Earlier, train: SampleSet, issues: LabelIssues) -> LabelIssues:
    """Return the issues without labels that somebody decided, and with the review's own range."""
    rows = earlier.log.rows
    n_at_time = Counter(row["when"] for row in rows)
    is_seen = [row["decision"] == KEEP or n_at_time[row["when"]] == 1 for row in rows]
    decided_ids = {
        row["new_id"]
        for row, is_looked_at in zip(rows, is_seen, strict=True)
        if is_looked_at and row["decision"] in {KEEP, RELABEL}
    }
    is_open = ~np.isin(train.ids.astype(str), list(decided_ids))
    share = issues.share_wrong
    path = earlier.run.folder / JUDGED
    if sum(is_seen) >= BATCH and path.is_file():
        position_of_id = {str(name): i for i, name in enumerate(earlier.train.ids.tolist())}
        decisions = {
            position_of_id[row["id"]]: Decision(
                row["id"], row["decision"], row["given"], row["label"],
                datetime.fromisoformat(row["when"]),
            )
            for row in rows
            if row["id"] in position_of_id
        }  # fmt: skip
        low, high = remaining_after(read_judged(path), decisions, earlier.train).interval
        share = low / len(train), high / len(train)
    return replace(
        issues,
        is_issue=issues.is_issue & is_open,
        worth_a_look=issues.worth_a_look & is_open,
        share_wrong=share,
    )


def _count_cleared(run: FinishedRun, before: Corrected, log: Changelog, suspects: Any) -> int:
    """Count labels suspected before, unchanged since, and not suspected now."""
    was_suspect = dict(
        zip(run.scores["id"].to_pylist(), run.scores["is_issue"].to_pylist(), strict=True)
    )
    ids = before.samples.ids
    stayed = before.keep & ~before.is_new
    now = {str(sample_id) for sample_id in suspects.tolist()}
    pairs = zip(ids.tolist(), log.new_ids(ids), stayed.tolist(), strict=True)
    return sum(
        stays and bool(was_suspect.get(old_id)) and new_id not in now
        for old_id, new_id, stays in pairs
    )


def _find_other_model(run: FinishedRun, settings: RunSettings) -> str:
    """Return the earlier run's model if it differs from the one of these settings, else ""."""
    facts = run.summary.get("facts", {})
    fact = facts.get("Your model", "")
    model = facts.get("Model", "")
    if settings.estimator is not None or fact:
        name = text_if(settings.estimator is not None, type(settings.estimator).__name__)
        if name and fact.startswith(f"{name}:"):
            return ""
        return fact.partition(":")[0] or model
    if model.startswith(f"{settings.model},"):
        return ""
    return model


def _map_labels(train: SampleSet, val: SampleSet | None) -> dict[str, Any]:
    """Return id → class name or target, of train, and of val if its ids are real ones."""
    sets = [train]
    if val is not None and (val.split_off or val.ids.dtype.kind in "UO"):
        sets.append(val)
    return {
        str(name): label_word(s.class_names, y) if s.is_classification else y
        for s in sets
        for name, y in zip(s.ids.tolist(), s.y, strict=True)
    }


def _relabel(
    samples: SampleSet, log: Changelog, labels: Mapping[str, Any], suspects: Collection[str]
) -> Corrected:
    """Return the earlier samples with today's labels: which are kept, new, were suspect."""
    index = {name: i for i, name in enumerate(samples.class_names)}
    y = samples.y.copy()
    keep = np.zeros(len(samples), dtype=bool)
    is_suspect = np.zeros(len(samples), dtype=bool)
    for i, name in enumerate(log.new_ids(samples.ids)):
        if name not in labels:
            continue
        label = labels[name]
        keep[i] = True
        is_suspect[i] = name in suspects
        if samples.is_classification and label not in index:
            raise DataError(
                f"labels must be classes of the run before; {name} has {label!r}, which is none. "
                "Correct it by a decision, or run without --before."
            )
        if samples.is_classification:
            y[i] = index[label]
        else:
            y[i] = label
    return Corrected(samples, y, keep, is_suspect)


def _split(before: Corrected, held_out: Corrected | None, settings: RunSettings) -> list[Trial]:
    """Return splits on which old and new labels are compared: the held-out part, or fifths."""
    samples = before.samples
    settings = with_width(settings)
    model = starting_network(samples, settings)
    val = None
    if held_out is not None:
        val = held_out.samples
    plan = act_plan(forward_work(model, samples), samples, val, settings, FEWEST)
    if plan is None:
        return []
    if held_out is not None:
        return [Trial(before, held_out, learner_of(samples, settings, plan.seeds, 0))]
    trials = []
    for fold, test_idx in enumerate(make_splits(samples, None, plan.parts, settings.seed).test_idx):
        side = before.subset(np.setdiff1d(np.arange(len(samples)), test_idx))
        learner = learner_of(side.samples, settings, plan.seeds, fold)
        trials.append(Trial(side, before.subset(test_idx), learner))
    return trials
