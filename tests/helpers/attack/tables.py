"""Tables as they come: one thing changed, or many. What loads must be what the file says."""

import csv
import io
import pickle
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from helpers.attack.attempt import Attempt
from helpers.attack.case import Case, damaged, loading, table, write_csv

NUMBERS = (1, 2, 3)  # places of the columns of numbers
STRAY = (
    *("?", "-", "None", "1,5", "12%", " ", "N/A", "nan", "inf", "1e999", "--", "TRUE", "n.a."),
    *("1.2.3", "0x1F", "1_000", "٣", "½", "1 000", "€5", "12 kg", "#REF!", "null", "1e", "∞"),
)
NASTY = (
    *("", " ", "=1+1", "<script>alert(1)</script>", "\x1b[31mred", "a\rb", "a\nb", "\u202eabc"),
    *("x" * 100_000, "'; drop", "{{7*7}}", "\x00", "\ufeff", "\U0001f600", "NaN", "label"),
)  # fmt: skip


def case(draw: random.Random, folder: Path) -> Case:
    """A table with one change or two, loaded."""
    lines = table(draw)
    target, ids = draw.choice([(None, None), ("label", "key"), ("share", "key"), ("age", None)])
    if draw.random() < 0.12:
        changes = [draw.choice(BYTES)]
        path = folder / "table.csv"
        path.write_bytes(changes[0](draw, _text(lines).encode()))
    else:
        changes = [draw.choice([*CELLS, *SHAPES])]
        changes[:0] = [draw.choice(CELLS)] * (draw.random() < 0.3)
        for change in changes:
            lines = change(draw, lines)
        path = _written(draw, folder, lines)
    name = " and ".join(change.__name__.strip("_") for change in changes)
    stored = folder.parent / "loaded.pickle"
    stored.unlink(missing_ok=True)
    work = loading(path.name, stored, target=target, ids=ids)
    gentle = path.suffix == ".csv" and target is None and {*changes} <= {*GENTLE}
    return Case(
        f"{path.suffix} {name}", work, lambda ended: _judged(ended, stored, path, target, ids),
        refused=False if gentle else None,
    )  # fmt: skip


