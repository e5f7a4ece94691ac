"""Conditions that a build fails on: read from words, judged by what a run found."""

import json
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from operator import ge, gt
from pathlib import Path
from typing import Any

from datassay.errors import DataError, SettingError
from datassay.optional import read_entry, text_if
from datassay.results import result

# The faults, and what is counted of each.
MEANINGS = {
    "wrong": "labels that are wrong",
    "leak": "columns that tell the target almost alone",
    "duplicates": "samples that repeat another, equally or nearly",
    "duplicates-across-split": "held-out samples that repeat a training sample",
    "conflicts": "equal rows under different labels",
    "outliers": "samples far from all others",
    "empty-rows": "rows without any value",
    "rare-classes": "classes of less than a tenth of an equal share",
    "drift": "columns that differ between sources, or from training to validation",
}
NOUNS = {"wrong": "wrong labels", "leak": "leaks"}  # of the faults whose names are none in plural
PASSED, FAILED, INCONCLUSIVE = "passed", "failed", "inconclusive"
FORM = re.compile(r"([a-z-]+)\s*(?:(>=?)\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?))?")
NAMED = 5  # samples or columns in a sentence


@result
class Condition:
    """What a build fails on: more of a fault than a limit."""

    words: str  # as it was given
    name: str  # of the quantity
    limit: Fraction = Fraction(0)  # a number, or a share of all
    is_share: bool = False
    fails_at_limit: bool = False  # whether the limit itself fails, as with >=

    @property
    def allowed(self) -> str:
        """What passes, in words: "no more than 3 % wrong labels"."""
        fault = NOUNS.get(self.name, self.name.replace("-", " "))
        if not self.limit:
            return f"no {fault}"
        number = float(self.limit) * (100 if self.is_share else 1)
        bound = "less than" if self.fails_at_limit else "no more than"
        return f"{bound} {number:g}{text_if(self.is_share, ' %')} {fault}"


@result
class Outcome:
    """What became of a condition.

    Attributes:
        condition: as it was given.
        status: PASSED, FAILED or INCONCLUSIVE.
        sentence: what there is of the fault, and why that is inconclusive.
        counted: how much there is of it, in words; empty where it was not looked for.
        name: of the fault.
        allowed: what passes, in words.
    """

    condition: str
    status: str
    sentence: str
    counted: str = ""
    name: str = ""
    allowed: str = ""


def read_condition(words: str) -> Condition:
    """Return the parsed condition, such as "wrong > 2 %"; raise SettingError if it is none."""
    match = FORM.fullmatch(words.strip().casefold())
    if match is None or match[1] not in MEANINGS:
        raise SettingError(
            "fail_on must be a fault, with a limit where some of it is allowed, as in "
            f"'wrong > 2 %' or leak; got {words!r}. The faults: {', '.join(MEANINGS)}."
        )
    name, sign, number, percent = match.groups()
    limit = Fraction(number or 0) / (100 if percent else 1)
    if percent and limit > 1:
        raise SettingError(f"fail_on must have a share of at most 100 %; got {words!r}.")
    return Condition(words.strip(), name, limit, bool(percent), fails_at_limit=sign == ">=")


def read_baseline(path: Path) -> dict[str, Any]:
    """Return the summary.json of an earlier run; raise if it has no counts to compare with."""
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no JSON"
        raise DataError(
            f"baseline must name the summary.json of an earlier check; {path} cannot be read: "
            f"{why}. Check the spelling."
        ) from error
    checks = read_entry(summary, "checks")
    if not isinstance(checks, dict):
        raise DataError(
            f"baseline must name the summary.json of datassay check, run or score; {path} has no "
            "checks. Write one: datassay check DATA --fail-on leak --out baseline."
        )
    return summary


