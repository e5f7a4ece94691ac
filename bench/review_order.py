"""Errors found per review: an order that learns from the reviewer, a fixed one, and rivals'.

    python bench/review_order.py --work review                    # all; hours; goes on if cut
    python bench/review_order.py --work review --part choose      # what settings were chosen on
    python bench/review_order.py --work review --cases "rt*" --seeds 1 --no-record

A cell is a case of `review_cases.py` and a seed. A reviewer who knows the truth, or who is wrong in
one of twenty, looks at 20 labels at a time, always the first of what is left. Our order learns from
the decisions; it is also kept fixed. Others are fixed: the margin of the held-out outputs, and
cleanlab's two scores of our held-out probabilities, of cross-validated logistic regression, and of
tables also of boosted trees. Judged cells are kept in --work, all lines go to results.jsonl. Needs
DATASSAY_DATA and 'datassay[bench]'.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
from noise_contenders import FEWEST_ROWS, MOST_TREES, Probabilities, logistic, trees
from review_cases import CHOOSE, REPORT

from datassay.act import Judged, judged, read_judged
from datassay.collect import collect
from datassay.commands import RunSettings
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.score import LabelIssues, held_out_probabilities, label_issues

SEEDS, REVIEWS, EVERY, SLIPS = 3, 100, 20, 0.05
JUDGED, TRUTH = "review.npz", "truth.npz"


@dataclass(frozen=True)
class Cell:
    """A judged cell.

    Attributes:
        judged: what a run keeps.
        truth: true classes, [n].
        scores: name of a rival → its score, [n], the highest first to review.
    """

    judged: Judged
    truth: np.ndarray
    scores: dict[str, np.ndarray]


def cell(name: str, seed: int, work: Path) -> Cell:
    """A cell from --work; judged and kept there first where it is not."""
    folder = work / f"{name.replace(' ', '_')}_{seed}"
    if not (folder / TRUTH).exists():
        folder.mkdir(parents=True, exist_ok=True)
        samples = (CHOOSE | REPORT)[name].draw(work, seed)
        kept, scores = judge(replace(samples, true_y=None), seed)
        kept.write(folder / JUDGED)
        np.savez(folder / TRUTH, truth=samples.true_y, **scores)
    with np.load(folder / TRUTH) as file:
        scores = {key: file[key] for key in file.files}
    return Cell(read_judged(folder / JUDGED), scores.pop("truth"), scores)


def judge(samples: SampleSet, seed: int) -> tuple[Judged, dict[str, np.ndarray]]:
    """What `datassay run` keeps of its labels, and the rivals' scores."""
    lin = collect(build_model(RunSettings().model, samples, seed=seed), samples, seed=seed)
    with_trees = (
        samples.kind == "row" and len(samples) >= FEWEST_ROWS and samples.n_classes <= MOST_TREES
    )
    boosted = held_out_probabilities(samples, seed=seed) if with_trees else None
    issues = label_issues(lin, pred_probs=boosted)
    x = samples.x.reshape(len(samples), -1).astype(np.float32)
    given = {"our probabilities": own_probabilities(issues), "logistic": logistic(samples, x, seed)}
    if samples.kind == "row" and samples.x.shape[1] <= 200:
        given["trees"] = trees(samples, x, seed)
    scores = {"margin": margin(issues)}
    for model, probabilities in given.items():
        scores |= {f"{model}, {k}": v for k, v in cleanlab_scores(samples.y, probabilities).items()}
    return judged(lin, issues), scores


def own_probabilities(issues: LabelIssues) -> Probabilities:
    """Of the true classes from the held-out outputs alone: the given label's part is taken out."""
    assert issues.posterior is not None
    given = issues.noise[0].transition.T[issues.given_label]
    values = issues.posterior / given.clip(1e-12)
    return Probabilities(values / values.sum(1, keepdims=True), 0.0)


def margin(issues: LabelIssues) -> np.ndarray:
    """The largest other held-out output less that of the given label."""
    outputs = issues.held_out
    if outputs.shape[1] == 1:
        outputs = np.column_stack([1 - outputs, outputs])
    rows = np.arange(len(outputs))
    own = outputs[rows, issues.given_label]
    others = outputs.copy()
    others[rows, issues.given_label] = -np.inf
    return others.max(1) - own


def cleanlab_scores(y: np.ndarray, given: Probabilities) -> dict[str, np.ndarray]:
    """Its default and its adjusted margin, the lowest quality first."""
    from cleanlab.rank import get_label_quality_scores

    adjusted = {"method": "normalized_margin", "adjust_pred_probs": True}
    return {
        "self-confidence": -get_label_quality_scores(y, given.values),
        "adjusted margin": -get_label_quality_scores(y, given.values, **adjusted),
    }


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=["*"], help='names or patterns: "rt*"')
    parser.add_argument("--part", choices=("choose", "report"), default="report")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--work", type=Path, required=True, help="keeps judged cells")
    parser.add_argument("--no-record", action="store_true", help="leave results.jsonl alone")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Judge what is missing."""
    args = parsed(arguments)
    cases = CHOOSE if args.part == "choose" else REPORT
    cases = [name for name in cases if any(fnmatch(name, one) for one in args.cases)]
    for seed in range(args.seeds):
        for name in cases:
            one = cell(name, seed, args.work.resolve())
            wrong = one.truth != one.judged.labels
            top = np.argsort(-one.judged.log_odds, kind="stable")[:REVIEWS]
            print(name, seed, wrong.sum(), wrong[top].sum(), flush=True)


if __name__ == "__main__":
    main()
