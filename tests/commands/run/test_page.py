"""The page as text: everything there, nothing of the user's run, nothing from the network."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from datassay.commands.run.figures import information_figure
from datassay.commands.run.gallery import gallery, pick_samples
from datassay.commands.run.page import page as run_page
from datassay.data.samples import SampleSet
from datassay.report.drawing import draw
from datassay.report.html import render, script_json
from datassay.report.result_plots import issue_figure
from datassay.report.style import plotly_text
from datassay.report.wording import label_text
from datassay.score.sample_information import SampleInformation
from helpers.findings import digit_samples, issues_of, make_findings, row_samples, text_samples


def test_script_json_keeps_the_value():
    value = {"a": "</script><!-- & \u2028", "b": [1.5]}
    text = script_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not set("<>&") & set(text)


def test_plotly_shows_pseudo_html_as_text():
    assert plotly_text("<b>a</b> & b") == "&lt;b&gt;a&lt;/b&gt; &amp; b"


def test_histograms_count_every_sample():
    result = make_findings()
    for figure in (information_figure(result), issue_figure(result.issues)):
        assert sum(np.sum(t.y) for t in figure.data) == 500


def test_zero_and_equal_information_is_drawn():
    result = make_findings(row_samples())
    for values in (np.zeros(178), np.ones(178), np.r_[0.0, np.ones(177)]):
        scores = SampleInformation(values, result.samples.ids, "functional", 1.0)
        figure = information_figure(replace(result, information=scores))
        assert sum(np.sum(t.y) for t in figure.data) == 178


@pytest.mark.parametrize(
    ("smoothing", "words"),
    [
        ("sgd_outputs", ">40 % of the samples tell less than half a nat per output"),
        ("langevin", "weighed by the Hessian of the loss"),
    ],
)
def test_information_under_noise_of_the_training(smoothing, words):
    """Half a nat per output, of which there is one: 200 of 500 samples lie below."""
    result = make_findings()
    values = np.where(np.arange(500) < 200, 0.49, 0.51)
    scores = SampleInformation(values, result.samples.ids, smoothing, 1.0)
    page = render(run_page(replace(result, information=scores)))
    assert words in page
    assert ("one retraining cannot show it" in page) == (smoothing == "sgd_outputs")


def test_what_was_not_measured_has_no_section():
    samples = replace(digit_samples(), true_y=None)
    bare = make_findings(
        samples, validation=None, attribution=None, removal_curve=None, warnings=(), facts={}
    )
    page = render(run_page(bare))
    absent = ("Before you trust", 'id="removal"', 'id="acts"', 'id="why"')
    assert not [words for words in absent if words in page]
    assert "What actions gain was not measured here" in page


def crowd(n_classes, n):
    y = (np.arange(n) % n_classes).astype(np.int64)
    names = tuple(f"c{i}" for i in range(n_classes))
    samples = SampleSet(np.zeros((n, 1)), y, np.arange(n), names)
    score = np.where(np.arange(n) < 100, 1.0 + np.arange(n), -1.0)
    issues = issues_of(samples, score)
    scores = SampleInformation(np.arange(n) / n, samples.ids, "functional", 1.0)
    return make_findings(samples, issues=issues, information=scores)


def test_gallery_holds_twelve_a_class_each_way_and_the_top_suspects():
    result = crowd(3, 600)
    views = pick_samples(result)
    of = {v: [i for i, seen in views.items() if v in seen] for v in ("most", "least", "issues")}
    assert sorted(of["issues"]) == list(range(40, 100))  # the 60 highest of 100 suspects
    assert sorted(of["most"]) == list(range(600 - 36, 600))
    assert sorted(of["least"]) == list(range(36))
    assert list(views) == sorted(views, reverse=True)  # most informative first


@pytest.mark.parametrize("n_classes", [40, 500])
def test_gallery_is_capped_and_fair_to_every_class(n_classes):
    views = pick_samples(crowd(n_classes, 1500))
    assert len(views) == 400
    per_class = np.bincount([i % n_classes for i in views], minlength=n_classes)
    assert per_class.max() - per_class.min() <= 4


def test_cards_say_what_the_scores_are():
    result = make_findings()
    for card in gallery(result).cards:
        i = int(np.flatnonzero(result.samples.ids == int(card.id))[0])
        assert card.keys["information"] == result.information.information[i]
        assert card.keys["score"] == result.issues.score[i]
        assert card.label == result.samples.class_names[result.samples.y[i]]
        assert bool(card.truth) == (result.samples.y[i] != result.samples.true_y[i])
        assert card.drawing.image


def test_labels_read_as_names_or_numbers():
    assert label_text(("a", "b"), np.int64(1)) == "b"
    assert label_text((), 1.23456) == "1.235" and label_text((), -13081.4) == "-13081"
    assert label_text((), np.array([1.0, 2, 3, 4])) == "1, 2, 3, …"


def pixels(drawing):
    import base64
    import io

    from PIL import Image

    data = base64.b64decode(drawing.image.partition(";base64,")[2])
    return np.asarray(Image.open(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("shape", "drawn"),
    [
        ((5, 4), (5, 4)),
        ((1, 5, 4), (5, 4)),
        ((3, 5, 4), (5, 4, 3)),
        ((5, 4, 3), (5, 4, 3)),
        ((5, 4, 1), (5, 4)),
        ((4, 5, 6), (5, 6, 3)),
        ((2, 5, 6), (5, 6)),
        ((3, 200, 100), (96, 48, 3)),
    ],
)
def test_images_of_every_layout(shape, drawn):
    x = np.zeros((2, *shape))
    x[1] = 1.0
    samples = SampleSet(x, np.zeros(2, np.int64), np.arange(2), ("a", "b"), "image")
    dark, light = (pixels(d) for d in draw(samples, np.arange(2)))
    assert dark.shape == drawn
    assert (dark == 0).all()
    assert (light == 255).all()


def test_images_share_the_scale_of_the_set():
    x = np.array([[[0.0, 1.0]], [[2.0, 4.0]]])
    samples = SampleSet(x, np.zeros(2, np.int64), np.arange(2), ("a",), "image")
    np.testing.assert_array_equal(pixels(draw(samples, np.array([0]))[0]), [[0, 64]])


def test_rows_name_their_most_unusual_values():
    x = np.zeros((50, 8))
    x[:, :] = np.linspace(-1, 1, 50)[:, None]
    x[3, 5] = 40
    names = tuple(f"f{i}" for i in range(8))
    samples = SampleSet(x, np.zeros(50), np.arange(50), feature_names=names)
    (drawing,) = draw(samples, np.array([3]))
    assert drawing.values[0] == ("f5", "40")
    assert len(drawing.values) == 6


def test_long_texts_are_cut():
    (drawing,) = draw(text_samples(), np.array([79]))
    assert len(drawing.text) == 200
    assert drawing.text.endswith("…")
    assert drawing.full_text.startswith("<b>Report 79</b> & so on")


@pytest.mark.parametrize(
    ("smoothing", "level", "words"),
    [
        ("functional", 0.02, ["an answer to a", "(a guess: 50"]),
        (
            "functional",
            0.05,
            ["an answer to a", "would bring that to 55", "answer with more noise"],
        ),
        ("isotropic", 0.02, ["sees the weights", "right in at most 10 % more"]),
        ("isotropic", 8.0, ["sees the weights", "says nothing here: it is above 1"]),
        ("sgd", 0.02, ["sees the weights", "right in at most 10 % more"]),
    ],
)
def test_the_method_says_what_the_information_bounds(smoothing, level, words):
    findings = make_findings()
    info = findings.information
    values = np.full(len(info.ids), level)
    info = replace(info, information=values, smoothing=smoothing, sigma=1.0)
    told = render(run_page(replace(findings, information=info)))
    assert all(word in told for word in words)
    assert ("would bring that" in told) == (level > 0.04 and smoothing != "sgd")
    assert ("Overfitting" in told) == (smoothing != "functional")
    (share,) = re.findall(r"in at most ([\d.]+) % of cases for the median", told)
    assert float(share) == pytest.approx(100 * norm.cdf((level / 2) ** 0.5), abs=0.05)
