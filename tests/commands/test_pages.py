"""Every page as text: all of it there, nothing of a user's run, nothing asked from the network."""

import base64
import gzip
import hashlib
import json
from dataclasses import replace

import pytest

from datassay.commands.app import COMMANDS
from datassay.data.load import load
from datassay.methods.complexity.command import CURVE, TEACHERS, CurveSettings, TeacherSettings
from datassay.methods.complexity.curve import run as run_curve
from datassay.methods.complexity.teachers import run as run_teachers
from datassay.methods.sample.command import SampleSettings
from datassay.methods.sample.job import run as run_sample
from datassay.report.html import render
from helpers.blocks import divided, evil_images, evil_names, purified
from helpers.command_line import assert_schema
from helpers.explanations import KINDS, explained
from helpers.findings import (
    EVIL,
    digit_samples,
    make_findings,
    regression_samples,
    row_samples,
    text_samples,
    with_sources,
)
from helpers.pages import TAGS, Elements, assert_asks_no_network, assert_policy
from helpers.polynomials import surrogate_findings
from helpers.runs import compared, write_run
from helpers.weighings import weighed

LARGEST = 1_500_000  # characters of a page
SAMPLES = (digit_samples, text_samples, row_samples, regression_samples)
KNN = "sklearn.neighbors:KNeighborsClassifier"


def curve():
    train, val = load("iris")
    return evil_names(run_curve(train, val, CurveSettings(KNN, (0.9,), repeats=2)))


def reported(folder):
    names = (EVIL, 'dog" onload="x')
    runs = [write_run(folder / f"{k}<i>", seed=k, names=names, Data=f"{EVIL}{k}") for k in (0, 1)]
    return compared(runs)


# Command → page → findings; a folder is given to what needs one.
PAGES = {
    "run": {s.__name__: lambda _, s=s: make_findings(with_sources(s())) for s in SAMPLES},
    "purify": {
        "rows": lambda _: purified(),
        "images": lambda _: evil_images(purified()),
        "no baseline": lambda _: purified(baseline=False),
    },
    "partition": {"rows": lambda _: divided(), "images": lambda _: evil_images(divided())},
    "weigh": {
        "rows": lambda _: weighed(),
        "images": lambda _: evil_images(weighed()),
        "regression": lambda _: weighed(regression=True),
    },
    "polynomial": {
        kind: lambda _, kind=kind: surrogate_findings(kind) for kind in ("image", "row", "numbers")
    },
    "explain": {
        kind: lambda _, kind=kind: explained(kind, "output" if kind == "regression" else "margin")
        for kind in KINDS
    },
    "report": {"three runs": reported},
    "sample": {
        name: lambda _, name=name: replace(
            run_sample(SampleSettings(name, n_initial=64, n_new=6, initial="grid", compare=0)),
            name=EVIL,
            inputs=(EVIL,) if name == "runge" else (EVIL, "b", "c"),
        )
        for name in ("runge", "bateman")
    },
    "complexity.curve": {"iris": lambda _: curve()},
    "complexity.teachers": {
        "tiny": lambda _: run_teachers(
            TeacherSettings((2, 3), teachers=2, students=2, depth=0, max_samples=4)
        )
    },
}

PARTS = {c.name: c for c in COMMANDS} | {
    "complexity.curve": CURVE,
    "complexity.teachers": TEACHERS,
}


@pytest.mark.parametrize(
    ("command", "name"), [(command, name) for command, some in PAGES.items() for name in some]
)
def test_a_page_is_whole_and_runs_nothing_of_the_users(command, name, tmp_path):
    findings = PAGES[command][name](tmp_path)
    page, module = PARTS[command].module("page").page(findings), PARTS[command].module("files")
    html = render(page)
    seen = Elements(html)
    assert_asks_no_network(seen)
    assert_policy(seen)
    # What a user wrote is text: no element, no attribute, no script of its own.
    assert {tag for tag, _ in seen.tags} <= TAGS
    assert not [attrs for _, attrs in seen.tags if any(a.startswith("on") for a in attrs)]
    policy = next(a["content"] for a in seen.all("meta") if "http-equiv" in a)
    texts = [text for tag, text in seen.text if tag == "script"]
    idle = [text for text in texts if _hash(text) not in policy]  # which nothing runs
    assert all("<" not in text for text in idle)
    packed = [_unpacked(text) for text in idle if not text.startswith(("{", "["))]
    assert all(_hash(text) in policy for text in packed if not text.startswith("{"))
    data = [json.loads(text) for text in [*idle, *packed] if text.startswith(("{", "["))]
    # The verdict comes first, and the page is light enough to be sent.
    assert page.verdict and html.index('class="finding"') < html.index("<nav")
    assert len(html) < LARGEST
    assert all(figure["data"] for figure in data if {"data", "layout"} <= set(figure))
    assert html.count('id="figure-') == html.count('data-figure="')
    assert ('data-figure="' in html) == (command != "explain")  # which draws none
    # Every section in the menu is there.
    anchors = {a["href"][1:] for a in seen.all("a") if a.get("href", "").startswith("#")}
    there = {a.get("id") for tag in ("section", "details") for a in seen.all(tag)}
    assert len(anchors) >= 3 and anchors <= there
    # Its summary is standard JSON, and all files it names are written.
    written = module.files(findings, page)
    assert_schema(
        json.loads(written["summary.json"], parse_constant=lambda word: pytest.fail(word))
    )
    assert {name for name in module.FILES if name in html} <= set(written) | {
        "index.html",
        "review.npz",
    }


def _unpacked(text):
    return gzip.decompress(base64.b64decode(text)).decode() if text else "{}"


def _hash(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
