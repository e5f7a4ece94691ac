"""The table of acts against the truth: is the best act first, do intervals hold the gains?

    python bench/acts.py --seeds 5 --cells cells.jsonl

Each case spoils some samples on purpose, or none. The table sees only them, in fifths, with labels
as given; the truth of each act is what it gains on thousands of right-labelled test samples when
it is done to all samples and five fresh networks learn from them. Settings were chosen on digits,
which is no case here.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from noise_cases import census, images, one_way, sample_set
from record import record

import datassay as da
from datassay.act import (
    Act,
    ActTable,
    Networks,
    compare_acts,
    fifths,
    predictions,
    proposals,
)
from datassay.data import SampleSet
from datassay.score import data_issues

SEEDS, FURTHER, FRESH, PARTS = 5, 2, 5, 5
TEST = 6000
NOTHING = "none"


@dataclass(frozen=True)
class Case:
    """Samples with a known fault, and right-labelled test samples."""

    name: str
    draw: Callable[[int], tuple[SampleSet, SampleSet]]


def main() -> None:
    args = _arguments()
    done = _read(args.cells)
    for seed in range(args.seeds):
        for case in CASES:
            if (args.cases and case.name not in args.cases) or (case.name, seed) in done:
                continue
            cell = measure(case, seed)
            with args.cells.open("a") as file:
                file.write(json.dumps(cell) + "\n")
            _tell(cell)
    summarise(list(_read(args.cells).values()))


def measure(case: Case, seed: int) -> dict:
    """One table of acts beside the truth of each of its rows."""
    train, test = case.draw(seed)
    started = time.perf_counter()
    table, acts = tabled(train, seed)
    seconds = time.perf_counter() - started
    kinds = {(row.kind, row.words) for row in table.acts}
    tried = [a for a in acts if (a.kind, a.words) in kinds]
    truth = gains(train, test, tried, table.metric, seed)
    rows = [
        {
            "kind": row.kind, "words": row.words, "gain": row.gain, "low": row.low,
            "high": row.high, "verdict": row.verdict, "screened": row.screened,
            "truth": truth.get(_name(row)),
        }
        for row in table.acts
    ]  # fmt: skip
    return {"case": case.name, "seed": seed, "metric": table.metric, "score": table.score,
            "true_score": truth["score"], "seconds": seconds, "rows": rows}  # fmt: skip


def tabled(train: SampleSet, seed: int) -> tuple[ActTable, tuple[Act, ...]]:
    """The table of acts of some samples, in fifths, and the acts on all of them."""
    model = da.build_model("mlp:width=256", train, seed=seed)
    lin = da.collect(model, train)
    information = da.sample_information(lin, loo=da.leave_one_out(lin)).information

    def judge(sub, some):
        issues = da.label_issues(sub)
        return issues, issues.ridge

    def learner(some, part):
        return _networks(some, FURTHER if part else SEEDS, 1000 * seed + SEEDS * part)

    whole, copies = da.label_issues(lin), data_issues(train, None).copies
    noise = whole.noise[0].transition
    parts = fifths(
        lin,
        train,
        information,
        PARTS,
        noise=noise,
        copies=copies,
        judge=judge,
        learner=learner,
        seed=seed,
    )
    acts, _ = proposals(train, whole, information, seed=seed)
    return compare_acts(parts, budget=1e9, seed=seed), acts


def _name(act) -> str:
    """Kind, and of samples that are dropped how many: the same act on fifths and on all."""
    return act.words if act.kind == "drop" else act.kind


def _networks(train: SampleSet, n: int, seed: int) -> Networks:
    models = [da.build_model("mlp:width=256", train, seed=seed + s) for s in range(n)]
    return Networks(models, seed=seed)


def gains(train: SampleSet, test: SampleSet, acts, metric: str, seed: int) -> dict:
    """Score of fresh networks on test samples, and each act's gain over it."""
    learner = _networks(train, FRESH, 500 + 1000 * seed)
    plain = learner.outputs(train, test, np.tile(np.arange(len(train)), (learner.repeats, 1)))
    base = _score(plain, test, metric)
    found = {
        _name(act): _score(predictions(learner, train, test, act), test, metric) - base
        for act in acts
    }
    return found | {"score": base}


def _score(outputs: np.ndarray, test: SampleSet, metric: str) -> float:
    if outputs.shape[2] == 1:
        outputs = np.concatenate([-outputs, outputs], 2)
    right = outputs.argmax(2) == test.y
    if metric == "accuracy":
        return float(right.mean())
    return float(np.mean([right[:, test.y == c].mean() for c in np.unique(test.y)]))


# Cases. -------------------------------------------------------------------------------------


def _split(samples: SampleSet, n: int) -> tuple[SampleSet, SampleSet]:
    order = np.arange(len(samples))
    test = samples.subset(order[n : n + TEST])
    return samples.subset(order[:n]), replace(test, true_y=None)


def _images(name: str, n: int, seed: int) -> tuple[SampleSet, SampleSet]:
    """N images and TEST others, as rows of 14 x 14 means."""
    drawn = images(name, n + TEST, Path(), seed)
    x = drawn.x.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(len(drawn), -1)
    order = np.random.default_rng((seed, 7)).permutation(len(drawn))
    return _split(sample_set(x[order], drawn.y[order], name), n)


def _census(n: int, rare: float | None, seed: int) -> tuple[SampleSet, SampleSet]:
    return _split(census(rare, Path(), seed, n + TEST), n)


