"""Weak groups, the order of rows, empty rows, images: planted faults are found, and no others."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

import datassay as da
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.score.checks.data_issues import data_issues
from datassay.score.checks.images import alone_accuracy, image_issues, image_properties
from datassay.score.checks.together import order_issues
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


def judged(train, wrong):  # held-out probabilities that name the other class of these
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
    for seed in range(30):
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


def order(x, y, classes=("a", "b"), **more):
    train = SampleSet(x, y, np.arange(len(x)), classes, **more)
    lin = da.collect(da.build_model("mlp:width=16", train, seed=0), train)
    return order_issues(lin, train, da.label_issues(lin))


def stretches(n=300, seed=0):
    """Twenty sources below each other in the file, each of other inputs; their labels differ."""
    rng, source = np.random.default_rng(seed), np.arange(n) * 20 // n
    x = rng.normal(size=(20, 4))[source] + 0.2 * rng.normal(size=(n, 4))
    return x, (rng.permutation(20) % 2)[source], rng.permutation(n)


def test_an_order_of_rows_is_told_where_new_stretches_are_predicted_worse():
    for seed in range(1, 3):
        x, y, mixed = stretches(seed=seed)
        (one,) = order(x, y)
        assert one.severity == "look" and one.counted == "300 rows" and "(--time)" in one.sentence
        by_rows, new = map(float, re.findall(r"0\.\d\d|1\.00", one.sentence))
        assert by_rows > 0.9 and new < 0.7 and "stretches of rows that were never" in one.sentence
        (one,) = order(x, x[:, 0] * (2.0 * y - 1), ())
        assert "Held-out R² is " in one.sentence
        assert not order(x[mixed], y[mixed])
        assert not order(x, y, groups=np.arange(300) // 15)


def test_rows_sorted_by_label_or_target_or_shuffled_are_in_no_order():
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(3):
        y = rng.integers(0, 3, 120)
        x = 2 * np.eye(3)[y] + rng.normal(size=(120, 3))
        by_class, by_target = np.argsort(y, kind="stable"), np.argsort(x[:, 0])
        alarms += bool(order(x, y, tuple("abc"))) + bool(order(x, x.sum(1), ()))
        alarms += bool(order(x[by_class], y[by_class], tuple("abc")))
        alarms += bool(order(x[by_target, 1:], x[by_target, 0], ()))
    assert not alarms


def test_empty_rows_are_named():
    rows = people(100).rows.to_pylist()
    rows[7], rows[90] = ({name: None for name in rows[0]} for _ in range(2))
    train = replace(people(100), rows=pa.Table.from_pylist(rows))
    one = found(data_issues(train).issues, "empty rows")
    assert one.severity == "act" and one.counted == "2 rows" and ": 7, 90." in one.sentence
    texts = replace(people(100), rows=None, texts=np.array(["a b"] * 50 + [" "] + ["c"] * 49))
    assert ": 50." in found(data_issues(texts).issues, "empty rows").sentence


def pictures():
    """Smooth coloured scenes with noise."""
    rng = np.random.default_rng(0)
    x = 0.5 + 3 * gaussian_filter(rng.normal(size=(200, 3, 32, 32)), (0, 0, 3, 3))
    return (x + 0.05 * rng.normal(size=x.shape)).clip(0, 1).astype(np.float32)


def of_images(x, y=None):
    y = np.arange(len(x)) % 2 if y is None else y
    return SampleSet(x, y, np.arange(len(x)), ("a", "b"), kind="image")


FAULTS = {
    "near-blank images": lambda x: 0.5 + 0.01 * (x - 0.5),
    "dark images": lambda x: 0.25 * x,
    "light images": lambda x: 1 - 0.25 * x,
    "blurred images": lambda x: gaussian_filter(x, (0, 0, 2, 2)),
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


def test_flat_icons_are_not_blurred():
    """Steps alone are sharp, however few there are beside those that have many."""
    x = np.zeros((60, 1, 32, 32), np.float32)
    for i in range(60):
        x[i, 0, :, i % 5 :: 4] = 0.9
    for i in range(3):
        x[i] = 0
        x[i, 0, 8 + i : 20, 9:21] = 0.8
        x[i, 0, 7 + i, 9:21] = 0.4  # smoothed
    x += np.float32(0.1)
    train = of_images(x)
    kinds = [issue.kind for issue in image_issues(train, image_properties(train))]
    assert "blurred images" not in kinds


def test_what_many_images_have_is_no_fault_but_a_property_that_tells_the_class_is():
    x, y = pictures(), np.arange(200) % 2
    x[:50] = FAULTS["dark images"](x[:50])
    digits, _ = da.load("digits", val_fraction=0)
    for train in (of_images(x), digits):
        assert not image_issues(train, image_properties(train))
    x = pictures() * np.where(y, np.float32(0.5), np.float32(1))[:, None, None, None]
    train = of_images(x, y)
    one = found(image_issues(train, image_properties(train)), "spurious properties")
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

    encoded = np.random.default_rng(0).normal(size=(60, 4))
    train, _ = da.load(tmp_path, val_fraction=0, encode=lambda t, v: (replace(t, x=encoded), v))
    one = found(data_issues(train).issues, "images of odd size")
    assert one.counted == "2 images" and "a/00.png, b/01.png" in one.sentence


def test_samples_without_labels():
    x = pictures()
    x[3], x[10] = 0.5, x[20]
    issues = data_issues((x, None)).issues
    assert found(issues, "near-blank images").count == 1
    assert found(issues, "equal inputs").count == 1
    assert not any("label" in one.kind or "target" in one.kind for one in issues)
    frame = people(100).rows.to_pandas()
    frame.loc[[5, 7]] = None
    assert ": 5, 7." in found(data_issues((frame, None)).issues, "empty rows").sentence
    with pytest.raises(DataError, match="train must be a SampleSet, a pair"):
        data_issues(x)
