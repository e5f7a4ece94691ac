"""Labelled samples whose wrong labels are known: y is given, true_y is the truth.

`CASES` lists them. A seed draws the samples (where there are more than n) and the noise.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench import data
from bench.data import folder, sample_set, scaled, some
from datassay.data import SampleSet, add_label_noise

Samples = Callable[[int], SampleSet]
Noise = Callable[[SampleSet, int], SampleSet]


def drawn(samples: Samples, noise: Noise | None, seed: int) -> SampleSet:
    """The samples of a seed, their labels corrupted or not."""
    result = samples(seed)
    if noise is not None:
        result = noise(result, seed)
    return result if result.true_y is not None else replace(result, true_y=result.y)


# Samples. -----------------------------------------------------------------------------------


def human(column: str, balanced: bool, seed: int) -> SampleSet:
    """CIFAR-10N: labels that people gave, Lite0 features, 10 000 images.

    We hold 5000 cats, deer and dogs each and 1000 of every other class: drawn as they are, or
    1000 a class, of which only those three classes differ by seed.
    """
    held, rng = data.cifar_features(), np.random.default_rng((seed, 1))
    chosen = rng.permutation(len(held["y"]))[:10_000]
    if balanced:
        positions = [np.flatnonzero(held["y"] == c) for c in range(10)]
        chosen = np.concatenate([rng.permutation(position)[:1000] for position in positions])
    chosen = np.sort(chosen)
    x, given, truth = (held[key][chosen] for key in ("features", column, "y"))
    return sample_set(x, given, f"CIFAR-10N {column}", true_y=truth)


def corrected(seed: int) -> SampleSet:
    """CIFAR-10's own labels, 1000 images a class."""
    result = human("aggre_label", True, seed)
    return replace(result, y=result.true_y, true_y=None)


def text(name: str, features: str, n: int, seed: int) -> SampleSet:
    """Sentences as MiniLM features, or as tf-idf weights of the 2000 most frequent words."""
    if features == "minilm":
        return some(data.sentence_features(name), n, seed)
    words, y = data.texts(name)
    whole = sample_set(np.zeros((len(y), 1)), y, name, "text", shown=np.array(words))
    chosen = some(whole, n, seed)
    tfidf = TfidfVectorizer(max_features=2000, sublinear_tf=True)
    weights = tfidf.fit_transform(list(chosen.texts))
    return replace(chosen, x=weights.toarray().astype(np.float32))


def boston(seed: int) -> SampleSet:
    """Boston Housing, its prices cut into thirds."""
    rows = np.loadtxt(folder("boston_housing", "housing.data"))
    y = np.digitize(rows[:, 13], np.quantile(rows[:, 13], [1 / 3, 2 / 3]))
    return sample_set(scaled(rows[:, :13]), y, "boston")


def census(rare: float | None, seed: int, n: int = 4000) -> SampleSet:
    """A made-up census: is a person rich? About one in four, or `rare` of all, is.

    Columns: age, hours, education (7 levels), sex, occupation (12 levels), capital gain (0 for 92
    %, lognormal for the rest); P(rich) = σ(logit), so that no rule is right on all.
    """
    rng = np.random.default_rng((seed, 2))
    many = n if rare is None else 12 * n
    age, hours = rng.normal(39, 13, many).clip(17, 90), rng.normal(40, 12, many).clip(1, 99)
    education = rng.choice(7, many, p=[0.1, 0.3, 0.25, 0.1, 0.15, 0.07, 0.03])
    sex, occupation = rng.integers(2, size=many), rng.integers(12, size=many)
    gain = np.where(rng.random(many) < 0.08, rng.lognormal(8.5, 1.0, many), 0.0)
    pay = np.random.default_rng(0).normal(size=12)  # the occupations' own, the same for all seeds
    logit = -4.4 + 0.9 * education + 0.07 * (hours - 40) + 1.2 * pay[occupation] + 0.9 * sex
    logit = logit + 0.09 * (age - 39) - 0.0025 * (age - 50) ** 2 + 5e-4 * gain
    rich = rng.random(many) < 1 / (1 + np.exp(-1.5 * logit))
    x = np.column_stack([age, hours, gain, np.eye(7)[education], sex, np.eye(12)[occupation]])
    chosen = np.arange(n)
    if rare is not None:
        k = round(rare * n)
        chosen = np.concatenate([np.flatnonzero(rich)[:k], np.flatnonzero(~rich)[: n - k]])
        chosen = rng.permutation(chosen)
    return sample_set(scaled(x[chosen]), rich[chosen], "census")


