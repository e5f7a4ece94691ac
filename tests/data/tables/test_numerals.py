"""Numbers and dates in strings: every dialect, in files and frames, and what is no number."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest

import datassay as da
from datassay.data.tables.numerals import number_of, number_word, number_words, numeral
from datassay.errors import DataError

N = 80
RNG = np.random.default_rng(0)
Y = ["yes", "no"] * (N // 2)
U = [float(v) for v in RNG.normal(size=N)]


def grouped(whole, mark):
    """1234567 → 1,234,567, digit by digit."""
    digits, parts = str(whole), []
    while digits:
        digits, parts = digits[:-3], [digits[-3:], *parts]
    return mark.join(parts)


def indian(whole):
    head, tail = str(whole)[:-3], str(whole)[-3:]
    pairs = [head[max(0, i - 2) : i] for i in range(len(head), 0, -2)][::-1]
    return ",".join([*pairs, tail])


def decimals(hundredths, mark, group="", places=2):
    whole, part = divmod(abs(hundredths), 100)
    return (
        ("-" if hundredths < 0 else "") + grouped(whole, group) + f"{mark}{part:02}"[: places + 1]
    )


def scaled(c):
    return f"€{c / 100:.1f}M" if c % 2 else f"€{c}K"


# Hundredths → the word; the value that it stands for, where that is not a hundredth of them.
DIALECTS = {
    "German": (lambda c: decimals(c, ",", "."), None),
    "English": (lambda c: decimals(c, ".", ","), None),
    "dollars": (lambda c: ("-$" if c < 0 else "$") + decimals(abs(c), ".", ","), None),
    "euros": (lambda c: decimals(c, ",", ".") + "\u00a0€", None),
    "code": (lambda c: "CHF " + decimals(c, ".", "'"), None),
    "unit": (lambda c: decimals(c, ".") + " kg", None),
    "unit, comma": (lambda c: decimals(c, ",") + " km/h", None),
    "percent": (lambda c: decimals(c, ",") + " %", None),
    "bound": (
        lambda c: "<5" if abs(c) < 500 else str(c // 100),
        lambda c: 5 if abs(c) < 500 else c // 100,
    ),
    "account": (lambda c: f"({grouped(-c, ',')})" if c < 0 else grouped(c, ","), lambda c: c),
    "French": (lambda c: decimals(c, ",", "\u202f"), None),
    "Swiss": (lambda c: decimals(c, ".", "’"), None),
    "power": (lambda c: f"{c / 100:e}", None),
    "books": (lambda c: decimals(abs(c), ",", ".") + "-" * (c < 0), None),
    "lakh": (lambda c: indian(1000 + abs(c)), lambda c: 1000 + abs(c)),
    "scale": (
        lambda c: scaled(abs(c)),
        lambda c: round(abs(c) / 100, 1) * 1e6 if c % 2 else abs(c) * 1e3,
    ),
}  # fmt: skip


def columns():
    """Words and the numbers that they stand for, 32 columns in 16 dialects."""
    for kind, (word, value) in DIALECTS.items():
        for spread in (4, 7):
            cents = (RNG.choice([-1, 1], N) * 10 ** RNG.uniform(2, spread, N)).astype(int).tolist()
            cents[:3] = [123456, -9876543, 49]
            expected = [value(c) if value else c / 100 for c in cents]
            yield f"{kind} {spread}", [word(c) for c in cents], np.array(expected, dtype=float)


def loaded(how, tmp_path, table):
    if how == "frame":
        return da.load(pytest.importorskip("pandas").DataFrame(table.to_pydict()), target="y")[0]
    path = tmp_path / f"t.{how}"
    parquet.write_table(table, path) if how == "parquet" else csv.write_csv(table, path)
    return da.load(path, target="y")[0]


@pytest.mark.parametrize("how", ["frame", "arrow", "csv", "parquet"])
def test_every_dialect_is_read_or_named(tmp_path, how):
    made = {name: (words, expected) for name, words, expected in columns()}
    table = pa.table({n: words for n, (words, _) in made.items()} | {"u": U, "y": Y})
    samples = da.load(table)[0] if how == "arrow" else loaded(how, tmp_path, table)
    x = dict(zip(samples.feature_names, samples.x.T, strict=True))
    for name, (_, expected) in made.items():
        assert np.allclose(x[name], expected, rtol=1e-6), name
    told = [w for w in samples.warnings if "Strings are read as" in w]
    assert len(told) == 1 and "'German 4': '-98.765,43' is -98,765.43" in told[0]
    assert "limits such as '<5' (" in told[0]


GERMAN = [f"{i}.250,5" for i in range(1, N + 1)]
ENGLISH = [f"{i},250.5" for i in range(1, N + 1)]
KILOS = [f"{i}.5 kg" for i in range(N)]


def kind(values, **options):
    samples = da.load(pa.table({"u": U, "c": values, "y": Y}), target="y", **options)[0]
    warning = next((w for w in samples.warnings if "'c'" in w and "predicts" not in w), "")
    return samples.columns[1].read_as, warning


@pytest.mark.parametrize(
    ("values", "read_as", "told"),
    [
        # Names, codes and classes stay what they are, without a word.
        ([f"{i % 9:05}" for i in range(N)], "category", ""),
        ([f"{i % 2}.{i % 3}.{i % 5}" for i in range(N)], "category", ""),
        ([f"10.0.{i % 3}.{i % 5}" for i in range(N)], "category", ""),
        ([f"{i % 5 + 1} stars" for i in range(N)], "category", ""),
        ([f"Q{i % 4}" for i in range(N)], "category", ""),
        ([f"{i % 40}B" for i in range(N)], "category", ""),
        ([f"{i % 40}+" if i % 9 == 0 else "<5" for i in range(N)], "category", ""),
        ([("<=50K", ">50K")[i % 2] for i in range(N)], "category", ""),
        ([f"{10 * (i % 5)}-{10 * (i % 5) + 9}" for i in range(N)], "category", ""),
        ([f"{500 + i % 4} {100 + i % 5} 673" for i in range(N)], "category", ""),
        ([f"{i % 20 + 1}{('st', 'nd')[i % 2]}" for i in range(N)], "category", ""),
        # Quantities that are not read as numbers say so.
        *(
            (values, "category", "are words here")
            for values in (
                [f"{i % 9}h {i % 7:02}m" for i in range(N)],
                [f"{i % 3 + 4}'{i % 12}\"" for i in range(N)],
                [f"{i % 9 + 1}/{i % 7 + 2}" for i in range(N)],
                [f"{i % 9 + 1} 1/{i % 3 + 2}" for i in range(N)],
                [f"{i % 9}.5 x 10^{i % 3}" for i in range(N)],
                [f"{i % 9}.5 ± 0.{i % 3}" for i in range(N)],
            )
        ),
        # Numbers in spite of the few that are none, which are named.
        (["n.v.", "1,5", *GERMAN[2:]], "number", "no number: 'n.v.' (row 0)"),
        (["12 lb", *KILOS[1:]], "number", "1 is no number: '12 lb' (row 0)"),
        # Most lie below a limit.
        (["<5" if i % 4 else f"{i + 5}.2" for i in range(2 * N)][:N], "number", "limits such as"),
        (["12", *KILOS[1:]], "number", "values such as '12' (1) are without kg"),
        (["0.2", *(f"{i}.5 %" for i in range(1, N))], "number", "1 is no number: '0.2'"),
        # Neither one way of writing nor another: left as words, and said.
        ([*GERMAN[::2], *ENGLISH[1::2]], "left out", "100% of the values are numbers, but not by"),
        ([*KILOS[::2], *(f"{i}.5 lb" for i in range(0, N, 2))], "left out", "but not by one way"),
        ([f"{i % 9}.5" if i % 3 else "far" for i in range(N)], "category", "66% of the values are"),
        (["2020-01-02" if i % 3 else "soon" for i in range(N)], "category", "66% of the values"),
    ],
)  # fmt: skip
def test_what_is_a_number_and_what_is_none(values, read_as, told):
    result, warning = kind(values)
    assert result == read_as and (told in warning if told else not warning)


@pytest.mark.parametrize(
    ("words", "power"),
    [("k K tsd Tsd. thousand", 3), ("M mn Mio. mill million", 6), ("B bn Mrd. billion", 9)],
)
def test_a_word_behind_a_number_is_the_power_of_ten_that_it_names(words, power):
    for word in words.split():
        amounts = pa.array([f"${i}.5 {word}" for i in range(1, 30)], pa.large_string())
        read = number_words(amounts)
        np.testing.assert_allclose(read.values, (np.arange(1, 30) + 0.5) * 10.0**power)


@pytest.mark.parametrize("mark", [None, "?", " NA "])
@pytest.mark.parametrize("kind", [*DIALECTS, "plain", "codes", "names"])
def test_missing_values_count_neither_as_read_nor_as_unread(kind, mark):
    others = {"plain": lambda c: f"{c / 100}", "codes": lambda c: f"00{abs(c) % 90}",
              "names": lambda c: f"{abs(c) % 9} stars"}  # fmt: skip
    word = DIALECTS[kind][0] if kind in DIALECTS else others[kind]
    words = [word(c) for c in (123456, -9876543, 49, 5010, -777, 100400)]
    alone = number_words(pa.array(words, pa.large_string()))
    gaps = [part for w in words for part in (mark, w, mark, mark)]
    read = number_words(pa.array(gaps, pa.large_string()))
    np.testing.assert_array_equal(read.values[1::4], alone.values)
    assert (
        np.array_equal(read.is_number[1::4], alone.is_number) and np.isnan(read.values[::4]).all()
    )
    assert not read.is_number[::4].any() and read.is_mark[::4].all() == (mark is not None)
    for name in ("is_mostly", "is_code", "number_format", "decimal", "is_ambiguous", "notes",
                 "readable_share"):  # fmt: skip
        assert getattr(read, name) == getattr(alone, name), name


def test_what_is_ambiguous_is_decided_by_the_whole_column_and_then_the_table(tmp_path):
    def read(**columns):
        return number_words(pa.array(columns.pop("words"), pa.large_string()), **columns)

    assert read(words=["1,234", "5,678"]).values.tolist() == [1234, 5678]
    assert "alone could have another" in read(words=["1,234", "5,678"]).notes[0]
    assert read(words=["1,234", "5,67"]).values.tolist() == [1.234, 5.67]
    assert read(words=["0,234", "5,678"]).values.tolist() == [0.234, 5.678]
    assert read(words=["1.234", "5.678"]).values.tolist() == [1.234, 5.678]
    assert read(words=["1.234", "5.678"]).notes == ("1.234 is read with a decimal point",)
    assert read(words=["1.234", "5.678"], decimal=",").values.tolist() == [1234, 5678]
    assert read(words=["1.234", "1.234.567"]).values.tolist() == [1234, 1234567]
    assert read(words=["1.234", "500"], decimal=",").values.tolist() == [1234, 500]
    whole = read(words=["$5", "$7"])
    assert whole.values.tolist() == [5, 7] and not whole.is_ambiguous
    assert (whole.notes, whole.decimal) == ((), "")
    counts = [1001 + 7 * i for i in range(N)]
    rows = "".join(f"{grouped(c, '.')};{i},5;{Y[i]}\n" for i, c in enumerate(counts))
    (tmp_path / "t.csv").write_text("n;x;y\n" + rows)
    assert da.load(tmp_path / "t.csv")[0].x[:, 0].tolist() == counts
    frame = pa.table({"n": [grouped(c, ".") for c in counts], "x": [f"{i},5" for i in range(N)]})
    samples, _ = da.load(frame.append_column("y", pa.array(Y)), target="y")
    assert samples.x[:, 0].tolist() == counts and "'1.001' alone could have" in samples.warnings[0]


def test_dates_of_several_forms_in_a_column():
    days = [datetime.date(2020, 1, 14) + datetime.timedelta(days=11 * i) for i in range(N)]
    forms = ("%Y-%m-%d", "%d.%m.%y", "%b %d, %Y", "%Y.%m.%d")
    words = [day.strftime(forms[i % len(forms)]) for i, day in enumerate(days)]
    words[4], words[9] = "6. März 2020", "unknown"
    days[4] = datetime.date(2020, 3, 6)
    samples = da.load(pa.table({"d": words, "u": U, "y": Y}), target="y")[0]
    found = dict(zip(samples.feature_names, samples.x.T, strict=True))["d days"]
    expected = np.array([(day - days[0]).days for day in days])
    assert np.array_equal(np.delete(found, 9), np.delete(expected, 9))
    assert "year-month-day or " in samples.warnings[0]
    assert "1 is no date: 'unknown' (row 9)" in samples.warnings[0]


def test_later_rows_are_read_as_the_first_were(tmp_path):
    prices = [decimals(12345 + 999 * i, ",", ".") for i in range(N)]
    target = [decimals(70 * i * i, ",", ".") + " €" for i in range(N)]
    table = pa.table({"p": prices, "d": ["03/04/2020", "25/12/2020"] * (N // 2), "t": target})
    later = pa.table({"p": ["1.234", "2.500"], "d": ["03/04/2020"] * 2, "t": ["1.234", "7.000"]})
    csv.write_csv(later, tmp_path / "later.csv")
    train, val = da.load(table, val=tmp_path / "later.csv", target="t", task="regression")
    assert val.x[:, 0].tolist() == [1234, 2500] and val.y.tolist() == [1234, 7000]
    assert train.y[:2].tolist() == [0, 0.7]
    x = train.preparation.transform(pa.table({"p": ["1.234"], "d": ["03/04/2020"]}))
    assert x[0, 0] == 1234 and x[0, 1] == 4  # April
    with pytest.raises(DataError, match=r"'p' must hold what it held, number as 1\.234,5;"):
        train.preparation.transform(pa.table({"p": ["12.5"], "d": ["03/04/2020"]}))
    strays = later.set_column(0, "p", pa.array(["1,5", "x"]))
    with pytest.raises(DataError, match=r"no missing values.*: 'x' \(row 1\).* Rows count from 0"):
        da.load(table, val=strays, target="t", task="regression")
    gaps = table.set_column(0, "p", pa.array(["n.v.", *prices[1:]]))
    train, val = da.load(gaps, val=strays, target="t", task="regression")
    assert val.x[:, train.feature_names.index("p missing")].tolist() == [0, 1]
    assert any(w.startswith("val: ") and "'x' (row 1)" in w for w in train.warnings)


def test_a_new_target_is_written_as_the_others_are():
    assert number_word(-1234.5, "1.234,5 €") == "-1234,5 €"
    read = number_words(pa.array(["-1234,5 €"], pa.large_string()), "1.234,5 €")
    assert read.values.tolist() == [-1234.5]


@pytest.mark.parametrize("text", ["1_000", "0x10", "٣", "", "nan", "1e999", "9" * 5000, True, None])
def test_what_is_no_numeral(text):
    with pytest.raises(ValueError, match=r"is no finite number|limit"):
        number_of(text)


@pytest.mark.parametrize("value", [0.1 + 0.2, 2**53 + 1, -(2**62) - 1, 1e22, 5e-324, 3.0, -7])
def test_numerals_read_as_the_same_number(value):
    assert number_of(numeral(value)) == value and number_of(f" {value!r} ") == value
    whole = isinstance(value, int) or value == 3.0
    assert numeral(value) == (str(int(value)) if whole else repr(value))
