"""Mixed data on purpose, each sample's block in `source`: is the mixture seen and taken apart?"""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from jaxtyping import Int

from datassay import rules
from datassay.data.samples import SampleSet
from datassay.data.settings import check_seed
from datassay.data.source import Task
from datassay.errors import DataError
from datassay.optional import coalesce

# Alphabetical, and the labels in rising order of score.
LETTERS = ("B", "D", "N", "R")
_RISING = np.array([0, 2, 1, 3])
# S4 §4, row l for function l + 1: letter weights of B, D, N, R in tenths, feature weights in
# halves, thresholds in twentieths. Whole numbers, so that a score on a threshold is on it.
_LETTER_TENTHS = np.array([[-3, -10, 3, 10], [6, 10, -8, -4], [-8, 4, -2, 12]])
_FEATURE_HALVES = np.array([
    [2, -2, 2, -2, 2, -2, 2, -2, 2, -2],
    [1, 1, -2, 2, 0, -1, 2, -2, 1, -1],
    [2, 1, 2, 2, 1, -1, -2, -3, -1, 2],
])
_THRESHOLD_TWENTIETHS = np.array([[-40, 0, 40], [-30, 0, 30], [-50, 0, 40]])
# Of the target in the regression form of routable_mixture, whose slopes have length 1.
_TARGET_NOISE = 0.1


def sd_mixture(sizes: Sequence[int] = (700, 300), *, seed: int = 0) -> SampleSet:
    """Draw strings of ten letters, labelled by up to three functions: SD-K of S4.

    Block l holds sizes[l − 1] inputs, uniform over {B, D, N, R}^10, with the label of function l:

    score C = Σ_i feature_weight_i · letter_weight(x_i);  label B if C ≤ a_1, N if a_1 < C ≤ a_2,
    D if a_2 < C ≤ a_3, R if a_3 < C

    Inputs say nothing about the block: no router can tell the functions apart.

    Args:
        sizes: samples of functions 1, 2, 3, in that order; 0 leaves one out.
        seed: of inputs and order, 0 ≤ seed < 2^32.

    Returns:
        A shuffled set, x [n, 40] one-hot letters, y the letter's place in B, D, N, R; `source`
        is "function 1", ... and the name sd1, sd2 or sd3.

    Raises:
        DataError: not 1 to 3 sizes, a size that is no count, no sample at all, or a bad seed.

    Source: S4 §4 for weights and thresholds. Deviates from its Eq. (15) in the order of the labels
        (printed R, D, B, N), which is that of its shipped files. These give 97.5 % of the 9,000
        rows their label: all but 223 with a score on a threshold, where the files follow the
        rounding of a floating-point sum from left to right and we the printed ≤.
    """
    _check_sizes(sizes, len(_LETTER_TENTHS), "functions")
    check_seed(seed)
    rng = np.random.default_rng(seed)
    block = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    letters = rng.integers(0, len(LETTERS), (len(block), _FEATURE_HALVES.shape[1]))
    y = np.empty(len(block), dtype=np.int64)
    for function in range(len(sizes)):
        y[block == function] = letter_labels(letters[block == function], function)
    return letter_samples(letters, y, block, name=f"sd{len(sizes)}")


def letter_samples(
    letters: Int[np.ndarray, "n ten"],
    y: Int[np.ndarray, " n"],
    block: Int[np.ndarray, " n"],
    *,
    name: str,
) -> SampleSet:
    """Return the set of these strings of letters, one-hot coded, as `sd_mixture` makes it.

    Args:
        letters: indices in B, D, N, R.
        y: [n], index of the label's letter.
        block: the function behind each label, counted from 0.
        name: of the set.

    Returns:
        x [n, 4 · ten] float64: for each letter in turn, whether it is B, D, N, R.
    """
    n, length = letters.shape
    return SampleSet(
        x=np.eye(len(LETTERS))[letters].reshape(n, -1),
        y=y.astype(np.int64),
        ids=np.arange(n),
        class_names=LETTERS,
        feature_names=tuple(f"x{i + 1}={letter}" for i in range(length) for letter in LETTERS),
        source=np.array([f"function {b + 1}" for b in block]),
        name=name,
    )


def letter_labels(letters: Int[np.ndarray, "n ten"], function: int) -> Int[np.ndarray, " n"]:
    """Return the labels that one of the three rules gives.

    Args:
        letters: [n, 10], 0 to 25.
        function: 0, 1 or 2.

    Returns:
        [n] labels, 0 to 25.
    """
    score = _LETTER_TENTHS[function][letters] @ _FEATURE_HALVES[function]
    return _RISING[np.searchsorted(_THRESHOLD_TWENTIETHS[function], score, side="left")]


