"""Every kind of samples, sampler, loss and queries, against brute force: nothing silently wrong."""

import re
from collections import Counter
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import grad, jacrev
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import datassay as da
from datassay.collect.gradients.criteria import objective
from datassay.errors import SettingError
from datassay.score.influence.first_order import measure_of
from kinds import given, indexes, judge, page, rules, truth
from kinds.cells import GROUPS, ORDERS, SAMPLERS, cells, everything, few
from kinds.rules import FITS, Cell

AUTO = "auto, of classes"
LONG = {"samplers", "losses", "drawn at random", "labels of training samples"}
# Sure to work: what the judge itself is tried on.
PLAIN = (
    Cell("arrays", "", AUTO, temperature=2.0),
    Cell("own Dataset", "in order", AUTO, measure="margin"),
    Cell("arrays", "", "'mse'", "values"),
)


def told(failures):
    """Each failing combination on a line of its own, most common reasons first."""
    reasons = Counter(re.split(r"[:\d]", why)[0] for why in failures.values())
    head = ", ".join(f"{count} × {why}" for why, count in reasons.most_common())
    lines = [f"{_named(cell)}: {why}" for cell, why in failures.items()]
    return f"{len(failures)} combinations fail ({head}):\n" + "\n".join(lines)


def _named(cell):
    plain = Cell("", "", "")
    return ", ".join(f"{k}={v!r}" for k, v in vars(cell).items() if v != getattr(plain, k))


def failures_of(cells):
    return {cell: why for cell in cells if (why := judge.failure(cell))}


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_each_answer_is_that_of_brute_force_or_is_refused(group):
    failures = failures_of(cells(group))
    assert not failures, told(failures)


@pytest.mark.parametrize("group", [g for g in GROUPS if g not in LONG])
def test_the_same_of_a_few_that_have_each_pair_of_values(group):
    failures = failures_of(few(cells(group)))
    assert not failures, told(failures)


def test_the_combinations_are_many():
    every = everything()
    assert len(every) >= 600
    assert len({cell.kind for cell in every}) >= 12
    assert len({cell.queries for cell in every}) >= 8
    assert {cell.loss for cell in every} == set(FITS)
    assert {cell.sampler for cell in every} == {"", *SAMPLERS, *ORDERS}


@pytest.mark.parametrize("reopened", [pytest.param(False, marks=pytest.mark.slow), True])
def test_an_index_answers_as_brute_force_does(reopened, tmp_path):
    failures = {}
    for number, cell in enumerate(indexes.REOPENED if reopened else indexes.MADE):
        some = slice(number % 4, None, 4) if reopened else slice(None)
        failures |= indexes.failures(cell, tmp_path / str(number), some, reopened=reopened)
    assert not failures, told(failures)


def test_an_index_is_refused_where_influence_is(tmp_path):
    each = [indexes.refusal(cell, tmp_path / str(i)) for i, cell in enumerate(indexes.REFUSED)]
    assert not any(each), each


@pytest.mark.slow
def test_appended_samples_that_lack_classes_keep_theirs(tmp_path):
    failures = {}
    for number, (kind, wanted, cell) in enumerate(
        (kind, requested, cell)
        for kind, requested, cell in product(indexes.MORE, ("some", "unknown"), indexes.ADDED_TO)
        if requested == "some" or kind == "arrays"
    ):
        asking = replace(cell, asked=wanted)
        if why := indexes.append_failure(asking, kind, tmp_path / str(number)):
            failures[replace(asking, queries=f"appended: {kind}")] = why
    assert not failures, told(failures)


@pytest.mark.parametrize("how", ["TensorDataset", "loader", "shuffled loader"])
def test_samples_without_labels_have_an_own_loss(how):
    x = [torch.tensor(judge.inputs(0, role)) for role in ("train", "queries")]
    train, queries = (
        data if how == "TensorDataset" else DataLoader(data, 4, shuffle=how == "shuffled loader")
        for data in map(TensorDataset, x)
    )
    loss = truth.Loss(lambda f, t: f.square().square().sum(), is_own=True)
    own = lambda model, batch: model(batch[0]).square().square().sum(1)  # noqa: E731
    network = truth.network(rules.K, "outputs")
    attribution = da.influence(
        network, train, queries, loss=own, measure="loss", curvature="blocks",
        damping=judge.DAMPING, precision="float64",
    )  # fmt: skip
    of = [judge.derivatives(rules.K, "outputs", 0, role) for role in ("train", "queries")]
    right = truth.effects(
        of[0], of[0].f, torch.full((judge.N,), 1 / judge.N).double(), of[1], of[1].f,
        loss=loss, measure="loss", temperature=1.0, damping=judge.DAMPING,
    )  # fmt: skip
    assert sorted(attribution.ids.tolist()) == list(range(judge.N))
    assert not judge.unequal(attribution.effect[np.argsort(attribution.ids)], right)


