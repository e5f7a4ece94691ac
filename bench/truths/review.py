"""Errors found per review: an order that learns from the reviewer, a fixed one, and baselines'.

One label in twenty is wrong, as is known. A reviewer who knows the truth, or who is wrong in one of
twenty, looks at 20 labels at a time, always the first of what is left. Our order learns from the
decisions; it is also kept fixed. Others are fixed: the margin of the held-out outputs, and both of
cleanlab's scores of our held-out probabilities, of cross-validated logistic regression, and of
tables also of boosted trees. Settings were chosen on `CHOOSE`, which holds other data.

Noise: "uniform"; "pair" (each class to one other); "like" (classes that people confuse); "one-way"
(of two classes only one is given as the other); "input" (where a linear scorer is unsure);
"region" (half the labels in one region of the inputs, as of one bad source); "two columns";
"human" (CIFAR-10N; of its wrong labels a random part is corrected, so that one in twenty is left).
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from bench import data, detectors, noise
from bench.baselines import cleanlab
from bench.data import scaled, some
from bench.frame import Case, Contender, Row, Task

from datassay.act import Judged, Remaining, judged, remaining
from datassay.data import SampleSet
from datassay.score import LabelIssues

RATE, N = 0.05, 3000
MOST = 0.6  # of a class
FLAT = 1e-6  # columns of less deviation are 0
REVIEWS, EVERY, SLIPS = 100, 20, 0.05
LONG = 400  # decisions over which intervals and stops are judged
GAINED = 1.2  # times the fixed order's errors


# Cases. -------------------------------------------------------------------------------------


def from_class(mapping: dict[int, int], samples: SampleSet, seed: int) -> SampleSet:
    """Wrong labels in some classes only, one in twenty of all samples."""
    share = float(np.isin(samples.y, list(mapping)).mean())
    return noise.noisy(mapping, min(MOST, RATE / share), samples, seed)


def region(samples: SampleSet, seed: int) -> SampleSet:
    """Of the eighth of the samples nearest a random one, two fifths have a random other label."""
    rng = np.random.default_rng((seed, 5))
    x, n, k = scaled(samples.x.reshape(len(samples), -1)), len(samples), samples.n_classes
    distance = np.square(x - x[rng.integers(n)]).sum(1)
    wrong = (distance.argsort().argsort() < n / 8) & (rng.random(n) < 8 * RATE)
    other = (samples.y + rng.integers(1, k, n)) % k
    return replace(samples, y=np.where(wrong, other, samples.y), true_y=samples.y)


def corrected(column: str, seed: int) -> SampleSet:
    """CIFAR-10N with one wrong label in twenty: the others are given their true class."""
    result = some(noise.human(column, True, seed), N, seed)
    assert result.true_y is not None
    rng = np.random.default_rng((seed, 6))
    right = rng.permutation(np.flatnonzero(result.y != result.true_y))[round(RATE * N) :]
    y = result.y.copy()
    y[right] = result.true_y[right]
    return replace(result, y=y)


def without_flat(samples: noise.Samples, seed: int) -> SampleSet:
    """At most N samples; columns of sentences that hardly vary are 0."""
    result = some(samples(seed), N, seed)
    if result.x.ndim > 2:
        return result
    return replace(result, x=np.where(result.x.std(0) > FLAT, result.x, 0).astype(np.float32))


NOISES: dict[str, noise.Noise] = {
    "uniform": noise.UNIFORM(RATE),
    "pair": noise.PAIR(RATE),
    "one-way": partial(from_class, {1: 0}),
    "input": partial(noise.input_dependent, RATE),
    "region": region,
    "two columns": partial(noise.two_columns, RATE),
}
SAMPLES: dict[str, noise.Samples] = {
    "digits": partial(data.built_in, "digits"),
    "mnist": partial(data.images, "mnist", N),
    "fashion": partial(data.images, "fashion_mnist", N),
    "sst2 tfidf": partial(noise.text, "sst2", "tfidf", N),
    "sst2": partial(noise.text, "sst2", "minilm", N),
    "rt tfidf": partial(noise.text, "rt", "tfidf", N),
    "rt": partial(noise.text, "rt", "minilm", N),
    "boston": noise.boston,
    "census": partial(noise.census, None, n=N),
    **{name: partial(data.table, name) for name in data.TABLES},
}


def _cases(human: tuple[str, ...], **noises: str) -> dict[str, partial]:
    cases = {f"cifar10n {c}": partial(noise.drawn, partial(corrected, noise.HUMAN[c]), None)
             for c in human}  # fmt: skip
    for name, kinds in noises.items():
        name = name.replace("_", " ")
        like = partial(from_class, noise.LIKE["mnist" if name == "mnist" else "fashion_mnist"])
        for kind in kinds.split(", "):
            spoil = like if kind == "like" else NOISES[kind]
            samples = partial(without_flat, SAMPLES[name])
            cases[f"{name} {kind}"] = partial(noise.drawn, samples, spoil)
    return cases


CHOOSE = _cases(
    ("random2", "worst"), digits="uniform, pair, input", mnist="uniform, pair, like, input, region",
    sst2="uniform, one-way, input", sst2_tfidf="one-way", churn="uniform, one-way, region",
    hpc="uniform, pair, region", boston="pair", attrition="one-way",
)  # fmt: skip
REPORT = _cases(
    ("aggregate", "random1"), fashion="uniform, pair, like, input, region",
    rt="uniform, one-way, input", rt_tfidf="one-way", census="uniform, one-way, two columns",
    credit="uniform, one-way, region", spam="uniform, one-way", leaf="pair",
) | {f"rt keywords, ties {ties}": partial(noise.drawn, partial(noise.text, "rt", "tfidf", N),
                                          partial(noise.keywords, ties))
     for ties in ("left out", "coin")}  # fmt: skip


# What is reviewed. --------------------------------------------------------------------------


@dataclass(frozen=True)
class Reviewed:
    """Judged samples: as a contender sees them, what a run keeps of them, and the true classes."""

    given: SampleSet | None
    judged: Judged
    issues: LabelIssues | None
    truth: np.ndarray


def made(draw: partial, seed: int) -> Reviewed:
    samples = draw(seed)
    given = replace(samples, true_y=None)
    lin, issues = detectors.as_run_asks(given, seed)
    return Reviewed(given, judged(lin, issues), issues, samples.true_y)


@dataclass(frozen=True)
class Review:
    """One simulated review: what was found, and what was predicted before each batch."""

    found: np.ndarray  # errors seen after 1, 2, ... reviews.
    said: list[Remaining]  # at 0, 20, 40, ... decisions.
    left: list[int]  # errors that were then left


def learnt(one: Reviewed, reviews: int, slips: float, seed: int) -> Review:
    """Our order, made anew after every EVERY decisions.

    A reviewer who slips keeps a wrong label, or takes the suggestion for a right one.
    """
    labels, rng = one.judged.labels, np.random.default_rng((seed, 9))
    wrong, known, predicted, left = one.truth != labels, {}, [], []
    while True:
        predicted.append(remaining(one.judged, known))
        left.append(int(wrong[predicted[-1].order].sum()))
        if len(known) >= reviews or not len(predicted[-1].order):
            break
        for i in predicted[-1].order[:EVERY].tolist():
            other = labels[i] if wrong[i] else predicted[-1].suggested[i]
            known[i] = int(other if rng.random() < slips else one.truth[i])
    positions = np.array(list(known))
    seen = wrong[positions] & (np.array(list(known.values())) != labels[positions])
    return Review(seen.cumsum(), predicted, left)


def interval_figures(review: Review) -> dict[str, float]:
    """How often the interval holds the errors left, and its width over what is expected."""
    held = [s.interval[0] <= n <= s.interval[1] for s, n in zip(review.said, review.left,
                                                                strict=True)]  # fmt: skip
    after = review.said[min(REVIEWS // EVERY, len(held) - 1)]
    return {
        "held before 60": float(np.mean(held[:3])),
        "held from 60": float(np.mean(held[3:])),
        "width": (after.interval[1] - after.interval[0]) / (after.errors_left + 1),
    }


def stop_figures(review: Review) -> dict[str, float]:
    """When stopping is first advised, and what is then left; empty where it never is."""
    for batch, (predicted, left) in enumerate(zip(review.said, review.left, strict=True)):
        if predicted.can_stop:
            before = int(review.found[EVERY * batch - 1])
            return {"stop": EVERY * batch, "found at stop": before, "left at stop": left}
    return {}


# Contenders. --------------------------------------------------------------------------------


def ours(one: Reviewed, seed: int) -> Review:
    return learnt(one, LONG, 0.0, seed)


def fixed(one: Reviewed, seed: int) -> np.ndarray:
    return one.judged.log_odds


def margin(one: Reviewed, seed: int) -> np.ndarray:
    """The largest other held-out output less that of the given label."""
    assert one.issues is not None
    outputs, rows = one.issues.held_out, np.arange(len(one.issues.held_out))
    if outputs.shape[1] == 1:
        outputs = np.column_stack([1 - outputs, outputs])
    others = outputs.copy()
    others[rows, one.issues.given_label] = -np.inf
    return others.max(1) - outputs[rows, one.issues.given_label]


def own_probabilities(one: Reviewed, seed: int) -> np.ndarray:
    """Of the true classes from the held-out outputs alone: the given label's part is taken out."""
    assert one.issues is not None and one.issues.posterior is not None
    given = one.issues.noise[0].transition.T[one.issues.given_label]
    values = one.issues.posterior / given.clip(1e-12)
    return values / values.sum(1, keepdims=True)


