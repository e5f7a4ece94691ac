"""Weak groups, the order of rows, empty rows, images: planted faults are found, and no others."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter
from scipy.stats import rankdata

import datassay as da
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.score.checks.codes import row_codes
from datassay.score.checks.data_issues import data_issues
from datassay.score.checks.duplicates import duplicates
from datassay.score.checks.images import alone_accuracy, image_issues, image_properties
from datassay.score.checks.row_order import difference_sums, order_issues, order_moments
from datassay.score.checks.weak_groups import weak_group_issues, weak_groups

REGIONS = np.array(["north", "south", "east", "west"])


def people(n=1200, seed=0):
    """A table, and its samples of two classes that no column tells."""
    rng = np.random.default_rng(seed)
    rows = pa.table({
        "age": rng.integers(18, 80, n),
        "region": REGIONS[rng.integers(0, 4, n)],
        "income": pa.array(rng.lognormal(10, 1, n), mask=rng.random(n) < 0.1),
        "since": pa.array(rng.integers(10_000, 20_000, n).astype("datetime64[D]")),
    })
    y = rng.integers(0, 2, n)
    return SampleSet(rng.normal(size=(n, 1)), y, np.arange(n), ("no", "yes"), rows=rows)


def judged(train, wrong):
    """Held-out probabilities that name the other class of these samples."""
    return np.eye(2)[np.where(wrong, 1 - train.y, train.y)]


def found(issues, kind):
    return next((one for one in issues if one.kind == kind), None)


def test_a_weak_group_is_named_by_its_columns_with_its_accuracy():
    train, rng = people(), np.random.default_rng(1)
    age, region = np.asarray(train.rows["age"]), np.asarray(train.rows["region"])
    group = (age < 31) & (region == "north")
    wrong = rng.random(1200) < np.where(group, 0.6, 0.05)
    issues = data_issues(train, held_out=judged(train, wrong)).issues
    one = found(issues, "weak groups")
    assert "Where " in one.sentence and "region is north" in one.sentence
    assert "age is below 3" in one.sentence and one.n_groups == 1
    assert abs(one.count - group.sum()) < 0.2 * group.sum()
    (only,) = weak_groups(train.rows, wrong.astype(float), np.arange(1200) % 2 == 0)
    judge = only.samples & (np.arange(1200) % 2 == 1)  # figures are of the other half
    assert only.error.gain == pytest.approx(wrong[judge].mean())
    assert only.error.low < 0.6 < only.error.high
    assert (only.samples & group).sum() / (only.samples | group).sum() > 0.8


@pytest.mark.parametrize("column", ["income is missing", "since is below 20"])
def test_missing_values_and_dates_tell_groups(column):
    train, rng = people(), np.random.default_rng(0)
    rows = train.rows
    since = rows["since"].to_numpy() < np.datetime64("2005-01-01")
    group = rows["income"].is_null().to_numpy() if "income" in column else since
    wrong = rng.random(1200) < np.where(group, 0.5, 0.05)
    one = found(data_issues(train, held_out=judged(train, wrong)).issues, "weak groups")
    assert f"Where {column}" in one.sentence


def test_errors_that_no_column_tells_make_no_group():
    train, alarms = people(), 0
    for seed in range(60):
        wrong = np.random.default_rng(seed).random(1200) < 0.2
        alarms += bool(weak_group_issues(train, judged(train, wrong), train.rows))
    assert alarms <= 1
    assert not found(data_issues(train).issues, "weak groups")  # nothing held out, nothing told


def test_weak_groups_of_targets_of_sources_and_of_known_groups():
    train, rng = people(), np.random.default_rng(0)
    source = REGIONS[rng.integers(0, 4, 1200)]
    error = rng.normal(size=1200) * np.where(source == "west", 5, 1)
    numbers = replace(train, y=error, class_names=(), source=source)
    one = found(data_issues(numbers, held_out=np.zeros((1200, 1))).issues, "weak groups")
    assert "Where source is west, the mean error is" in one.sentence
    # 40 groups that are right or wrong as a whole are 40 facts, no 1 200.
    owner = rng.integers(0, 40, 1200)
    rows = pa.table({"owner": (owner % 3).astype(str)})
    wrong = np.isin(owner, [1, 4, 7, 2, 22, 25])
    assert weak_groups(rows, wrong.astype(float), owner < 20)
    assert not weak_groups(rows, wrong.astype(float), owner < 20, owner)


def test_moments_over_all_orders_are_those_of_all_permutations():
    rng, n = np.random.default_rng(0), 6
    a = rng.random((n, n))
    a = (a + a.T) * (1 - np.eye(n))
    values = rng.random(n)
    d = np.abs(values[:, None] - values)
    by_hand = [(a * d[np.ix_(p, p)]).sum() for p in map(list, permutations(range(n)))]
    sums = a.sum(), (a**2).sum(), (a.sum(1) ** 2).sum()
    result = order_moments(sums, difference_sums(values), n)
    np.testing.assert_allclose(result, (np.mean(by_hand), np.std(by_hand)))


def ordered(x, y, classes=("a", "b", "c")):
    train = SampleSet(x, y, np.arange(len(x)), classes)
    rows = row_codes(pa.table({f"x{j}": column for j, column in enumerate(x.T)}))
    return order_issues(train, rows, duplicates(rows))


def test_shuffled_rows_are_in_no_order():
    rng, alarms = np.random.default_rng(0), 0
    centres = 3 * rng.normal(size=(3, 4))
    for n in [100, 300] * 100:
        y = rng.integers(0, 3, n)
        x = centres[y] + rng.normal(size=(n, 4)).round(1)
        alarms += bool(ordered(x, y))
    assert alarms <= 2


def test_sorted_blocked_and_drifting_rows_are_told():
    rng, n = np.random.default_rng(0), 400
    y = rng.integers(0, 3, n)
    x = 3 * rng.normal(size=(3, 4))[y] + rng.normal(size=(n, 4))
    order = np.argsort(y, kind="stable")
    (one,) = ordered(x[order], y[order])
    assert one.severity == "fine" and "Sorted by label: harmless" in one.sentence
    blocks = np.argsort(rankdata(rng.random(40))[np.arange(n) % 40] * 3 + y, kind="stable")
    (one,) = ordered(x[blocks], y[blocks])
    assert one.severity == "look" and "have the label of the row before" in one.sentence
    assert "--time" in one.sentence and one.counted == "400 rows"
    recorded = rng.normal(size=(40, 4)).repeat(10, 0) + 0.1 * rng.normal(size=(n, 4))
    (one,) = ordered(recorded, y)
    assert "Nearest neighbours are 9" in one.sentence and "label" not in one.sentence
    drifting = x + np.array([0, 0, 2, 0]) * np.linspace(0, 1, n)[:, None]
    (one,) = ordered(drifting, y)
    assert "Correlated with the row number: x2 (0." in one.sentence
    (one,) = ordered(x, x[:, 0].cumsum(), ())
    assert "Targets of samples next to each other differ by 9" in one.sentence


def test_order_is_silent_where_it_says_nothing():
    train = people(60)
    rows, y = row_codes(train.rows), np.sort(train.y)
    named = replace(train, y=y, groups=np.arange(60) // 2)
    assert order_issues(replace(train, y=y), rows, duplicates(rows))
    assert not order_issues(named, rows, duplicates(rows))
    folder = replace(train, y=y, kind="image", ids=np.array([f"a/{i}" for i in range(60)]))
    assert not order_issues(folder, rows, duplicates(rows))
    assert not order_issues(train.subset(np.arange(20)), rows, duplicates(rows))


def test_empty_rows_are_named():
    rows = people(100).rows.to_pylist()
    rows[7], rows[90] = ({name: None for name in rows[0]} for _ in range(2))
    train = replace(people(100), rows=pa.Table.from_pylist(rows))
    one = found(data_issues(train).issues, "empty rows")
    assert one.severity == "act" and one.counted == "2 rows" and ": 7, 90." in one.sentence
    texts = replace(people(100), rows=None, texts=np.array(["a b"] * 50 + [" "] + ["c"] * 49))
    assert ": 50." in found(data_issues(texts).issues, "empty rows").sentence


def pictures(n=200, channels=3, side=32, seed=0):
    """Smooth coloured scenes with noise."""
    rng = np.random.default_rng(seed)
    x = gaussian_filter(rng.normal(size=(n, channels, side, side)), (0, 0, 3, 3))
    x = 0.5 + 3 * x + 0.05 * rng.normal(size=x.shape)
    return x.clip(0, 1).astype(np.float32)


def of_images(x, y=None):
    y = np.arange(len(x)) % 2 if y is None else y
    return SampleSet(x, y, np.arange(len(x)), ("a", "b"), kind="image")


FAULTS = {
    "near-blank images": lambda x: 0.5 + 0.01 * (x - 0.5),
    "dark images": lambda x: 0.25 * x,
    "light images": lambda x: 1 - 0.25 * x,
    "blurred images": lambda x: gaussian_filter(x, (0, 0, 2, 2)),
    "greyscale images": lambda x: x.mean(1, keepdims=True).repeat(3, 1),
}


@pytest.mark.parametrize("scale", [1, 255])
@pytest.mark.parametrize("kind", FAULTS)
def test_planted_faults_of_images_are_found_and_no_others(kind, scale):
    x = pictures()
    x[:5] = FAULTS[kind](x[:5])
    train = of_images((scale * x).astype(np.float32))
    issues = image_issues(train, image_properties(train))
    assert [one.kind for one in issues] == [kind]
    assert issues[0].counted == "5 images" and ": 0, 1, 2, 3, 4." in issues[0].sentence
    last = of_images((scale * x).transpose(0, 2, 3, 1).astype(np.float32))
    contrasts = [image_properties(one)["contrast"].to_numpy() for one in (train, last)]
    np.testing.assert_allclose(*contrasts, rtol=1e-4)


def test_what_many_images_have_is_no_fault_nor_are_digits():
    x = pictures()
    x[:50] = FAULTS["dark images"](x[:50])
    train = of_images(x, np.random.default_rng(0).integers(0, 2, 200))
    assert not image_issues(train, image_properties(train))
    digits, _ = da.load("digits", val_fraction=0)
    assert not image_issues(digits, image_properties(digits))


def test_a_property_that_tells_the_class_is_named():
    x, y = pictures(), np.arange(200) % 2
    x[y == 1] = 0.5 * x[y == 1]
    train = of_images(x, y)
    one = found(image_issues(train, image_properties(train)), "spurious properties")
    assert one.sentence.startswith("One property alone tells the class: ")
    assert "brightness (100 %)" in one.sentence and "50 % by chance" in one.sentence


def test_a_property_alone_is_judged_by_leaving_each_image_out():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [20, 30, 50])
    values = rng.normal(size=100) + 2 * y
    bins = np.searchsorted(np.quantile(values, np.arange(1, 10) / 10), values)
    right = np.zeros(100)
    for i in range(100):
        others = np.arange(100) != i
        share = [np.mean(bins[others & (y == c)] == bins[i]) for c in range(3)]
        right[i] = all(share[y[i]] > share[c] for c in range(3) if c != y[i])
    by_hand = np.mean([right[y == c].mean() for c in range(3)])
    assert alone_accuracy(values, y) == pytest.approx(by_hand)


def test_files_of_odd_size_are_named(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(60):
        (folder := tmp_path / "ab"[i % 2]).mkdir(exist_ok=True)
        size = {0: (40, 300), 1: (400, 400)}.get(i, (60 + i % 3, 60))
        pixels = gaussian_filter(rng.integers(0, 255, (*size, 3)).astype(float), (1, 1, 0))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i:02}.png")

    def encode(train, val):
        return replace(train, x=np.random.default_rng(0).normal(size=(len(train), 4))), val

    train, _ = da.load(tmp_path, val_fraction=0, encode=encode)
    one = found(data_issues(train).issues, "images of odd size")
    assert one.counted == "2 images" and "a/00.png, b/01.png" in one.sentence


def test_samples_without_labels():
    x = pictures()
    x[3], x[10] = 0.5, x[20]
    issues = data_issues((x, None)).issues
    assert found(issues, "near-blank images").count == 1
    assert found(issues, "equal rows").count == 1
    assert not any("label" in one.kind or "target" in one.kind for one in issues)
    frame = people(100).rows.to_pandas()
    frame.loc[[5, 7]] = None
    assert ": 5, 7." in found(data_issues((frame, None)).issues, "empty rows").sentence
    with pytest.raises(DataError, match="y is None for samples without labels"):
        data_issues(x)