def wrong(seed: int):
    """MNIST, one label in ten any other."""
    train, test = _images("mnist", 800, seed)
    return da.add_label_noise(train, 0.1, seed=seed), test


def pairs(seed: int):
    """Fashion-MNIST, three labels in ten those of the next class."""
    train, test = _images("fashion_mnist", 800, seed)
    return da.add_label_noise(train, 0.3, kind="pair", seed=seed), test


def flipped(seed: int):
    """A made-up census, three in ten of the rich called poor."""
    train, test = _census(1000, None, seed)
    return one_way(0.3)(train, seed), test


def redundant(seed: int):
    """MNIST, two samples in five next to copies of others."""
    train, test = _images("mnist", 480, seed)
    rng = np.random.default_rng((seed, 8))
    some = rng.choice(len(train), 320, replace=False)
    x = np.concatenate([train.x, train.x[some] * rng.normal(1, 0.05, train.x[some].shape)])
    return sample_set(x, np.concatenate([train.y, train.y[some]]), "redundant"), test


def two_rules(seed: int):
    """Two linear rules mixed; a column says which holds."""
    rng = np.random.default_rng((seed, 9))
    rules = rng.normal(size=(2, 10, 4))
    x = rng.normal(size=(800 + TEST, 10))
    which = (x[:, 0] > 0).astype(int)
    y = np.einsum("nd,ndk->nk", x, rules[which]).argmax(1)
    return _split(sample_set(x, y, "two rules"), 800)


def rare(seed: int):
    """Fashion-MNIST, two classes with one in eighty of the samples each."""
    train, test = _images("fashion_mnist", 2400, seed)
    rng = np.random.default_rng((seed, 10))
    keep = np.concatenate([
        rng.permutation(np.flatnonzero(train.y == c))[: 12 if c in {3, 7} else 120]
        for c in range(10)
    ])  # fmt: skip
    return train.subset(np.sort(keep)), test


def clean_images(seed: int):
    """Fashion-MNIST as it is."""
    return _images("fashion_mnist", 800, seed)


def clean_table(seed: int):
    """The census as it is."""
    return _census(1000, None, seed)


CASES = [
    Case("10 % wrong labels, MNIST", wrong),
    Case("labels flip one way, census", flipped),
    Case("40 % redundant, MNIST", redundant),
    Case("two rules mixed", two_rules),
    Case("rare classes, Fashion", rare),
    Case("none, Fashion", clean_images),
    Case("none, census", clean_table),
    Case("30 % class pairs, Fashion", pairs),
]
CLEAN = ("none, Fashion", "none, census")


def summarise(cells: list[dict]) -> None:
    """Record how often the first act was right, clean data were let be, and intervals held."""
    held, first, clean, by_case = [], [], [], {}
    for cell in cells:
        rows = [r for r in cell["rows"] if r["truth"] is not None and np.isfinite(r["low"])]
        inside = [r["low"] <= r["truth"] <= r["high"] for r in rows]
        held += inside
        # Nothing to do is an act too: it gains nothing.
        best = rows[0] if rows and rows[0]["verdict"] == "better" else None
        winner = max([0.0, *(r["truth"] for r in rows)])
        own = 0.0 if best is None else best["truth"]
        low, high = (best["low"], best["high"]) if best else _around(rows)
        right = own >= winner - 1e-12 or low <= winner <= high
        first.append(right)
        if cell["case"] in CLEAN:
            clean.append(best is None)
        by_case.setdefault(cell["case"], []).append(
            {"first": None if best is None else best["kind"], "own": own, "winner": winner,
             "right": right, "held": float(np.mean(inside))}
        )  # fmt: skip
    record(
        "acts/eight data sets",
        cells=len(cells),
        first_right=float(np.mean(first)),
        clean_let_be=float(np.mean(clean)) if clean else None,
        intervals_held=float(np.mean(held)),
        intervals=len(held),
        seconds_a_table=float(np.median([cell["seconds"] for cell in cells])),
        first={name: [one["first"] for one in ones] for name, ones in by_case.items()},
        gain_of_first={n: float(np.mean([o["own"] for o in ones])) for n, ones in by_case.items()},
        gain_of_best={
            n: float(np.mean([o["winner"] for o in ones])) for n, ones in by_case.items()
        },
    )


def _around(rows: list[dict]) -> tuple[float, float]:
    """Where nothing is said to help: the interval of the act of the largest gain."""
    return (rows[0]["low"], rows[0]["high"]) if rows else (0.0, 0.0)


def _tell(cell: dict) -> None:
    print(cell["case"], cell["seed"], f"{cell['seconds']:.0f} s", cell["metric"],
          f"{cell['score']:.3f} {cell['true_score']:.3f}", flush=True)  # fmt: skip
    for r in cell["rows"]:
        truth = "" if r["truth"] is None else f"{100 * r['truth']:+.2f}"
        ends = f"[{100 * r['low']:+.2f} {100 * r['high']:+.2f}]"
        print(f"    {r['words'][:44]:44s} {100 * r['gain']:+.2f} {ends} {r['verdict']:14s} {truth} "
              f"({100 * r['screened']:+.2f})", flush=True)  # fmt: skip


def _read(path: Path) -> dict:
    if not path.exists():
        return {}
    cells = [json.loads(line) for line in path.read_text().splitlines()]
    return {(cell["case"], cell["seed"]): cell for cell in cells}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cases", nargs="*")
    parser.add_argument("--cells", type=Path, default=Path("acts.jsonl"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