MODELS = {
    "our probabilities": own_probabilities,
    "logistic": partial(detectors.given, detectors.logistic),
    "trees": partial(detectors.given, detectors.trees),
}


def confident(model: str, name: str, one: Reviewed, seed: int) -> np.ndarray:
    """Cleanlab's score, the lowest quality first."""
    return cleanlab.score(one.judged.labels, MODELS[model](one, seed), name)


def judge(one: Reviewed, answer: np.ndarray | Review, seed: int) -> dict[str, float]:
    """Errors in the first REVIEWS; stops and intervals of ours."""
    wrong = one.truth != one.judged.labels
    if isinstance(answer, Review):
        results = {"errors in 100": float(answer.found[:REVIEWS][-1])}
        if len(answer.found) > REVIEWS:
            results |= interval_figures(answer) | stop_figures(answer)
        return results
    return {"errors in 100": float(wrong[np.argsort(-answer, kind="stable")[:REVIEWS]].sum())}


def rows(lines: dict[str, dict]) -> list[Row]:
    start = "review_order/"
    cases = {name.removeprefix(start): x for name, x in lines.items() if name.startswith(start)}
    structured = [x["gain"] for x in cases.values() if (x["gain"] or 0) >= GAINED]
    names = ("learnt", "fixed", "margin", "logistic, self-confidence", "cleanlab")
    means = [sum(x[name] for x in cases.values()) / len(cases) for name in names]
    return [
        *[
            Row(
                f"Errors in the first 100 reviews, {name}, {x['wrong']:.0f} in all: order that "
                "learns (fixed one; margin's; cleanlab's best)",
                "{learnt:.0f} ({fixed:.0f}; {margin:.0f}; {cleanlab:.0f})".format(**x),
            )
            for name, x in cases.items()
        ],
        Row(
            f"Errors in the first 100 reviews, mean over {len(cases)} kinds of data and noise at "
            "5 %: order that learns (fixed one; margin's; cleanlab's default, its best in each)",
            "{:.1f} ({:.1f}; {:.1f}; {:.1f}, {:.1f})".format(*means)
            + f"; 1.2 times the fixed one's or more in {len(structured)}",
        ),
        Row(
            "Errors left in a review: how often the 90 % interval holds them, before 60 decisions "
            "and from then to 400 (5 % of the decisions wrong; labels by two lists of words)",
            "{held_before_60:.2f}, {held_from_60:.2f} ({slips_before_60:.2f}, {slips_from_60:.2f}; "
            "{words_before_60:.2f}, {words_from_60:.2f})".format(**lines["review_order"]),
        ),
    ]


TASK = Task(
    measure="errors found in the first 100 reviews",
    cases={name: Case(partial(made, draw)) for name, draw in REPORT.items()},
    contenders={
        "learnt": Contender(ours, "ours"),
        "learnt, slips": Contender(lambda one, seed: learnt(one, LONG, SLIPS, seed), "ours"),
        "fixed": Contender(fixed, "trivial"),
        "margin": Contender(margin, "trivial"),
        **{
            f"{model}, {name}": Contender(partial(confident, model, name), needs="cleanlab")
            for model in MODELS
            for name in cleanlab.SCORES
        },
    },
    judge=judge,
    repeats=3,
    rows=rows,
)