# Noise. -------------------------------------------------------------------------------------


def noisy(kind, rate: float, samples: SampleSet, seed: int) -> SampleSet:
    """The library's own: "uniform", "pair", or a mapping of class to class."""
    return add_label_noise(samples, rate, kind=kind, seed=seed)


def input_dependent(rate: float, samples: SampleSet, seed: int) -> SampleSet:
    """Wrong where a linear scorer is unsure.

    Logistic regression on the true labels, five folds, C = 0.01 on standardised columns, scores
    each sample that it has not seen. Samples are ordered by the true class's lead over the best
    other class; the chance of a wrong label falls linearly with the position in that order, from
    2 · rate to 0, and the wrong label is that other class.
    """
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
    flat, n = samples.x.reshape(len(samples), -1), len(samples)
    scores = cross_val_predict(model, flat, samples.y, method="decision_function")
    scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores.copy()
    own = scores[np.arange(n), samples.y]
    scores[np.arange(n), samples.y] = -np.inf
    other, lead = scores.argmax(1), own - scores.max(1)
    positions = lead.argsort().argsort()
    chance = 2 * rate * (1 - (positions + 0.5) / n)
    wrong = np.random.default_rng((seed, 3)).random(n) < chance
    return replace(samples, y=np.where(wrong, other, samples.y), true_y=samples.y)


def region(rate: float, samples: SampleSet, seed: int) -> SampleSet:
    """Of the half nearest a random sample, twice the rate have a random other label."""
    rng = np.random.default_rng((seed, 5))
    x, n = scaled(samples.x.reshape(len(samples), -1)), len(samples)
    distance = np.square(x - x[rng.integers(n)]).sum(1)
    wrong = (distance.argsort().argsort() < n / 2) & (rng.random(n) < 2 * rate)
    other = (samples.y + rng.integers(1, samples.n_classes, n)) % samples.n_classes
    return replace(samples, y=np.where(wrong, other, samples.y), true_y=samples.y)


def by_neighbours(rate: float, samples: SampleSet, seed: int) -> SampleSet:
    """The class of the nearest sample of another class; as `input_dependent`, by that distance."""
    x, y, n = scaled(samples.x.reshape(len(samples), -1)), samples.y, len(samples)
    nearest, near = np.full(n, np.inf), y.copy()
    for c in range(samples.n_classes):
        others = np.flatnonzero(y != c)
        distance = NearestNeighbors(n_neighbors=1).fit(x[y == c]).kneighbors(x[others])[0][:, 0]
        closer = distance < nearest[others]
        nearest[others] = np.minimum(nearest[others], distance)
        near[others[closer]] = c
    positions = nearest.argsort().argsort()
    wrong = np.random.default_rng((seed, 3)).random(n) < 2 * rate * (1 - (positions + 0.5) / n)
    return replace(samples, y=np.where(wrong, near, y), true_y=y)


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
HUMAN = {"aggregate": "aggre_label", "worst": "worse_label"} | {
    f"random{i}": f"random_label{i}" for i in (1, 2, 3)
}


def one_way(rate: float, start: int = 1, end: int = 0) -> Noise:
    """Only class `start` is given as `end`."""
    return partial(noisy, {start: end}, rate)


NOISES: dict[str, Noise] = {
    **{f"uniform {r}": UNIFORM(r / 100) for r in (3, 10, 20, 40)},
    **{f"pair {r}": PAIR(r / 100) for r in (10, 30, 40)},
    **{f"input-dependent {r}": partial(input_dependent, r / 100) for r in (20, 40)},
    "one-way 30": one_way(0.3),
    "two columns 15": partial(two_columns, 0.15),
    **{f"region {r}": partial(region, r / 100) for r in (20, 35)},
    **{f"neighbours {r}": partial(by_neighbours, r / 100) for r in (20, 30)},
    **{f"{kind} some classes 30": partial(noisy, like, 0.3) for kind, like in LIKE.items()},
}


