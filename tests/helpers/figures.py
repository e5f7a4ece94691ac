"""Figures that stay: what drawn inputs give, each array as two sums that know its order, in a file.

For rules that were tuned, of which no independent computation says what is right.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "frozen"
TOLERANCE = 1e-5  # of an array's norm: fits end where little is to be gained
LONGEST = 250  # characters of a text; of a longer one its checksum


def figures(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield words as they are; of numbers how many are finite, their norm and two sums."""
    if is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    if isinstance(value, Mapping):
        for key, part in value.items():
            if part is not None and part is not False:  # as most are
                yield from figures(part, f"{place}.{key}")
    elif isinstance(value, tuple | list):
        for number, part in enumerate(value):
            yield from figures(part, f"{place}.{number}")
    elif np.asarray(value).dtype.kind not in "biuf":
        text = str(value.tolist() if hasattr(value, "tolist") else value)
        if text:
            yield place, text if len(text) < LONGEST else f"{text[:9]} ... {crc32(text.encode())}"
    else:
        flat = np.asarray(value, np.float64).ravel()
        values = np.where(np.isfinite(flat), flat, 0.0)
        waves = np.exp(1j * np.arange(len(flat))) @ values
        numbers = np.isfinite(flat).sum(), np.linalg.norm(values), waves.real, waves.imag
        yield place, " ".join(f"{number:.9g}" for number in numbers)


def is_kept(new: str | None, old: str | None) -> bool:
    """Return whether a figure is the one that was kept."""
    try:
        numbers = [np.array(text.split(" "), np.float64) for text in (new or "", old or "")]
    except ValueError:
        return new == old
    allowed = TOLERANCE * numbers[1][1] + 1e-12 if len(numbers[1]) == 4 else 0.0
    return new == old or np.allclose(*numbers, rtol=0, atol=allowed)


def frozen_test(file: str, cases: Mapping[str, Callable[[], Any]]) -> Callable[[str], None]:
    """Return a test of all cases: their figures are those of a file in `frozen/`."""

    @pytest.mark.parametrize("case", cases)
    def test(case):
        old, new = (
            json.loads((FOLDER / file).read_text("utf-8"))[case],
            dict(figures(cases[case]())),
        )
        places = dict.fromkeys([*old, *new])
        assert not [
            (p, old.get(p), new.get(p)) for p in places if not is_kept(new.get(p), old.get(p))
        ]

    return test


def freeze(file: str, cases: Mapping[str, Callable[[], Any]]) -> None:
    """Write the figures of all cases anew, after a change that is meant."""
    kept = {name: dict(figures(case())) for name, case in cases.items()}
    text = json.dumps(kept, indent=0, ensure_ascii=False) + "\n"
    (FOLDER / file).write_text(text, "utf-8")