def _lines(path: Path) -> list[list[str]]:
    """A table as another library reads it: every cell as text."""
    if path.suffix == ".parquet":
        columns = pq.read_table(path)
        cells = [["" if v is None else str(v) for v in c.to_pylist()] for c in columns.columns]
        return [columns.column_names, *map(list, zip(*cells, strict=True))]
    text = path.read_bytes()
    try:
        text = text.decode("utf-16" if text[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig")
    except UnicodeDecodeError:
        text = text.decode("cp1252")
    header = next(line for line in text.splitlines() if line.strip())
    separator = max(",;\t| ", key=header.count)
    return [line for line in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if line]


def _judged(
    ended: Attempt, stored: Path, path: Path, target: str | None, key: str | None
) -> str | None:
    """Rows, order, labels and numbers that loaded are those of the file, and none was left out."""
    if ended.status:
        return None
    sets = pickle.loads(stored.read_bytes())  # our own, of a moment ago
    header, *rows = _lines(path)
    read = sets[0]["read"]
    roles = {kind: name for name, (kind, _) in read.items()}
    target, key = target or roles["target"], key or roles.get("ids")
    ids = np.concatenate([s["ids"] for s in sets])
    without = sum(missing for kind, missing in read.values() if kind == "target")
    if len(ids) + without != len(rows):  # rows without a target are left out, and that is told
        return f"silent: {len(ids)} of {len(rows)} rows"
    of = header.index(target)
    where = {str(i): i for i in range(len(rows))}
    if key:  # of two with one id, the one that has a target: the other is left out
        order = sorted(enumerate(rows), key=lambda pair: bool(pair[1][of].strip()))
        where = {row[header.index(key)].strip(): i for i, row in order}
    index = [where[str(i).strip() if key else str(i)] for i in ids.tolist()]
    if any(index[i] > index[i + 1] for i in range(len(sets[0]["ids"]) - 1)):
        return "silent: samples in another order"
    rows = [rows[i] for i in index]
    y = np.concatenate([s["y"] for s in sets]).tolist()
    return _labels(sets[0]["classes"], y, [row[of] for row in rows]) or _columns(sets, header, rows)


def _labels(classes: tuple[str, ...], y: list, cells: list[str]) -> str | None:
    for cell, value in zip(cells, y, strict=True):
        label, number = classes[value] if classes else value, _number(cell)
        if number is None:  # "1,5" and "12 kg" have tests
            same = not classes or str(label).strip() == cell.strip()
        else:
            same = _number(str(label)) == number
        if not same:
            return f"silent: the label {cell!r} loaded as {label!r}"
    return None


def _columns(sets: list[dict], header: list[str], rows: list[list[str]]) -> str | None:
    names, read = sets[0]["names"], sets[0]["read"]
    for index, name in enumerate(header):
        values = [_number(row[index]) if index < len(row) else None for row in rows]
        kind, missing = read[name]
        numeric = sum(v is not None and np.isfinite(v) for v in values)
        if name in names:
            # Words with digits, such as "5 €", may count as numbers: tests of their own say which.
            words = [
                v is None and any(map(str.isdigit, row[index]))
                for v, row in zip(values, rows, strict=True)
            ]
            without = sum(v is None or not np.isfinite(v) for v in values)
            if not without - sum(words) <= missing <= without:
                return f"silent: column {name!r} has other missing values"
            if any(words):
                continue
            wanted = np.array([np.nan if v is None else v for v in values], dtype=float)
            wanted[~np.isfinite(wanted)] = np.nan
            wanted[np.isnan(wanted)] = np.nanmedian(wanted)  # and it is told how many they are
            x = np.concatenate([s["x"][:, names.index(name)] for s in sets])
            # What float32 may change is documented: a hundredth of a standard deviation.
            if not np.allclose(x, wanted, 1e-6, 0.01 * float(np.std(wanted))):
                return f"silent: column {name!r} holds other numbers"
        elif any(row[index][:1] == "0" and row[index][1:2].isdigit() for row in rows):
            continue  # codes, such as 007, are words
        elif 0.9 * len(rows) <= numeric < len(rows) and kind in {"category", "text"}:
            return f"silent: column {name!r} of numbers was read as words"
    return None


def _number(text: str) -> float | None:
    try:
        return float(text.replace("_", "x") if text.isascii() else "")
    except ValueError:
        return None


def _text(lines: list[list[str]]) -> str:
    file = io.StringIO(newline="")
    csv.writer(file).writerows(lines)
    return file.getvalue()


def _written(draw: random.Random, folder: Path, lines: list[list[str]]) -> Path:
    if draw.random() < 0.7 or not lines or len({*lines[0]}) < len(lines[0]):
        return write_csv(folder / "table.csv", lines)
    width = len(lines[0])
    rows = [[*line, *[None] * width][:width] for line in lines[1:]]
    columns = [_typed([row[index] for row in rows]) for index in range(width)]
    path = folder / "table.parquet"
    pq.write_table(pa.table(dict(zip(lines[0], columns, strict=True))), path)
    if draw.random() < 0.3:
        path.write_bytes(damaged(draw, path.read_bytes())[1])
    return path


def _typed(values: list) -> pa.Array:
    numbers = [_number(v) if v is not None else None for v in values]
    whole = all(n is not None for n in numbers)
    return pa.array(numbers if whole else values)


def _clean(draw, lines):
    return lines


def _stray_word(draw, lines):
    lines[draw.randrange(1, len(lines))][draw.choice(NUMBERS)] = draw.choice(STRAY)
    return lines


def _stray_words(draw, lines):
    for _ in range(draw.randint(2, 4)):
        lines = _stray_word(draw, lines)
    return lines


def _nasty_cell(draw, lines):
    lines[draw.randrange(len(lines))][draw.randrange(7)] = draw.choice(NASTY)
    return lines


def _nasty_column(draw, lines):
    position, word = draw.randrange(7), draw.choice(NASTY[:9])
    for k, row in enumerate(lines[1:]):
        row[position] = f"{word}{k % 3}"
    return lines


def _missing(draw, lines):
    for _ in range(draw.choice([1, 3, 40])):
        lines[draw.randrange(1, len(lines))][draw.randrange(7)] = ""
    return lines


def _constant(draw, lines):
    position = draw.randrange(7)
    for row in lines[2:]:
        row[position] = lines[1][position]
    return lines


def _scaled(draw, lines):
    scale, position = draw.choice([1e-150, 1e-40, 1e30, 1e38, 1e300]), draw.choice(NUMBERS)
    for row in lines[1:]:
        row[position] = repr(scale * (_number(row[position]) or 0.0))
    return lines


def _offset(draw, lines):
    position = draw.choice(NUMBERS)
    for row in lines[1:]:
        row[position] = str(1_700_000_000_000_000_000 + draw.randrange(100))
    return lines


def _big_ids(draw, lines):
    for k, row in enumerate(lines[1:]):
        row[0] = str(2 ** draw.choice([31, 53, 63, 64]) + 3 * k)
    return lines


def _same_ids(draw, lines):
    lines[2][0] = lines[1][0]
    return lines


def _leading_zeros(draw, lines):
    for k, row in enumerate(lines[1:]):
        row[draw.choice([0, 1])] = f"{k:05d}"
    return lines


def _short_row(draw, lines):
    lines[draw.randrange(len(lines))].pop()
    return lines


def _long_row(draw, lines):
    lines[draw.randrange(len(lines))].append(draw.choice(["", "1", "x"]))
    return lines


def _same_names(draw, lines):
    lines[0][draw.randrange(7)] = draw.choice(lines[0])
    return lines


def _no_name(draw, lines):
    lines[0][draw.randrange(7)] = draw.choice(["", " ", "\t"])
    return lines


def _no_header(draw, lines):
    return lines[1:]


def _few_rows(draw, lines):
    return lines[: draw.choice([0, 1, 2, 3, 4, 6])]


def _one_class(draw, lines):
    for row in lines[1:]:
        row[-1] = "yes"
    return lines


def _class_a_row(draw, lines):
    for k, row in enumerate(lines[1:]):
        row[-1] = f"class {k}"
    return lines


def _same_rows(draw, lines):
    return [lines[0], *([*row[:1], *lines[1][1:-1], row[-1]] for row in lines[1:])]


def _wide(draw, lines):
    more = draw.choice([50, 2000])
    for r, row in enumerate(lines):
        row[-1:-1] = [str((r * k) % 7) if r else f"c{k}" for k in range(more)]
    return lines


CELLS = (
    *(_stray_word, _stray_words, _nasty_cell, _nasty_column, _missing, _constant, _scaled),
    *(_offset, _big_ids, _same_ids, _leading_zeros, _clean),
)
# What costs no table: it must load.
GENTLE = (_leading_zeros, _wide, _clean)
SHAPES = (
    *(_short_row, _long_row, _same_names, _no_name, _no_header, _few_rows, _one_class),
    *(_class_a_row, _same_rows, _wide),
)


def _damaged(draw, content):
    return damaged(draw, content, ("flip", "cut"))[1]


def _inserted(draw, content):
    position = draw.randrange(len(content))
    more = draw.choice([b"\x00", b"\xff", b'"', b"\r", b"\xed\xa0\x80", b"\xef\xbb\xbf", b",,,,"])
    return content[:position] + more + content[position:]


def _other_lines(draw, content):
    return content.replace(b"\r\n", draw.choice([b"\n", b"\r", b"\n\n", b"\r\n\r\n", b" \n"]))


def _other_encoding(draw, content):
    text = content.decode().replace("Paris", "Zürich")
    return text.encode(draw.choice(["latin-1", "utf-16", "utf-8-sig", "utf-32"]))


def _other_separator(draw, content):
    return content.replace(b",", draw.choice([b";", b"\t", b"|", b" "]))


def _noise(draw, content):
    return draw.randbytes(draw.choice([0, 1, 100, 10_000]))


BYTES = (_damaged, _damaged, _inserted, _other_lines, _other_encoding, _other_separator, _noise)
