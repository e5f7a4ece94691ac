"""Base classes and page parts of commands that report on training samples."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datassay.commands.inputs import DataInputs
from datassay.data.samples import SampleSet
from datassay.optional import coalesce
from datassay.report.compose import compose
from datassay.report.drawing import draw, sample_texts
from datassay.report.page import Card, Gallery, Page, Row, Table
from datassay.report.tables import column, labels
from datassay.report.wording import gain_numbers
from datassay.results import result
from datassay.setting import default_of, settings_of
from datassay.stats import Interval


@result
class Findings:
    """The findings of a job.

    Attributes:
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    facts: dict[str, str] = field(default_factory=dict, kw_only=True)
    warnings: tuple[str, ...] = field(default=(), kw_only=True)


@result
class SampleFindings(Findings):
    """The findings of a job about training samples, in their order.

    Attributes:
        samples: the n training samples.
        validation: what is measured on; decides nothing unless a rule says so.
    """

    samples: SampleSet
    validation: SampleSet

    @property
    def metric(self) -> str:
        """The name of the score: "accuracy" or "R²"."""
        return self.samples.metric


def compose_page(
    template: str | Path,
    findings: Findings,
    blocks: Mapping[str, Any],
    numbers: Mapping[str, object],
    files: Mapping[str, str],
    *,
    ids: Mapping[str, tuple[str, ...]] | None = None,
) -> Page:
    """Return the page: a filled template, with the findings' facts and warnings on top."""
    samples = None
    if isinstance(findings, SampleFindings):
        samples = findings.samples
    return compose(
        template,
        blocks,
        {"findings": findings, "typed": partial(type_command, findings.facts), **numbers},
        ids=ids,
        facts=findings.facts,
        warnings=(*(samples.warnings if samples else ()), *findings.warnings),
        files=files,
        columns=samples.columns if samples else (),
    )


def split_words(command: str) -> list[str]:
    """Return a command's words, `--name=value` as two."""
    words = list[str]()
    for word in shlex.split(command):
        words += word.split("=", 1) if word.startswith("--") else [word]
    return words


def named_folder(facts: Mapping[str, str], default: str) -> str:
    """Return the folder that --out named, else `default`, quoted; "" if no command was typed."""
    words = split_words(facts.get("Command", ""))
    if "--out" in words:
        default = words[words.index("--out") + 1]
    return shlex.quote(default) if words else ""


def type_command(facts: Mapping[str, str], command: str, *options: str) -> str:
    """Return a further command on the data of the typed one; "" if none was typed."""
    words = split_words(facts.get("Command", ""))
    if len(words) < 3 or any(word.startswith("-") for word in words[1:3]):
        return ""
    n_words = {}  # of each option on the data: the flag, and its value unless it is a switch
    for name, spec in settings_of(DataInputs).items():
        n_words[spec.flag(name)] = 1 if default_of(DataInputs, name) is False else 2
    inputs = list[str]()
    for k, word in enumerate(words):
        if word in n_words:
            inputs += words[k : k + n_words[word]]
    return shlex.join(["datassay", command, words[2], *inputs, *options])


def retype(facts: Mapping[str, str], option: str, value: object) -> str:
    """Return the typed command with `option` set to `value`, without --out; "" if none was.

    The option is added where the command does not have it.
    """
    words = split_words(facts.get("Command", ""))
    for name in ("--out", option):
        if name in words:
            k = words.index(name)
            del words[k : k + 2]
    return shlex.join([*words, option, str(value)]) if len(words) > 1 else ""


def table(name: str, columns: Sequence[str], rows: Iterable[Sequence[str]], **opts: Any) -> Table:
    """Return a table of a page; the first cell of each row is its heading."""
    lines = tuple(Row(heading, tuple(cells)) for heading, *cells in rows)
    return Table(name, tuple(columns), lines, **opts)


def change_cells(change: Interval, metric: str) -> tuple[str, str]:
    """Return the interval of a change of score, and the change, as tables show them."""
    gain, low, high = gain_numbers(change.gain, change.low, change.high, metric)
    return f"{low} to {high}", gain


def sample_table(
    samples: SampleSet,
    scores: Mapping[str, Any],
    further_columns: Mapping[str, Any] | None = None,
    *,
    with_truth: bool = True,
) -> pa.Table:
    """Return a table with a row per sample, its label between `scores` and `further_columns`."""
    columns = {"id": column(samples.ids), **scores, "label": column(samples.y)}
    if samples.is_classification:
        columns["class_name"] = labels(samples, samples.y)
    columns |= further_columns or {}
    if with_truth and samples.true_y is not None:
        columns["true_label"] = labels(samples, samples.true_y)
    if samples.source is not None:
        columns["source"] = column(samples.source)
    return pa.table(columns)


def sample_gallery(
    samples: SampleSet, positions: np.ndarray, card_fields: Iterable[Mapping[str, Any]], **opts: Any
) -> Gallery:
    """Return a gallery with a card per position; `card_fields` has further fields of each card."""
    source: Any = coalesce(samples.source, [""] * len(samples))
    cards = (
        Card(**sample_texts(samples, i), drawing=drawing, source=str(source[i]), **fields)
        for i, drawing, fields in zip(positions, draw(samples, positions), card_fields, strict=True)
    )
    return Gallery(cards=tuple(cards), class_names=samples.class_names, **opts)
