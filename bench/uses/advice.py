"""What following the advice of a run gains, and whether its intervals hold: whole tables.

The truth of an action is that of five fresh models, of the kind that the table names, trained on
what it leaves, on right-labelled test samples, less that of five on the samples as they are. Sets
of `CHOSEN` are those that settings of ours were chosen on: no figure may be quoted from them.
"Best" is the largest true gain of all actions, those proposed and both of a combination, or
nothing: by chance a little above 0 also where nothing helps.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import process_time

import numpy as np
from bench import data, noise
from bench.data import sample_set, scaled
from bench.frame import Case, Options, Row, Task
from bench.truths.actions import gains, named, reached, tabled
from sklearn.datasets import make_classification

import datassay as da
from datassay.act import Action, ActionGain
from datassay.data import SampleSet

Draw = Callable[[int], tuple[SampleSet, SampleSet]]  # seed → training and test samples
TEST, TREES = 4000, "boosted trees"
KEPT = {"promise": "of the model that the table names", "promise of networks": "of networks"}
TRUE, NAMED = 0.02, 0.5  # of a score; share of near copies that are found, and named on the page
WORTH, LOST = 0.02, 0.002  # a gain that should be advised; a loss that costs something


# Sets: name → (draw, of so many training samples). ----------------------------------------------


def cut(samples: SampleSet, n: int, seed: int) -> tuple[SampleSet, SampleSet]:
    order = np.random.default_rng((seed, 7)).permutation(len(samples))
    return samples.subset(order[:n]), samples.subset(order[n : n + TEST])


def drawn(name: str, n: int, seed: int) -> tuple[SampleSet, SampleSet]:
    """N rows of a table, of images as 14 x 14 means, or of synthetic samples, and others."""
    if name in ("mnist", "fashion_mnist"):
        whole = data.small_images(name, n + TEST, seed)
        whole = sample_set(whole.x, whole.y, name)
    elif name in data.LOADERS:
        whole = data.built_in(name, seed)
        whole = sample_set(scaled(whole.x.reshape(len(whole), -1)), whole.y, name)
    elif name == "census":
        whole = replace(noise.census(None, seed, n + TEST), true_y=None)
    elif name == "synthetic":
        x, y = make_classification(
            n + TEST, 12, n_informative=6, n_classes=3, n_clusters_per_class=2, random_state=seed
        )
        whole = sample_set(x, y, name)
    else:
        whole = data.table(name, seed)
    return cut(whole, n, seed)


def rules(d: int, k: int, hidden: float, n: int, seed: int) -> tuple[SampleSet, SampleSet]:
    """A share follows a second linear rule that nothing tells; the test samples the first."""
    rng = np.random.default_rng((seed, 9))
    two, x = rng.normal(size=(2, d, k)), rng.normal(size=(n + TEST, d))
    which = rng.random(n + TEST) < hidden
    which[n:] = False
    whole = sample_set(x, np.einsum("nd,ndk->nk", x, two[which.astype(int)]).argmax(1), "rules")
    return whole.subset(np.arange(n)), whole.subset(np.arange(n, n + TEST))


def told(n: int, seed: int) -> tuple[SampleSet, SampleSet]:
    """Two linear rules; a column says which holds."""
    rng = np.random.default_rng((seed, 9))
    two, x = rng.normal(size=(2, 10, 4)), rng.normal(size=(n + TEST, 10))
    y = np.einsum("nd,ndk->nk", x, two[(x[:, 0] > 0).astype(int)]).argmax(1)
    return cut(sample_set(x, y, "two rules"), n, seed)


# Faults. ----------------------------------------------------------------------------------------


def copied(samples: SampleSet, seed: int, share=0.4, error=0.03) -> SampleSet:
    """Two in five are near copies of others."""
    rng, kept = np.random.default_rng((seed, 8)), round((1 - share) * len(samples))
    i = rng.integers(kept, size=len(samples) - kept)
    x = samples.x[i] * rng.normal(1, error, samples.x[i].shape)
    x, y = np.concatenate([samples.x[:kept], x]), np.concatenate([samples.y[:kept], samples.y[i]])
    return sample_set(x, y, samples.name)


def scarce(samples: SampleSet, seed: int) -> SampleSet:
    """Of classes 3 and 7 twelve samples each."""
    rng, y = np.random.default_rng((seed, 10)), samples.y
    kept = [rng.permutation(np.flatnonzero(y == c))[: 12 if c in {3, 7} else None]
            for c in range(samples.n_classes)]  # fmt: skip
    return samples.subset(np.sort(np.concatenate(kept)))


def foreign(samples: SampleSet, seed: int) -> SampleSet:
    """One in six has its columns shuffled, all in the same way, and a label at random."""
    rng, x, y = np.random.default_rng((seed, 12)), samples.x.copy(), samples.y.copy()
    bad = rng.random(len(samples)) < 1 / 6
    x[bad] = x[bad][:, rng.permutation(x.shape[1])]
    y[bad] = rng.integers(samples.n_classes, size=bad.sum())
    return sample_set(x, y, samples.name)


def spoilt(draw: Draw, fault: Callable, seed: int) -> tuple[SampleSet, SampleSet]:
    train, test = draw(seed)
    return replace(fault(train, seed), true_y=None), test


FAULTS = {
    "copies": copied, "rare": scarce, "foreign": foreign, "uniform 10": noise.UNIFORM(0.1),
    "uniform 20": noise.UNIFORM(0.2), "uniform 30": noise.UNIFORM(0.3), "pair 20": noise.PAIR(0.2),
    "pair 30": noise.PAIR(0.3), "one-way 30": noise.one_way(0.3),
    "inputs 30": partial(noise.input_dependent, 0.3),
}  # fmt: skip
CHOSEN = {
    "digits 1000": ("", "pair 30", "uniform 20"), "digits 300": ("",), "digits 400": ("pair 20",),
    "mnist 800": ("", "uniform 10", "inputs 30", "copies"), "mnist 1600": ("rare",),
    "mnist 250": ("",), "churn 1500": ("", "one-way 30", "uniform 20"), "churn 300": ("",),
    "census 1000": ("", "one-way 30"), "census 250": ("",), "census 300": ("uniform 20",),
    "synthetic 1000": ("", "uniform 30", "foreign"), "synthetic 200": ("",), "wine 110": ("",),
    "breast_cancer 280": ("", "uniform 20"),
}  # fmt: skip
REPORTED = {
    "fashion_mnist 800": ("", "pair 30", "uniform 30", "copies", "foreign"),
    "fashion_mnist 1600": ("rare",), "fashion_mnist 250": ("",), "fashion_mnist 400": ("pair 20",),
    "credit 1200": ("", "one-way 30", "uniform 20"), "credit 300": ("",),
    "credit 400": ("uniform 20",), "hpc 1200": ("", "pair 30", "inputs 30"), "hpc 300": ("",),
    "leaf 1000": ("", "pair 30"), "leaf 500": ("",), "spam 1000": ("", "uniform 30"),
    "spam 250": ("",), "spam 300": ("uniform 30",), "attrition 900": ("",), "attrition 250": ("",),
    "default 400": ("",), "caravan 400": ("",),
}  # fmt: skip


PROMISED = {
    "credit 1200": ("one-way 30", "uniform 20", "foreign"), "hpc 1200": ("pair 30", "inputs 30"),
    "spam 1000": ("uniform 30", "one-way 30"), "attrition 900": ("uniform 20",),
    "default 1000": ("uniform 20",), "caravan 1000": ("uniform 20",), "credit 400": ("uniform 20",),
    "spam 300": ("uniform 30",),
}  # fmt: skip


def settings(sets: dict[str, tuple[str, ...]]) -> dict[str, Draw]:
    results: dict[str, Draw] = {}
    for which, faults in sets.items():
        name, n = which.split()
        draw = partial(drawn, name, int(n))
        for fault in faults:
            how = partial(spoilt, draw, FAULTS[fault]) if fault else draw
            results[f"{which} {fault}".strip()] = how
    return results


HALVES = {
    "chosen": settings(CHOSEN)
    | {"rules hidden 30": partial(rules, 10, 4, 0.3, 1000), "rules told": partial(told, 800)},
    "reported": settings(REPORTED) | {"rules hidden 20": partial(rules, 6, 5, 0.2, 700),
                                      "rules hidden 40": partial(rules, 20, 3, 0.4, 1200)},
}  # fmt: skip


# Judging. ---------------------------------------------------------------------------------------


def one(draw: Draw, seed: int) -> dict[str, float]:
    """Of one set: gains by advice and at best, rows advised and held, of how many."""
    train, test = draw(seed)
    answer = tabled(train, seed, is_open=True)
    table, actions = answer.table, list(answer.actions)
    both = [after(row, train, actions) for row in table.actions if "+" in row.kind]
    truth = gains(train, test, [*actions, *both], table.metric, seed, answer.model)
    judged = [row for row in table.actions if np.isfinite(row.low) and named(row) in truth]
    judged = [row for row in judged if row.how == "retrained"]
    best = table.best
    advised = {row.kind for row in judged if row.advice in {"do it", "try it"}}
    worth = {one.kind for one in (*actions, *both) if truth[named(one)] >= WORTH}
    return {
        "gain": truth[named(best)] if best else 0.0,
        "best": max(0.0, *truth.values()),
        "held": float(sum(row.low <= truth[named(row)] <= row.high for row in judged)),
        "intervals": float(len(judged)),
        "worth": float(len(worth)), "advised": float(len(worth & advised)),
        "seconds": table.seconds,
    }  # fmt: skip


def after(row: ActionGain, train: SampleSet, actions: list[Action]) -> Action:
    """One action, and others on what it leaves, as one action of all samples."""
    kind, *then = row.kind.split("+")
    first = next(a for a in actions if a.kind == kind and row.words.startswith(a.words))
    weights = (first.weights > 0).astype(float)
    for second in then:
        left = np.flatnonzero(weights)
        y = first.labels[left]
        if second == "copies":
            copies = da.score.data_issues(train, None).copies[left]
            weights[left] *= np.isin(left, left[np.unique(copies, return_index=True)[1]])
        elif second == "balance":
            weights[left] *= 1 / np.bincount(y)[y]
        else:
            weights[left] *= da.local_variance_weights(scaled(train.x[left]), y)
    return replace(first, kind=row.kind, words=row.words, weights=weights, control=None)


def promised(is_open: bool, options: Options) -> dict[str, float]:
    """Of each table's first action: what is promised, what the model named and what trees gain."""
    each, named_trees = [], 0
    for name, draw in settings(PROMISED).items():
        train, test = draw(options.seed)
        started = process_time()
        answer = tabled(train, options.seed, is_open=is_open)
        taken = process_time() - started
        whole = {named(action): action for action in answer.actions}
        done = [r for r in answer.table.actions if "+" in r.kind or named(r) in whole]
        row = next(r for r in done if r.how == "retrained")
        action = after(row, train, list(answer.actions)) if "+" in row.kind else whole[named(row)]
        of = partial(gains, train, test, [action], answer.table.metric, options.seed)
        truth, trees = (of(model)[named(action)] for model in (answer.model, TREES))
        named_trees += answer.model == TREES
        each.append([
            row.gain, truth, row.low <= truth <= row.high, trees, row.low <= trees <= row.high,
            row.high - row.low, taken,
        ])  # fmt: skip
        print(name, answer.model, row.kind, np.round(np.array(each[-1], float), 3), flush=True)
    names = ("promise", "truth", "held", "trees", "held_trees", "width", "processor_seconds")
    means = dict(zip(names, np.mean(np.array(each, float), 0).tolist(), strict=True))
    return {"tables": len(each), "named_trees": named_trees, **means}


