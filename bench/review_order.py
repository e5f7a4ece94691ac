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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
from noise_contenders import FEWEST_ROWS, MOST_TREES, Probabilities, logistic, trees
from record import record
from review_cases import CHOOSE, FIVE, REPORT

from datassay.act import Judged, Remaining, judged, read_judged, remaining
from datassay.collect import collect
from datassay.commands import RunSettings
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.score import LabelIssues, held_out_probabilities, label_issues

SEEDS, REVIEWS, EVERY, SLIPS = 3, 100, 20, 0.05
LONG = 400  # decisions over which intervals and stops are judged
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


# Reviews. -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Review:
    """One simulated review: what was found, and what was said before each batch.

    Attributes:
        found: errors seen after 1, 2, ... reviews.
        said: at 0, 20, 40, ... decisions.
        left: errors that were then left.
    """

    found: np.ndarray
    said: list[Remaining]
    left: list[int]


def learnt(one: Cell, reviews: int, slips: float, seed: int) -> Review:
    """Our order, made anew after every EVERY decisions.

    A reviewer who slips keeps a wrong label, or takes the suggestion for a right one.
    """
    labels, rng = one.judged.labels, np.random.default_rng((seed, 9))
    wrong, known, said, left = one.truth != labels, {}, [], []
    while True:
        said.append(remaining(one.judged, known))
        left.append(int(wrong[said[-1].order].sum()))
        if len(known) >= reviews or not len(said[-1].order):
            break
        for i in said[-1].order[:EVERY].tolist():
            other = labels[i] if wrong[i] else said[-1].suggested[i]
            known[i] = int(other if rng.random() < slips else one.truth[i])
    places = np.array(list(known))
    seen = wrong[places] & (np.array(list(known.values())) != labels[places])
    return Review(seen.cumsum(), said, left)


def figures(one: Cell, seed: int) -> dict[str, float]:
    """Errors in the first REVIEWS of every order; stops and intervals of ours."""
    wrong = one.truth != one.judged.labels
    scores = {"fixed": one.judged.log_odds} | one.scores

    def first(score: np.ndarray) -> int:
        return int(wrong[np.argsort(-score, kind="stable")[:REVIEWS]].sum())

    long = learnt(one, LONG, 0.0, seed)
    line = {"wrong": int(wrong.sum()), "ceiling": min(REVIEWS, int(wrong.sum()))}
    line |= {name: first(score) for name, score in scores.items()}
    line |= {"learnt": int(long.found[REVIEWS - 1])}
    line |= {"learnt, slips": int(learnt(one, REVIEWS, SLIPS, seed).found[-1])}
    line |= interval_figures(long) | stop_figures(long)
    return line


def interval_figures(review: Review) -> dict[str, float]:
    """How often the interval holds the errors left, and its width over what is expected."""
    held = [s.interval[0] <= n <= s.interval[1] for s, n in zip(review.said, review.left,
                                                                strict=True)]  # fmt: skip
    started = REVIEWS // EVERY
    widths = [(s.interval[1] - s.interval[0]) / (s.errors_left + 1) for s in review.said]
    return {
        "held": float(np.mean(held)),
        "held before 60": float(np.mean(held[:3])),
        "held from 60": float(np.mean(held[3:])),
        "width": widths[started],
    }


def stop_figures(review: Review) -> dict[str, float]:
    """When one is first told to stop, and what is then left; empty where that is not said."""
    for batch, (said, left) in enumerate(zip(review.said, review.left, strict=True)):
        if said.can_stop:
            after = review.found[min(len(review.found), EVERY * (batch + 1)) - 1]
            before = review.found[EVERY * batch - 1]
            return {"stop": EVERY * batch, "found at stop": int(before), "left at stop": left,
                    "next at stop": int(after - before)}  # fmt: skip
    return {}


def summary(lines: list[dict[str, float]]) -> dict[str, object]:
    """Means over seeds; what our order finds over the fixed one and over cleanlab's best."""
    names = dict.fromkeys(name for line in lines for name in line)
    means = {n: float(np.mean([line[n] for line in lines if n in line])) for n in names}
    cleanlab = [n for n in means if n.endswith(("self-confidence", "adjusted margin"))]
    best = max(cleanlab, key=lambda name: means[name])
    return {
        **means,
        "stopped": sum("stop" in line for line in lines),
        "gain": means["learnt"] / means["fixed"] if means["fixed"] else None,
        "best cleanlab": best,
        "cleanlab": means[best],
    }


def table(found: dict[str, dict]) -> Iterator[str]:
    """Markdown, a row a case."""
    yield "| case | errors | fixed | learnt | slips | margin | cleanlab's best | held | stop |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for case, line in found.items():
        ratio = "–" if line["gain"] is None else f"{line['gain']:.2f}"
        stop = "–"
        if line["stopped"]:
            stop = f"{line['stop']:.0f}: {line['left at stop']:.0f} of {line['wrong']:.0f} left"
        cells = [f"{line[name]:.0f}" for name in ("wrong", "fixed")]
        cells += [f"{line['learnt']:.0f} ({ratio})"]
        cells += [f"{line[name]:.0f}" for name in ("learnt, slips", "margin")]
        cells += [f"{line['cleanlab']:.0f} ({line['best cleanlab']})", f"{line['held']:.2f}", stop]
        yield f"| {case} | {' | '.join(cells)} |"


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
    """Judge what is missing, review, then print and record the table."""
    args = parsed(arguments)
    cases = CHOOSE if args.part == "choose" else REPORT
    names = [name for name in cases if any(fnmatch(name, one) for one in args.cases)]
    if not names:
        raise SystemExit(f"--cases {' '.join(args.cases)} names no case of {', '.join(cases)}.")
    lines: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for seed in range(args.seeds):
        for name in names:
            lines[name].append(figures(cell(name, seed, args.work.resolve()), seed))
            print(name, seed, lines[name][-1], flush=True)
    found = {name: summary(each) for name, each in lines.items()}
    print(*table(found), sep="\n")
    every = [line for each in lines.values() for line in each]
    whole = {
        "held": np.mean([line["held"] for line in every]),
        "held_before_60": np.mean([line["held before 60"] for line in every]),
        "held_from_60": np.mean([line["held from 60"] for line in every]),
        "gains_of_five": [found[name]["gain"] for name in FIVE if name in found],
    }
    print(whole)
    if not args.no_record:
        for name, line in found.items():
            record(f"review_order/{name}", part=args.part, seeds=args.seeds, **line)
        record("review_order", part=args.part, seeds=args.seeds, **whole)


if __name__ == "__main__":
    main()