def judge(
    conditions: Iterable[Condition],
    summary: Mapping[str, Any],
    baseline: Mapping[str, Any] | None = None,
) -> tuple[Outcome, ...]:
    """Return what becomes of each condition.

    Args:
        conditions: to be judged.
        summary: `checks`, and the `origin` of the data, as summary.json holds them.
        baseline: the same of an earlier run, whose faults do not count; None: all count.

    Returns:
        FAILED where the least that there is lies above the limit, PASSED where the most does not,
        INCONCLUSIVE between, and where nothing was looked for.
    """
    return tuple(_judge_condition(condition, summary, baseline) for condition in conditions)


def _judge_condition(
    condition: Condition, summary: Mapping[str, Any], baseline: Mapping[str, Any] | None
) -> Outcome:
    """Return whether a condition passed, failed or is inconclusive, and a sentence why."""
    quantity = summary["checks"][condition.name]
    if not quantity["is_searched"]:
        return Outcome(
            condition.words, INCONCLUSIVE, f"not looked for: {quantity['why']}.",
            allowed=condition.allowed,
        )  # fmt: skip
    low = quantity["low"]
    high = quantity["high"]
    names = quantity["names"]
    note = ""
    if baseline is not None:
        low, high, names, note = _compare_with_baseline(condition.name, summary, baseline)
    limit = condition.limit * (quantity["total"] if condition.is_share else 1)
    is_above = ge if condition.fails_at_limit else gt
    status = INCONCLUSIVE
    if is_above(low, limit):
        status = FAILED
    if high is not None and not is_above(high, limit):
        status = PASSED
    examples = ", ".join([*map(str, names[:NAMED]), *["…"] * (len(names) > NAMED)])
    counted = f"{_word_count(low, high, quantity)}{note}"
    sentence = f"{counted}{text_if(examples, f' ({examples})')}"
    why = text_if(low != high, quantity["why"].rstrip("."))
    sentence = f"{sentence}{text_if(why, f': {why}')}."
    return Outcome(condition.words, status, sentence, counted, condition.name, condition.allowed)


def _word_count(low: int, high: int | None, quantity: Mapping[str, Any]) -> str:
    """Return a count known to lie in low … high in words, with its share of all."""
    total = quantity["total"]
    unit = quantity["unit"]
    if high is None and not low:
        return f"unknown of {total:,} {unit}"
    if high is None:
        return f"{low:,} or more of {total:,} {unit}"
    count = " to ".join(dict.fromkeys(f"{end:,}" for end in (low, high)))
    if not high:
        return f"none of {total:,} {unit}"
    share = " to ".join(dict.fromkeys(f"{100 * end / total:.2g}" for end in (low, high)))
    return f"{count} of {total:,} {unit}, {share} %"


def _compare_with_baseline(
    name: str, summary: Mapping[str, Any], baseline: Mapping[str, Any]
) -> tuple[int, int | None, list[Any], str]:
    """Return a quantity's new faults since the baseline: at least, at most, which, a note."""
    quantity = summary["checks"][name]
    earlier = baseline["checks"].get(name)
    low = quantity["low"]
    high = quantity["high"]
    names = quantity["names"]
    if earlier is None or not earlier["is_searched"]:
        return low, high, names, "; the baseline did not look for it"
    if _digest(summary) and _digest(summary) == _digest(baseline):
        return 0, 0, [], " new: the data are those of the baseline"
    if _can_match(quantity, summary) and _can_match(earlier, baseline):
        names = [name for name in names if name not in set(earlier["names"])]
        return len(names), len(names), names, " new since the baseline"
    if earlier["high"] is None:
        low = 0
    else:
        low = max(0, low - earlier["high"])
    if high is not None:
        high = max(0, high - earlier["low"])
    return low, high, [], " more than in the baseline"


def _digest(summary: Mapping[str, Any]) -> str:
    return (summary.get("origin") or {}).get("digest", "")


def _can_match(quantity: Mapping[str, Any], summary: Mapping[str, Any]) -> bool:
    """Return whether faults can be matched by id with those of another run of the data."""
    names = quantity["names"]
    inputs = (summary.get("origin") or {}).get("inputs", {})
    is_stable = inputs.get("ids") is not None or all(isinstance(name, str) for name in names)
    return is_stable and quantity["low"] == quantity["high"] == len(names)