def measured(half: str, options: Options) -> dict[str, float]:
    figures: dict[str, list[dict[str, float]]] = {}
    for name, draw in HALVES[half].items():
        for seed in range(options.seed, options.seed + (options.repeats or 1)):
            figures.setdefault(name, []).append(one(draw, seed))
            print(name, seed, {k: round(v, 4) for k, v in figures[name][-1].items()}, flush=True)
    each = [f for some in figures.values() for f in some]
    total = {key: float(sum(f[key] for f in each)) for key in each[0]}
    clean = [f["gain"] for name, some in figures.items() if name[-1:].isdigit() and
             name.count(" ") == 1 for f in some]  # fmt: skip
    return {
        "settings": len(figures), "cells": len(each), "gain": total["gain"] / len(each),
        "best": total["best"] / len(each), "share": total["gain"] / total["best"],
        "worst": min(f["gain"] for f in each), "advised": total["advised"] / total["worth"],
        "worth": total["worth"], "held": total["held"] / total["intervals"],
        "intervals": total["intervals"], "clean": len(clean),
        "clean_let_be": float(np.mean([gain >= -LOST for gain in clean])),
    }  # fmt: skip


def near_copies(options: Options) -> dict[str, float]:
    """What a run says that samples with near copies reach, and what they do on test samples."""
    off, found, warned = [], [], []
    for name in ("fashion_mnist", "credit", "hpc", "leaf", "spam"):
        for share, error in ((0.1, 0.03), (0.4, 0.003), (0.8, 0.03)):
            train, test = drawn(name, 800, options.seed)
            train = copied(train, options.seed, share, error)
            answer = tabled(train, options.seed, is_open=True)
            table = answer.table
            off.append(table.score - reached(train, test, table.metric, options.seed, answer.model))
            issues = da.score.data_issues(train, None)
            warned.append(any("near" in i.kind and i.severity == "act" for i in issues.issues))
            groups = np.bincount(copies := issues.copies)
            found.append(float((groups[copies[-round(share * len(train)) :]] > 1).mean()))
            print(
                name, share, error, round(off[-1], 3), round(found[-1], 3), warned[-1], flush=True
            )
    near = np.abs(off) <= TRUE
    return {
        "cells": len(off), "near": float(near.mean()), "largest": float(np.abs(off).max()),
        "near_or_named": float((near | (np.array(found) >= NAMED)).mean()),
        "near_or_warned": float((near | np.array(warned)).mean()), "least_found": min(found),
    }  # fmt: skip