@pytest.mark.parametrize("by", ["torch", "numpy", "random"])
def test_a_dataset_that_draws_its_samples_is_drawn_once(by):
    failures = {
        how: why for how in ("Dataset", "in order", "shuffle=True") if (why := noisy(by, how))
    }
    assert not failures


def noisy(by, how):
    """What is wrong with answers of a Dataset that draws its samples."""
    cell = Cell("own Dataset", "" if how == "Dataset" else how, AUTO, temperature=2.0)
    answers, drawn = [], []
    for _ in range(2):
        data = given.Noisy(judge.inputs(0, "train"), judge.labels_of(cell, "train"), by)
        train = data if how == "Dataset" else DataLoader(data, 4, shuffle=how != "in order")
        answers.append(judge.answer_of(cell, train))
        drawn.append(data.drawn)
    # The same draws in all passes, so that one pass of them explains the effects exactly.
    network, wrong = truth.network(rules.K, "outputs"), []
    for result, each in zip(answers, drawn, strict=True):
        effect = result.effect[np.argsort(result.ids)]
        fewest = min(map(len, each.values()))
        passes = [np.array([d[k] for d in each.values()]) for k in range(-fewest, fewest)]
        derivatives = [truth.derivatives(network, x) for x in passes]
        wrong.append([judge.unequal(effect, judge.definition(cell, train=d)) for d in derivatives])
        if not re.search("draw|random|augment", " ".join(result.warnings), re.IGNORECASE):
            return f"said nothing of the draws: {result.warnings}"
    if all(wrong[0]) or all(wrong[1]):
        return f"no pass explains the effects: {wrong}"
    same = np.array_equal(answers[0].effect, answers[1].effect)
    return "" if same else "two calls differ"


def test_the_page_shows_what_was_tried():
    shown = [cell for table in page.TABLES for cell in table.cells()]
    assert not [cell for cell in shown if cell not in everything()]
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text) == text, page.__doc__


# The judge itself.


def test_the_judge_accepts_what_is_right():
    assert [judge.failure(cell) for cell in PLAIN] == ["", "", ""]


def _train(cell):
    return judge.inputs(cell.seed, "train"), judge.labels_of(cell, "train").copy()


def _with_a_label_shifted(cell, work):
    x, y = _train(cell)
    y[3] = (y[3] + 1) % rules.K
    return judge.answer_of(cell, (x, y))


def _with_ids_permuted(cell, work):
    result = judge.answer(cell, [])
    return replace(result, ids=result.ids[[1, 0, *range(2, judge.N)]])


def _with_a_sample_twice(cell, work):
    twice = [*range(judge.N), 0]
    result = judge.answer_of(cell, tuple(values[twice] for values in _train(cell)))
    return SimpleNamespace(effect=result.effect[:-1], ids=result.ids[:-1], warnings=())


def _with_queries_renumbered(cell, work):
    x, y = judge.inputs(cell.seed, "queries"), judge.labels_of(cell, "queries")
    return judge.answer_of(cell, judge.train_of(cell), (x, np.unique(y, return_inverse=True)[1]))


def _refusing_after_work(cell, work):
    work.append("fit the curvature")
    raise da.errors.DataError("labels must be classes")


@pytest.mark.parametrize(
    ("cell", "mutant", "noticed"),
    [
        (PLAIN[0], _with_a_label_shifted, "wrong"),
        (PLAIN[0], _with_ids_permuted, "out of order"),
        (PLAIN[1], _with_ids_permuted, "wrong"),
        (PLAIN[0], _with_a_sample_twice, "wrong"),
        (replace(PLAIN[1], asked="some"), _with_queries_renumbered, "wrong"),
        (PLAIN[0], lambda cell, work: replace(
            (result := judge.answer(cell, [])), effect=result.effect * 1.00001), "wrong"),
        (replace(PLAIN[0], asked="unknown"), _refusing_after_work, "after work"),
        (replace(PLAIN[0], asked="unknown"), lambda cell, work: judge.answer(PLAIN[0], []),
         "must refuse"),
        (PLAIN[0], lambda cell, work: 1 / 0, "raised ZeroDivisionError"),
    ],
)  # fmt: skip
def test_the_judge_notices(cell, mutant, noticed):
    assert noticed in judge.failure(cell, mutant)


