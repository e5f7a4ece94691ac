"""What bench/attribution measures with: scores against their definitions, augmentation, BM25."""

import sys
from dataclasses import replace

import numpy as np
import torch
from scipy.stats import spearmanr

from helpers.snippets import ROOT

sys.path.insert(0, str(ROOT))
from bench.attribution import halves, inserted_texts, wrong_labels
from bench.attribution.problems import (
    Problem,
    lds,
    log_odds,
    same_label,
    shifted_and_mirrored,
    summed,
)


def test_datamodelling_score_is_the_mean_rank_correlation_of_sums_over_halves():
    rng = np.random.default_rng(0)
    effect, truth = rng.normal(size=(8, 3)), rng.normal(size=(12, 3))
    chosen = np.stack([rng.permutation(8)[:4] for _ in range(12)])
    by_hand = [
        spearmanr([effect[half, j].sum() for half in chosen], truth[:, j])[0] for j in range(3)
    ]
    assert np.isclose(lds(summed(effect, chosen), truth), np.mean(by_hand))
    assert lds(np.ones((12, 3)), truth) == 0


def test_an_inserted_text_is_placed_by_how_far_it_lowers_the_loss():
    effect = np.zeros((inserted_texts.N + 2, 2))
    effect[:3, 0] = [-3, -1, 2]
    effect[inserted_texts.N :] = [[-2, 0], [0, -1]]
    assert inserted_texts.places(effect).tolist() == [2, 1]


def test_the_second_half_of_a_text_is_asked_for():
    labels = torch.tensor([[0, 5, 6, 7, 8, 0], [0, 5, 6, 0, -100, -100]])
    asked = inserted_texts.halves({"input_ids": labels, "labels": labels})
    assert asked["labels"].tolist() == [[-100] * 3 + [7, 8, 0], [-100, -100, 6, 0, -100, -100]]
    assert asked["input_ids"] is labels


def test_simple_scores_of_wrong_labels_by_hand():
    torch.manual_seed(0)
    model, x, y = torch.nn.Linear(4, 3), torch.randn(7, 4), torch.arange(7) % 3
    problem = Problem({"x": x, "labels": y}, {}, lambda seed: model)
    f = model(x).detach()
    others = f.masked_fill(torch.eye(3)[y].bool(), -torch.inf).amax(1)
    given = f[torch.arange(7), y]
    away = (f.softmax(1) - torch.eye(3)[y]).norm(dim=1)
    slopes = away**2 * (x.square().sum(1) + 1)  # of weights and biases
    for score, by_hand in (
        (wrong_labels.margin, others - given),
        (wrong_labels.loss, f.logsumexp(1) - given),
        (wrong_labels.el2n, away),
        (wrong_labels.tracin, slopes),
    ):
        np.testing.assert_allclose(score(problem, model), by_hand, rtol=1e-4)


def test_log_odds_are_those_of_the_given_label():
    logits, labels = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 3, 1, 2, 2])
    p = logits.softmax(-1).gather(1, labels[:, None])[:, 0]
    torch.testing.assert_close(log_odds(logits, labels), torch.log(p / (1 - p)))


def test_images_are_moved_or_mirrored_and_keep_their_labels():
    x = torch.zeros(200, 1, 5, 5)
    x[:, 0, 2, 1] = 1
    batch = {"x": x, "labels": torch.arange(200)}
    moved = shifted_and_mirrored(batch, torch.Generator().manual_seed(0))
    places = {tuple(place) for place in moved["x"][:, 0].nonzero()[:, 1:].tolist()}
    assert places == {(row, column) for row in (1, 2, 3) for column in (0, 1, 2, 3, 4)}
    assert torch.equal(moved["labels"], batch["labels"])
    assert moved["x"].sum() == 200


def test_words_in_common_count_for_the_same_label_and_against_another():
    texts = (["a good film", "a bad film", "other words here"], ["good", "nothing"])
    train, queries = ({"labels": torch.tensor(y)} for y in ([1, 0, 1], [1, 0]))
    problem = Problem(train, queries, torch.nn.Identity, texts=texts)
    found = halves.word_overlap(problem, torch.nn.Identity())
    assert found[0, 0] > 0
    assert not np.any(found[1:, 0]) and not np.any(found[:, 1])
    other = replace(problem, queries={"labels": torch.tensor([0, 0])})
    assert np.array_equal(same_label(other)[:, 0], [-1, 1, -1])
    assert halves.word_overlap(other, torch.nn.Identity())[0, 0] == -found[0, 0]
