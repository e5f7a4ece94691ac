"""Losses of batches: torch's own, and roots whose squares are their Hessian in the outputs."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

from datassay.collect.gradients.autograd import evaluate
from datassay.collect.gradients.batches import IGNORED, outputs_of, targets_of
from datassay.collect.gradients.criteria import (
    check_classes,
    check_logits,
    objective,
    several_outputs,
)
from datassay.collect.gradients.objective import Objective
from datassay.collect.loss import DRAWS, MOST_SUMMED
from datassay.errors import DataError, ModelError, SettingError
from helpers.made_of import MadeOf

N, K = 4, 3
CLASSES = torch.tensor([0, 2, 1, 2])


class Given(nn.Module):
    """Outputs that are the inputs."""

    def forward(self, x):
        return x


class TinyLMHeadModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 9)

    def forward(self, input_ids, attention_mask=None):
        return (self.table(input_ids),)


def outputs(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64)


WEIGHT = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)
LABELS = torch.tensor([[0, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 1]])
VALUES = outputs(N, K) + 1
BCE = functional.binary_cross_entropy_with_logits


def entropy(f, *given, **settings):
    return functional.cross_entropy(f, CLASSES, *given, reduction="none", **settings)


def binary(f, **settings):
    return BCE(f, LABELS.double(), reduction="none", **settings)


# As the user gives it, targets, and each sample's loss by torch.
CASES = {
    "cross_entropy": ("cross_entropy", CLASSES, entropy),
    "smoothed": (
        nn.CrossEntropyLoss(label_smoothing=0.2), CLASSES, lambda f: entropy(f, label_smoothing=0.2)
    ),
    "class weights": (
        nn.CrossEntropyLoss(WEIGHT.float()), CLASSES, lambda f: entropy(f, WEIGHT)
    ),
    "smoothed, class weights": (
        nn.CrossEntropyLoss(WEIGHT.float(), label_smoothing=0.2), CLASSES,
        lambda f: entropy(f, WEIGHT, label_smoothing=0.2),
    ),
    "bce": ("bce", LABELS, lambda f: binary(f).sum(1)),
    "bce criterion": (nn.BCEWithLogitsLoss(), LABELS.double(), lambda f: binary(f).mean(1)),
    "bce, positive weights": (
        nn.BCEWithLogitsLoss(pos_weight=WEIGHT), LABELS.double(),
        lambda f: binary(f, pos_weight=WEIGHT).mean(1),
    ),
    "mse": ("mse", VALUES, lambda f: (f - VALUES).square().sum(1) / 2),
    "mse criterion": (nn.MSELoss(), VALUES, lambda f: (f - VALUES).square().mean(1)),
    "mse of classes": (
        "mse", CLASSES, lambda f: (f - functional.one_hot(CLASSES, K)).square().sum(1) / 2
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_losses_and_their_hessians_in_the_outputs_are_those_of_torch(case):
    given, y, truth = CASES[case]
    f = outputs(N, K)
    loss = objective(given, Given(), (f, y))
    torch.testing.assert_close(loss.losses(Given(), (f, y)), truth(f), rtol=1e-12, atol=1e-14)
    hessian = torch.autograd.functional.hessian(lambda f: truth(f).sum(), f)  # [n, k, n, k]
    each = torch.stack([hessian[i, :, i] for i in range(N)])
    placed, targets = loss.align(f, y)
    roots = torch.stack([v[:, 0] for v in loss.roots(placed, targets, torch.Generator())])
    squares = torch.einsum("sik,sil->ikl", roots, roots)
    torch.testing.assert_close(squares, each, rtol=1e-10, atol=1e-12)


def test_one_output_is_binary():
    f, y = outputs(N, 1), torch.tensor([0, 1, 1, 0])
    loss = objective("cross_entropy", Given(), (f, y))
    truth = functional.binary_cross_entropy_with_logits(f[:, 0], y.double(), reduction="none")
    torch.testing.assert_close(loss.losses(Given(), (f, y)), truth)
    p = f.sigmoid()
    (root,) = loss.roots(*loss.align(f, y), torch.Generator())
    torch.testing.assert_close(root[:, 0] ** 2, p * (1 - p), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["cross_entropy", "bce", "mse"])
def test_many_outputs_are_drawn_with_the_hessian_as_their_mean(name):
    k, draws = MOST_SUMMED + 1, 500
    f = outputs(1, 1, k).expand(draws, 1, k)
    y = torch.zeros(draws, 1).long() if name == "cross_entropy" else torch.zeros(draws, 1, k)
    each = list(
        Objective(name).roots(f, y.to(f) if y.ndim == 3 else y, torch.Generator().manual_seed(0))
    )
    assert len(each) == DRAWS
    result = sum(root[:, 0].T @ root[:, 0] for root in each) / draws
    p = f[0, 0].softmax(0) if name == "cross_entropy" else f[0, 0].sigmoid()
    truth = {
        "cross_entropy": p.diag() - p.outer(p),
        "bce": (p * (1 - p)).diag(),
        "mse": torch.eye(k).double(),
    }[name]
    # The mean of so many draws, six standard errors apart at most.
    assert float((result - truth).abs().max()) < 6 * float(truth.max()) / (draws * DRAWS) ** 0.5


@pytest.mark.parametrize("most", [1, 3, 8])
def test_the_likeliest_classes_are_exact_and_the_rest_is_drawn(most):
    k, draws = 10, 2000
    f = outputs(1, 1, k)
    many = f.expand(draws, 1, k)
    y = torch.zeros(draws, 1).long()
    roots = list(
        Objective("cross_entropy").roots(many, y, torch.Generator().manual_seed(0), n_wanted=most)
    )
    assert len(roots) == most
    result = sum(root[:, 0].T @ root[:, 0] for root in roots) / draws
    p, order = f[0, 0].softmax(0).sort(descending=True)
    truth = (p.diag() - p.outer(p))[order.argsort()][:, order.argsort()]
    rest = float(p[most - 1 :].sum())  # the probability of the classes that are drawn
    assert float((result - truth).abs().max()) < 6 * rest / draws**0.5
    exact = sum(root[0] * root[0] for root in roots[:-1]) if most > 1 else torch.zeros(1, k)
    likeliest = order[: most - 1]  # their variances are those of the whole
    torch.testing.assert_close(exact[0, likeliest].double(), (p * (1 - p))[: most - 1])


def test_labels_of_tokens_that_do_not_count():
    f = outputs(2, 4, K)
    y = torch.tensor([[0, IGNORED, 2, 1], [IGNORED, IGNORED, 1, IGNORED]])
    loss = objective("auto", Given(), (f, y))
    assert loss.name == "cross_entropy"
    truth = functional.cross_entropy(f.mT, y, reduction="none")
    torch.testing.assert_close(loss.losses(Given(), (f, y)), truth.sum(1))
    (root,) = loss.roots(*loss.align(f, y), torch.Generator().manual_seed(0))
    assert (root[y == IGNORED] == 0).all() and (root[y != IGNORED] != 0).any(-1).all()


def test_next_tokens_with_padding():
    torch.manual_seed(0)
    model = TinyLMHeadModel().double()
    ids = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0]])
    batch = {"input_ids": ids, "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])}
    loss = objective("auto", model, batch)
    assert loss.name == "next_token"
    logits = model.table(ids)
    first = functional.cross_entropy(logits[0, :3], ids[0, 1:], reduction="sum")
    second = functional.cross_entropy(logits[1, :1], ids[1, 1:2], reduction="sum")
    torch.testing.assert_close(loss.losses(model, batch), torch.stack([first, second]))
    # Labels of the user's own, as for a prompt that is not to count.
    labels = torch.tensor([[IGNORED, IGNORED, 5, 6], [7, 8, IGNORED, IGNORED]])
    own = functional.cross_entropy(logits[0, 1:3], ids[0, 2:], reduction="sum")
    result = loss.losses(model, batch | {"labels": labels})
    torch.testing.assert_close(result, torch.stack([own, second]))


def test_a_loss_of_the_users_own():
    def loss(model, batch):
        return (model(batch[0]) - batch[1]).abs().sum(1)

    result = objective(loss, Given(), None)
    assert result.name == "custom"
    torch.testing.assert_close(result.losses(Given(), (VALUES, 0 * VALUES)), VALUES.abs().sum(1))
    with pytest.raises(SettingError, match=r"loss must give \[b\], one loss per sample; got \[\]"):
        objective(lambda m, b: m(b[0]).sum(), Given(), None).losses(Given(), (VALUES, 0))


def named(**config):
    model = MadeOf(lambda net, values, mask=None: {"logits": values})
    model.config = SimpleNamespace(**config)
    return model


BY_NAME = {"values": outputs(N, K), "labels": LABELS.double()}


@pytest.mark.parametrize(
    ("model", "batch", "more", "name"),
    [
        (Given(), (outputs(N, K), CLASSES), (), "cross_entropy"),
        (Given(), (outputs(N, K), LABELS), (), "bce"),
        (Given(), (outputs(N, K), VALUES), (), "mse"),
        (Given(), (outputs(N, K), VALUES[:, 0]), (), "mse"),
        (Given(), (outputs(N, 1), torch.tensor([0.0, 1, 1, 0])), (), "bce"),
        (Given(), (outputs(N, 1), torch.tensor([0.0, 1, 2, 0])), (), "mse"),
        # One-hot as far as the first samples say.
        (Given(), (outputs(2, K), torch.eye(K).double()[:2]), [LABELS.double()], "bce"),
        # transformers takes several labels per sample as floating-point numbers.
        (named(problem_type="multi_label_classification"), BY_NAME, (), "bce"),
        (named(problem_type="regression"), BY_NAME, (), "mse"),
        (named(problem_type="single_label_classification"), BY_NAME, (), "cross_entropy"),
        (named(problem_type=None), BY_NAME, (), "bce"),
    ],
)
def test_auto_follows_the_targets_or_the_configuration(model, batch, more, name):
    assert objective("auto", model, batch, None, more).name == name


def test_smoothing_without_a_name_yet():
    batch = (outputs(N, K), CLASSES)
    result = objective(Objective("auto", smoothing=0.2), Given(), batch)
    truth = objective(nn.CrossEntropyLoss(label_smoothing=0.2), Given(), batch)
    torch.testing.assert_close(result.losses(Given(), batch), truth.losses(Given(), batch))
    assert objective(truth, Given(), batch) == truth


def test_outputs_and_targets_by_name():
    batch = {"values": VALUES, "mask": None, "label": CLASSES}
    assert outputs_of(named(), batch) is VALUES
    assert targets_of(batch) is CLASSES
    assert targets_of((VALUES, None, CLASSES)) is CLASSES and targets_of(VALUES) is None
    assert outputs_of(Given(), (VALUES[:, 0], CLASSES)).shape == (N, 1)


def test_a_mask_that_the_network_asks_for_is_made_where_nothing_is_padded():
    def masked(net, input_ids, attention_mask):
        return net.head(input_ids.float() * attention_mask)

    model = MadeOf(masked, head=nn.Linear(4, K))
    model.forward = lambda input_ids, attention_mask: masked(model, input_ids, attention_mask)
    ids = torch.arange(8).view(2, 4)
    given = outputs_of(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    assert torch.equal(outputs_of(model, {"input_ids": ids}), given)


def test_texts_without_labels():
    """They are their own targets as next tokens alone; else what is missing is said."""
    ids = torch.arange(8).view(2, 4)
    batch = {"input_ids": ids, "attention_mask": (ids < 6).long()}
    assert targets_of(batch) is None and Objective("cross_entropy").targets(batch) is None
    assert Objective("next_token").targets(batch)[1].tolist() == [4, 5, -100, -100]
    with pytest.raises(
        SettingError, match=r"needs the batch's targets: .+ a dictionary's 'labels'"
    ):
        objective("auto", named(), batch)
    with pytest.raises(
        ModelError, match=r"KeyError: 'labels'. Batches have 'x' and no other field"
    ):
        evaluate(named(), {"x": ids}, lambda model, batch: batch["labels"])


SOFT = VALUES.softmax(1)
IMAGES = outputs(N, K, 2, 3)
PIXELS = torch.arange(N * 6).view(N, 2, 3) % K


@pytest.mark.parametrize(
    ("criterion", "f", "y"),
    [
        (nn.CrossEntropyLoss(ignore_index=2), outputs(N, K), CLASSES),
        (nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]).double()), outputs(N, K), SOFT),
        (nn.CrossEntropyLoss(label_smoothing=0.3), outputs(N, K), SOFT),
        (nn.CrossEntropyLoss(ignore_index=1), IMAGES, PIXELS),
        (nn.NLLLoss(ignore_index=1), outputs(N, K).log_softmax(1), CLASSES),
        (functional.cross_entropy, outputs(N, K), CLASSES),
        (functional.mse_loss, outputs(N, K), VALUES),
        (nn.MSELoss(reduction="sum"), outputs(N, K), VALUES),
        (nn.HuberLoss(delta=0.4), outputs(N, K), VALUES),
        (nn.HuberLoss(reduction="sum"), outputs(N, K), VALUES),
        (nn.SmoothL1Loss(beta=0.5), outputs(N, K), VALUES),
        (nn.L1Loss(), outputs(N, K), VALUES),
        (nn.KLDivLoss(reduction="batchmean"), outputs(N, K).log_softmax(1), SOFT),
        (nn.KLDivLoss(reduction="sum"), outputs(N, K).log_softmax(1), SOFT),
        (nn.PoissonNLLLoss(), outputs(N, K), VALUES.abs()),
        (nn.BCEWithLogitsLoss(torch.tensor([1.0, 2.0, 3.0])), outputs(N, K), LABELS.double()),
    ],
)
def test_criteria_of_torch_sample_by_sample(criterion, f, y):
    """Value, and curvature in the outputs, of each sample alone; places that count are added up."""
    batch = (f, y)
    result = objective(criterion, Given(), batch)
    ours = result.losses(Given(), batch)
    plain = copy.deepcopy(criterion)
    for i in range(N):
        single = plain(f[i : i + 1], y[i : i + 1])
        counted = 1
        if y.dtype == torch.int64 and isinstance(plain, nn.Module):
            counted = int((y[i] != plain.ignore_index).sum())
            single = single if counted else torch.zeros(()).double()
        torch.testing.assert_close(ours[i], single * counted)
    if result.name == "custom" or f.ndim > 2:
        return
    positions, targets = result.align(f, y)
    roots = list(result.roots(positions, targets, torch.Generator().manual_seed(0)))
    ours = sum(v[:, 0, :, None] * v[:, 0, None, :] for v in roots)
    for i in range(N):
        truth = torch.autograd.functional.hessian(
            lambda one, i=i: result.losses(Given(), (one, y[i : i + 1])).sum(), f[i : i + 1]
        )[0, :, 0]
        torch.testing.assert_close(ours[i], truth)


def test_probabilities_are_no_logits():
    batch = (SOFT, CLASSES)
    result = objective("cross_entropy", Given(), batch)
    with pytest.raises(SettingError, match="loss='auto' takes outputs for logits"):
        check_logits("auto", result, Given(), batch)
    (reported,) = check_logits(nn.CrossEntropyLoss(), result, Given(), batch)
    assert "outputs are probabilities" in reported
    assert check_logits("auto", result, Given(), (outputs(N, K), CLASSES)) == []


@pytest.mark.parametrize(
    ("y", "k"),
    [
        (torch.tensor([0, 3]), 3),
        (torch.tensor([-1, 0]), 3),
        (torch.tensor([1, 2]), 1),
        (torch.tensor([0.5, 1.0]), 3),
    ],
)
def test_labels_that_are_no_outputs(y, k):
    with pytest.raises(DataError, match=r"labels must be 0 to|takes labels as whole numbers"):
        check_classes(Objective("cross_entropy"), y, k)
    check_classes(Objective("cross_entropy", ignored=9), torch.tensor([0, 9, -100]), 3)


def losses(name, f, y):
    return Objective(name).losses(Given(), (f, y))


def logits(given):
    result = objective(given, Given(), (VALUES, CLASSES))
    check_logits(given, result, Given(), (VALUES, CLASSES))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: logits("hinge"), "loss must be 'auto', 'cross_entropy', .* got 'hinge'"),
        (lambda: logits(nn.ReLU()), "loss must be a criterion of torch.nn; got ReLU"),
        (lambda: logits(nn.BCEWithLogitsLoss(torch.ones(N, 1))), "must be one number per output"),
        (lambda: logits(nn.NLLLoss()), "nn.NLLLoss needs log-probabilities"),
        (lambda: objective("auto", Given(), (VALUES, torch.eye(K)[CLASSES])), "that are one-hot"),
        (lambda: objective("auto", Given(), (VALUES, SOFT)), "targets that are probabilities"),
        (lambda: losses("cross_entropy", outputs(N, 5, K), CLASSES), "a class for each position"),
        (lambda: losses("mse", VALUES, VALUES[:, :2]), "mse needs a target for each output"),
        (lambda: Objective("mse").losses(Given(), VALUES), "needs the batch's targets"),
        (
            lambda: objective("auto", Given(), {"values": VALUES}),
            "'auto' needs the batch's targets",
        ),
        (lambda: outputs_of(MadeOf(lambda *_: "text"), (VALUES, CLASSES)), "or logits; got str"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises((SettingError, ModelError), match=message):
        call()


class Several(nn.Module):
    def __init__(self, *widths):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, width) for width in widths)

    def forward(self, x):
        return tuple(layer(x) for layer in self.layers)


@pytest.mark.parametrize(("widths", "n_warnings"), [((5, 3), 1), ((3,), 0), ((3, 3), 0)])
def test_a_network_with_several_outputs_is_told_of(widths, n_warnings):
    warnings = several_outputs(Several(*widths), (torch.zeros(2, 4), torch.zeros(2).long()))
    assert len(warnings) == n_warnings
    assert all("[5] and [3] a sample: the first is taken" in warning for warning in warnings)


@pytest.mark.parametrize("width", [3, 5])
def test_an_output_that_the_answer_is_computed_from_is_not_taken(width):
    model = MadeOf(
        lambda net, x: ((h := net.body(x)), net.head(h)),
        body=nn.Linear(4, width), head=nn.Linear(width, 3),
    )  # fmt: skip
    batch = torch.zeros(2, 4), torch.zeros(2).long()
    with pytest.raises(ModelError, match=rf"gives \[{width}\] and \[3\] a sample.+Wrap it"):
        several_outputs(model, batch)


def test_a_network_that_takes_one_precision_alone():
    model = MadeOf(lambda net, x: net.layer(x).addmm(x, x.float().T), layer=nn.Linear(2, 2))
    batch = torch.ones(2, 2).double(), torch.zeros(2)
    with pytest.raises(ModelError, match=r"must run on the batches .+take precision='float32' if"):
        evaluate(model.double(), batch, outputs_of)