def rows(lines: dict[str, dict]) -> list[Row]:
    promise = [Row(
        f"Promise of the first action of {x['tables']} tables with planted faults, {model}, in "
        "points: promised, true of that model (interval holds it), true of boosted trees (holds)",
        f"{100 * x['promise']:+.1f}, {100 * x['truth']:+.1f} ({x['held']:.0%}), "
        f"{100 * x['trees']:+.1f} ({x['held_trees']:.0%})",
    ) for one, model in KEPT.items() if (x := lines.get(f"advice/{one}"))]  # fmt: skip
    if x := lines.get("advice/near copies"):
        promise.append(Row(
            f"Held-out score of {x['cells']} sets with 10 to 80 % near copies, against test "
            "samples: within 0.02; that or a warning; that or half of the copies are named; "
            "largest difference",
            "{near:.0%}; {near_or_warned:.0%}; {near_or_named:.0%}; {largest:.3f}".format(**x),
        ))  # fmt: skip
    if not (x := lines.get("advice/reported")):
        return promise
    return [*promise, Row(
        f"Advice of a run, {x['settings']} settings with a known fault or none, {x['cells']} "
        "tables: points gained by following it (of the best possible; worst); actions that gain "
        f"two points or more advised; {x['clean']} without a fault let be, or nothing lost; "
        f"intervals that hold the true gain, of {x['intervals']:.0f}",
        f"{100 * x['gain']:+.2f} ({100 * x['best']:+.2f}; {100 * x['worst']:.1f}); "
        "{advised:.0%}; {clean_let_be:.0%}; {held:.0%}".format(**x),
    )]  # fmt: skip


TASK = Task(
    measure="accuracy gained by following the advice",
    cases={half: Case(partial(measured, half)) for half in HALVES}
    | {name: Case(partial(promised, name == "promise")) for name in KEPT}
    | {"near copies": Case(near_copies)},
    lines="advice/",
    rows=rows,
)