# Of two classes no more, or most labels of a region are wrong and nobody can tell which.
FEW, MANY = ("region 20", "neighbours 20"), ("region 35", "neighbours 30")


def _listed() -> dict[str, tuple[Samples, Noise | None]]:
    results: dict[str, tuple[Samples, Noise | None]] = {
        f"cifar10n {'balanced ' * balanced}{name}": (partial(human, column, balanced), None)
        for balanced in (False, True)
        for name, column in HUMAN.items()
        if not balanced or name in ("aggregate", "random1", "worst")
    }

    def add(name: str, samples: Samples, *kinds: str) -> None:
        results.update({f"{name} {kind}": (samples, NOISES[kind]) for kind in kinds})

    for name in ("sst2", "rt"):
        for features in ("tfidf", "minilm"):
            add(f"{name} {features}", partial(text, name, features, 4000),
                "uniform 10", "one-way 30")  # fmt: skip
        # Of 5000 about 2000 hold more words of one list than of the other.
        weak = (("left out", "keywords", 5000), ("coin", "keywords and coin", 4000))
        for ties, called, n in weak:
            samples = partial(text, name, "minilm", n)
            results[f"{name} minilm {called}"] = (samples, partial(keywords, ties))
    for name in ("breast_cancer", "wine", "digits", "boston"):
        samples = boston if name == "boston" else partial(data.built_in, name)
        third = "one-way 30" if name == "breast_cancer" else "pair 30"
        add(name, samples, "uniform 10", "uniform 20", third)
    add("census", partial(census, None), "uniform 10", "uniform 20", "one-way 30", "two columns 15")
    add("census 1:50", partial(census, 0.02), "one-way 30", "uniform 3")
    for name in ("census", "churn", "credit", "spam", "hpc", "leaf"):
        samples = partial(census, None) if name == "census" else partial(data.table, name)
        add(name, samples, *(MANY if name in ("hpc", "leaf") else FEW))
    add("cifar10n corrected", corrected, *MANY)
    for name, kinds in {
        "churn": ("uniform 10", "one-way 30", "pair 30"),
        "credit": ("uniform 10", "one-way 30"),
        "spam": ("uniform 10", "one-way 30"),
        "hpc": ("uniform 10", "pair 30"),
        "leaf": ("uniform 10", "pair 30"),
        "default": ("uniform 3",),
    }.items():
        add(name, partial(data.table, name), *kinds)
    for name, source in (("mnist", "mnist"), ("fashion", "fashion_mnist")):
        samples = partial(data.images, source, 4000)
        add(name, samples, *(f"uniform {r}" for r in (10, 20, 40)))
        add(name, samples, *(f"pair {r}" for r in (10, 30, 40)))
        results[f"{name} some classes 30"] = (samples, NOISES[f"{source} some classes 30"])
        add(name, samples, "input-dependent 20", "input-dependent 40")
        add(name, samples, *MANY)
        add(f"{name} 60000", partial(data.images, source, 60_000), "uniform 10")
    for name in data.FRESH:
        add(f"fresh {name}", partial(data.table, name), "uniform 10", "one-way 30", "neighbours 20")
    return results | _unchanged()


def _unchanged() -> dict[str, tuple[Samples, Noise | None]]:
    """Sets whose labels nobody changed: what is flagged is flagged in vain, or their own error."""
    results: dict[str, tuple[Samples, Noise | None]] = {}
    for name in ("digits", "wine", "breast_cancer"):
        results[f"{name} clean"] = (partial(data.built_in, name), None)
    for name in ("churn", "attrition", "default", "caravan", "credit"):
        results[f"{name} as shipped"] = (partial(data.table, name), None)
    for name in data.FRESH:
        results[f"fresh {name} clean"] = (partial(data.table, name), None)
    return results


CASES = {name: partial(drawn, *how) for name, how in _listed().items()}
