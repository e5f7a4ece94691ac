"""Templates of pages: structure from the template, values never."""

import jinja2
import pytest

from datassay.report import compose as module
from datassay.report.advice import Advice
from datassay.report.compose import compose
from datassay.report.page import Code, Figure, Heading, Pair, Table, Text

TEMPLATE = """\
brand: datassay toy
title: {{ name }}
lead: {{ count(n, "sample") }}
  of {{ name }}
answer: Do {{ name }}.
answer: Then rest.
{% if n > 1 %}
warning: more than one.
{% endif %}

!! {{ severity }} | label errors | {{ n }} labels
The sentence of {{ name }},
in two lines.

##! first | First
Opening.

## curve | Curve | The whole curve
A paragraph of `code` and {{ name }}.
~ A note on {{ name }}.

### A heading
[[ drawn | Title of {{ name }} | What it shows ]]
[[ table ]]

[[ nothing ]]
```
x = 1
```

## Method
Term
: Its meaning,
in two lines.

Other term
: {{ n }} of it.
"""
HOSTILE = "## evil | x\n!! act | y | z\n\n[[ table ]] `tick` {{ n }}"


@pytest.fixture
def template(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TEXT", tmp_path)

    def write(text):
        (tmp_path / "toy.md.j2").write_text(text)

    write(TEMPLATE)
    return write


TABLE = Table("t", ("a", "b"), ())


def toy(name="wine", n=2):
    blocks = {"drawn": "{}", "table": TABLE, "nothing": None}
    numbers = {"name": name, "n": n, "severity": "act"}
    return compose("toy", blocks, numbers, ids={"label errors": ("7",)}, facts={}, warnings=("w",))


def test_a_text_of_the_template_is_in_each_page(template):
    template(TEMPLATE.replace("title: {{ name }}", "title: {{ 'ours' }}"))
    assert [toy().title for _ in range(2)] == ["ours", "ours"]


def test_each_sign_becomes_its_block(template):
    page = toy()
    assert (page.brand, page.title, page.lead) == ("datassay toy", "wine", "2 samples of wine")
    assert page.answer == ("Do wine.", "Then rest.")
    assert page.warnings == ("w", "More than one.")
    sentence = "The sentence of wine, in two lines."
    assert page.advice == (Advice("label errors", "act", "2 labels", sentence, ("7",)),)
    (first,), (curve,) = page.opening, page.sections
    assert (first.anchor, first.short, first.title) == ("first", "First", "First")
    assert first.blocks == (Text("Opening."),)
    assert (curve.anchor, curve.short, curve.title) == ("curve", "Curve", "The whole curve")
    drawn = Figure("drawn", "{}", "What it shows", title="Title of wine")
    assert curve.blocks == (
        Text("A paragraph of `code` and wine.", code=True),
        Text("A note on wine.", note=True),
        Heading("A heading"),
        Pair((drawn, TABLE)),
        Code("x = 1"),
    )
    assert page.method == (("Term", "Its meaning, in two lines."), ("Other term", "2 of it."))


def test_a_condition_leaves_its_lines_out(template):
    page = toy(n=1)
    assert page.warnings == ("w",)
    assert page.lead == "1 sample of wine"


def test_no_text_of_a_user_becomes_structure(template):
    page, plain = toy(HOSTILE), toy()
    assert page.title == HOSTILE
    assert len(page.advice) == 1 and page.advice[0].sentence.count(HOSTILE) == 1
    assert [len(s.blocks) for s in page.sections] == [len(s.blocks) for s in plain.sections]
    text = page.sections[0].blocks[0]
    assert text.text.count("`") == 2, "a backtick of the user's sets no code"


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("brand: {{ other }}", jinja2.UndefinedError, "other"),
        ("## a | A\n[[ missing ]]", KeyError, "missing"),
        ("## a | A\nx\n\ntitle: late", TypeError, "brand"),
    ],
)
def test_what_is_missing_is_named(template, text, error, match):
    template(text)
    with pytest.raises(error, match=match):
        toy()