def routable_mixture(
    sizes: Sequence[int] = (500, 500),
    *,
    n_classes: int = 4,
    n_features: int = 10,
    overlap: float = 0.05,
    task: Task = "classification",
    seed: int = 0,
) -> SampleSet:
    """Draw blocks with clashing rules in overlapping regions: the input tells most blocks.

    z = c_k + standard normal,  x = R z with R a rotation that hides the axes and is the same for
    every seed: another seed is a fresh draw from the same distribution. Block k's centre c_k
    stands on the k-th of the first K axes; targets depend on the axes after them only,
    u = (z_{K+1}, ...): y = (argmax_c u_c + k) mod n_classes, so no two blocks agree on the label
    of any input, or, for regression, y = u_k + 0.1 · standard normal.

    Args:
        sizes: samples of block 1, 2, ...
        n_classes: all about equally frequent; not used for regression.
        n_features: at least K + n_classes, or 2 K for regression; axes beyond are noise.
        overlap: chance, in (0, 0.5], that the best rule errs between two equally large blocks,
            which is linear: centres are −2 Φ⁻¹(overlap) apart. 0.5: no router can work.
        task: which kind of target.
        seed: of samples and order, 0 ≤ seed < 2^32.

    Returns:
        A shuffled set, x [n, n_features]; `source` is "block 1", ...

    Raises:
        DataError: a setting is outside its rule.
    """
    n_blocks = len(sizes)
    n_rules = n_blocks
    if task == "classification":
        n_rules = n_classes
    rules.one_of("task", task, ("classification", "regression"), error=DataError)
    if task == "classification":
        rules.integer("n_classes", n_classes, 2, error=DataError)
    # More blocks than rules and two of them would agree.
    _check_sizes(sizes, n_rules, "blocks, as many as classes at most")
    needed = n_blocks + n_rules
    why = f", a direction for each of {n_blocks} blocks and {n_rules} rules"
    rules.integer("n_features", n_features, needed, why=why, remedy="Raise it.", error=DataError)
    why = ", 0.5 for blocks in the same place"
    rules.in_interval("overlap", overlap, 0, 0.5, "(]", why=why, error=DataError)
    check_seed(seed)
    rng = np.random.default_rng(seed)
    block = rng.permutation(np.repeat(np.arange(n_blocks), sizes))
    z = rng.standard_normal((len(block), n_features))
    rule = z[:, n_blocks : n_blocks + n_rules].copy()  # [n, n_rules]
    distance = -2 * NormalDist().inv_cdf(float(overlap))
    z[np.arange(len(block)), block] += distance / 2**0.5
    if task == "classification":
        y = (rule.argmax(axis=1) + block) % n_classes
    else:
        noise = rng.standard_normal(len(block))
        y = rule[np.arange(len(block)), block] + _TARGET_NOISE * noise
    directions = np.random.default_rng(0).standard_normal((n_features, n_features))
    rotation, _ = np.linalg.qr(directions)
    return SampleSet(
        x=z @ rotation,
        y=y,
        ids=np.arange(len(block)),
        class_names=tuple(map(str, range(n_classes))) if task == "classification" else (),
        feature_names=tuple(f"x{i + 1}" for i in range(n_features)),
        source=np.array([f"block {b + 1}" for b in block]),
        name="routable",
    )


def clashing(sets: Sequence[SampleSet], *, shift: int = 1, seed: int = 0) -> SampleSet:
    """Join several sets, in which a label means another thing in each set.

    Class c of the i-th set, i = 0, 1, ..., becomes (c + i · shift) mod K.

    Args:
        sets: two or more classification sets, images or rows, with one input shape, K classes
            each, and different names.
        shift: of the labels from one set to the next.
        seed: of the order, 0 ≤ seed < 2^32.

    Returns:
        A shuffled set with the first set's class names; `source` is the name of the set a sample
        came from, its id that name, a colon and its id there. true_y, shifted alike, where a set
        has one.

    Raises:
        DataError: the sets do not fit together, or a shift by which two sets have equal labels.
    """
    _check_sets(sets)
    reference = sets[0]
    n_classes = sets[0].n_classes
    shifts = [i * shift % n_classes for i in range(len(sets))]
    if len(set(shifts)) < len(sets):
        raise DataError(
            f"shift must move the labels of each set differently; {shift!r} moves those of "
            f"{len(sets)} sets of {n_classes} classes by {', '.join(map(str, shifts))}. Take 1, or "
            "fewer sets than classes."
        )
    check_seed(seed)
    truth = [coalesce(s.true_y, s.y) for s in sets]
    pairs = list(zip(sets, shifts, strict=True))
    joined = SampleSet(
        x=np.concatenate([s.x for s in sets]),
        y=np.concatenate([(s.y + m) % n_classes for s, m in pairs]),
        ids=np.array([f"{s.name}:{i}" for s in sets for i in s.ids]),
        class_names=reference.class_names,
        kind=reference.kind,
        feature_names=reference.feature_names,
        true_y=np.concatenate([(t + m) % n_classes for t, m in zip(truth, shifts, strict=True)])
        if any(s.true_y is not None for s in sets)
        else None,
        source=np.repeat([s.name for s in sets], [len(s) for s in sets]),
        name=" + ".join(s.name for s in sets),
    )
    return joined.subset(np.random.default_rng(seed).permutation(len(joined)))


def _check_sizes(sizes: Sequence[int], max_sizes: int, noun: str) -> None:
    """Raise unless there are 1 to `max_sizes` numbers of samples."""
    if not 1 <= len(sizes) <= max_sizes:
        raise DataError(f"sizes must name 1 to {max_sizes} {noun}; got {len(sizes)} sizes.")
    if not all(isinstance(s, int | np.integer) and s >= 0 for s in sizes) or not sum(sizes):
        raise DataError(
            f"sizes must be counts of samples, 0 or more and not all 0; got {list(sizes)}."
        )


def _check_sets(sets: Sequence[SampleSet]) -> None:
    """Raise if `clashing` cannot join these sets."""
    if len(sets) < 2:
        raise DataError(f"at least two sets are needed to clash; got {len(sets)}.")
    names = [s.name for s in sets]
    if len(set(names)) < len(names):
        raise DataError(f"the sets' names must differ; got {', '.join(names)}. Rename one.")
    if any(s.kind == "text" for s in sets):
        raise DataError("text sets have features of their own each; pass images or rows.")
    if len({s.n_classes for s in sets}) > 1 or not sets[0].is_classification:
        raise DataError(
            "the sets must have the same number of classes, 2 or more; got "
            f"{', '.join(str(s.n_classes) for s in sets)} (0: regression)."
        )
    if len({s.input_shape for s in sets}) > 1:
        raise DataError(
            "the sets' inputs must have one shape; got "
            f"{', '.join(str(s.input_shape) for s in sets)}. Resize them."
        )