@pytest.mark.parametrize(
    ("name", "targets"),
    [(AUTO, "every class"), ("CrossEntropyLoss(weight)", "every class"), ("'mse'", "values")],
)
def test_brute_force_is_what_a_fit_does_when_a_sample_goes(name, targets):
    """Of the linearised network, block by block: weigh a sample less, and the minimum moves so."""
    cell = Cell("arrays", "", name, targets)
    wanted = judge.derivatives(rules.K, "outputs", 0, "queries")
    t = judge.coded(cell, judge.labels_of(cell, "queries"), smoothed=True)
    removed, step, total = 2, 1e-4, 0.0
    for block in (0, 1):
        measured = []
        for sign in (1, -1):
            shares = torch.full((judge.N,), 1 / judge.N).double()
            shares[removed] *= 1 + sign * step
            f = wanted.f + wanted.blocks[block] @ _minimum(cell, block, shares)
            measured.append(losses_of(cell, f, t))
        total = total + (measured[0] - measured[1]) / (2 * step)
    right = judge.definition(cell)[removed]
    assert np.allclose(right, total.numpy(), rtol=1e-5, atol=1e-6 * np.abs(right).max())


def losses_of(cell, f, t):
    return torch.stack([cell.fit.loss.value(*pair) for pair in zip(f, t, strict=True)])


def _minimum(cell, block, shares):
    """Change of a block's weights: 0 with equal shares, by a pull that stands for the training."""
    train = judge.derivatives(rules.K, "outputs", 0, "train")
    t = judge.coded(cell, judge.labels_of(cell, "train"), smoothed=True)
    equal = torch.full((judge.N,), 1 / judge.N).double()

    def mean(change, by):
        return (by * losses_of(cell, train.f + train.blocks[block] @ change, t)).sum()

    change = torch.zeros(train.blocks[block].shape[2]).double()
    pull = grad(mean)(change, equal)
    penalty = judge.DAMPING * jacrev(grad(mean))(change, equal).diagonal().mean()

    def whole(change):
        return mean(change, shares) - pull @ change + penalty / 2 * change @ change

    for _ in range(4):
        change = change - torch.linalg.solve(jacrev(grad(whole))(change), grad(whole)(change))
    return change


class Given(nn.Module):
    """Outputs that are the inputs."""

    def forward(self, x):
        return x


LOGITS = torch.tensor([[1.0, 3.0, 2.5], [0.5, -1.0, 0.0], [2.0, 2.5, 4.0]], dtype=torch.float64)
SOFT = torch.tensor([[0.2, 0.8, 0.0], [1.0, 0.0, 0.0], [0.3, 0.3, 0.4]], dtype=torch.float64)
LABELS = torch.tensor([2, 0, 1])


@pytest.mark.parametrize(
    ("criterion", "f", "y", "expected"),
    [
        (nn.CrossEntropyLoss(), LOGITS, LABELS, {
            "output": LOGITS.amax(1), "margin": LOGITS.softmax(1)[range(3), LABELS].logit(),
            "loss": functional.cross_entropy(LOGITS, LABELS, reduction="none")}),
        (nn.CrossEntropyLoss(), LOGITS, SOFT, {
            "output": LOGITS.amax(1),
            "loss": functional.cross_entropy(LOGITS, SOFT, reduction="none")}),
        (nn.BCEWithLogitsLoss(), LOGITS[:, :1], SOFT[:, :1].round(), {
            "output": LOGITS[:, 0], "margin": torch.tensor([-1.0, 0.5, -2.0])}),
        (nn.MSELoss(), LOGITS[:, :1], SOFT[:, :1], {
            "output": LOGITS[:, 0], "loss": (LOGITS[:, 0] - SOFT[:, 0]) ** 2}),
    ],
)  # fmt: skip
def test_a_measure_of_a_batch_is_that_of_each_query(criterion, f, y, expected):
    loss = objective(criterion, Given(), (f, y))
    for name, values in expected.items():
        measured = measure_of(name, loss)(Given(), (f, y)).flatten()
        torch.testing.assert_close(measured, values.double(), msg=lambda m, name=name: name + m)


CLASSES, EACH = nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss()


@pytest.mark.parametrize(
    ("criterion", "f", "y", "measure", "message"),
    [
        (CLASSES, LOGITS, SOFT, "margin", "these have probabilities of classes"),
        (CLASSES, LOGITS, None, "margin", "needs the queries' targets"),
        (CLASSES, LOGITS[:, :, None], None, "output", "these have one per token or pixel"),
        (EACH, LOGITS, SOFT.round(), "margin", "these have several labels"),
        (EACH, LOGITS, SOFT.round(), "output", "these have several labels"),
    ],
)
def test_what_a_measure_cannot_tell_is_refused(criterion, f, y, measure, message):
    loss = objective(criterion, Given(), (LOGITS, LABELS if criterion is CLASSES else SOFT.round()))
    with pytest.raises(SettingError, match=message):
        measure_of(measure, loss)(Given(), (f,) if y is None else (f, y))
