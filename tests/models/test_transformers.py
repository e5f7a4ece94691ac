"""Token ids to logits, a Trainer with weights, and the example, on a tiny BERT made on the spot."""

import copy
import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import datassay as da
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.estimators.transformers import SampleWeightTrainerMixin
from datassay.methods.weigh.reweight import reweight
from datassay.models.tokens import TokenLogits, token_array
from datassay.train.head import split_head
from datassay.train.head_training import HeadRecipe
from helpers import transformers_models

os.environ["HF_HUB_OFFLINE"] = "1"
EXAMPLE = Path(__file__).parents[2] / "examples" / "hugging_face.py"
WORDS = ("a", "man", "woman", "runs", "sleeps", "dog", "cat", "the", "in", "park")
pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument")


@pytest.fixture(scope="module")
def transformers():
    return transformers_models.imported("transformers")


@pytest.fixture(scope="module")
def bert(transformers):
    def make(n_labels=2):
        torch.manual_seed(0)
        return transformers_models.bert(transformers, k=n_labels, positions=32)

    return make


@pytest.fixture(scope="module")
def encoder(transformers, bert, tmp_path_factory):
    """A folder with a model and a tokenizer, as a hub name would be."""
    folder = tmp_path_factory.mktemp("encoder")
    vocabulary = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    bert().save_pretrained(folder)
    return folder


def pairs(n, seed):
    """Label: whether both sentences speak of the same one."""
    rng = np.random.default_rng(seed)
    first, second = (rng.choice(["man", "woman", "dog", "cat"], n) for _ in range(2))
    second = np.where(rng.random(n) < 0.4, first, second)
    ends = np.array(["", "in the park"])[rng.integers(0, 2, n)]
    return [
        (f"a {a} runs {e}".strip(), f"the {b} sleeps", "yes" if a == b else "no")
        for a, b, e in zip(first, second, ends, strict=True)
    ]


@pytest.fixture(scope="module")
def samples(transformers, encoder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)

    def make(n, seed):
        first, second, labels = zip(*pairs(n, seed), strict=True)
        encoding = tokenizer(list(first), list(second), padding=True)
        y = np.array([label == "yes" for label in labels], np.int64)
        return SampleSet(token_array(encoding), y, np.arange(n), ("no", "yes"))

    return make


def test_token_array():
    encoding = {
        "attention_mask": [[1, 1, 0], [1, 1, 1]],
        "input_ids": [[4, 5, 0], [7, 8, 9]],
        "other": [1, 2],
    }
    x = token_array(encoding)
    assert x.dtype == np.int64
    np.testing.assert_array_equal(x[:, 0], encoding["input_ids"])
    np.testing.assert_array_equal(x[:, 1], encoding["attention_mask"])
    with pytest.raises(DataError, match="attention_mask is missing"):
        token_array({"input_ids": [[1]]})
    with pytest.raises(DataError, match="padded to one length; got lengths from 1 to 2"):
        token_array({"input_ids": [[1], [1, 2]], "attention_mask": [[1], [1, 1]]})


class Encoder(nn.Module):
    """What a transformers model looks like from outside."""

    def __init__(self, k=2):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(30, 4)
        self.classifier = nn.Linear(4, k)

    def forward(self, input_ids, attention_mask):
        mask = attention_mask[..., None]
        mean = (self.words(input_ids) * mask).sum(1) / mask.sum(1)
        return SimpleNamespace(logits=self.classifier(mean))


class Base:
    """The part of a Trainer that the mixin looks at."""

    def __init__(self, remove=False, loss=None):
        self.args = SimpleNamespace(remove_unused_columns=remove, label_smoothing_factor=0.0)
        self.compute_loss_func = loss


class Weighted(SampleWeightTrainerMixin, Base):
    pass


def batch(**more):
    ids = torch.randint(0, 30, (5, 3), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **more}


def test_loss_by_hand_without_transformers():
    model, weight = Encoder(), torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 0, 1])
    logits = model(**batch()).logits
    each = torch.stack([-logits[i].log_softmax(0)[label] for i, label in enumerate(labels)])
    given = batch(labels=labels, sample_weight=weight)
    loss, outputs = Weighted().compute_loss(model, given, return_outputs=True)
    torch.testing.assert_close(loss, (weight.float() * each).sum() / 5)
    torch.testing.assert_close(outputs.logits, logits)
    assert set(given) == {"input_ids", "attention_mask", "labels", "sample_weight"}
    bare = Weighted().compute_loss(model.eval(), batch(labels=labels))
    torch.testing.assert_close(bare, each.mean())
    scores = torch.linspace(-1, 1, 5)
    one = Encoder(1)
    square = (one(**batch()).logits[:, 0] - scores) ** 2
    result = Weighted().compute_loss(one, batch(labels=scores, sample_weight=weight))
    torch.testing.assert_close(result, (weight.float() * square).mean())


def test_batches_and_settings_that_cannot_work():
    labels = torch.zeros(5, dtype=torch.int64)
    with pytest.raises(DataError, match="every batch must hold sample_weight"):
        Weighted().compute_loss(Encoder(), batch(labels=labels))
    with pytest.raises(DataError, match="every batch must hold labels"):
        Weighted().compute_loss(Encoder(), batch(sample_weight=torch.ones(5)))
    with pytest.raises(DataError, match=r"one number per sample, 5; got \[5, 1\]"):
        given = batch(labels=labels, sample_weight=torch.ones(5, 1))
        Weighted().compute_loss(Encoder(), given)
    with pytest.raises(DataError, match=r"labels must be .* shape \[5, 2\]"):
        given = batch(labels=torch.zeros(5), sample_weight=torch.ones(5))
        Weighted().compute_loss(Encoder(), given)
    with pytest.raises(SettingError, match="remove_unused_columns must be False"):
        Weighted(remove=True)
    with pytest.raises(SettingError, match="compute_loss_func must be None"):
        Weighted(loss=lambda *_, **__: 0)


def test_token_logits_without_transformers():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 30, (40, 3))
    x = token_array({"input_ids": ids, "attention_mask": np.ones_like(ids)})
    y = (ids[:, 0] > 15).astype(np.int64)
    some = SampleSet(x, y, np.arange(40), ("no", "yes"))
    reweighted = reweight(TokenLogits(Encoder()), some, some, n_neighbors=5, solver="exact")
    assert reweighted.layer == "model.classifier" and reweighted.n_features == 4
    assert reweighted.after > reweighted.before


def test_encoders_are_collected_with_their_mask(transformers, bert, samples):
    train, model = samples(8, 0), bert().eval()
    assert (train.x[:, 1] == 0).any()
    lin = da.collect(TokenLogits(model), train, projection=None, outputs="joint")
    exact = copy.deepcopy(model).double()
    rows = []
    for ids, mask, types in torch.tensor(train.x)[:, :, None]:
        logits = exact(input_ids=ids, attention_mask=mask, token_type_ids=types).logits[0]
        for one in logits:
            grads = torch.autograd.grad(one, list(exact.parameters()), retain_graph=True)
            rows.append(torch.cat([g.flatten() for g in grads]))
    j = torch.stack(rows)
    torch.testing.assert_close(lin.kernel, j @ j.T, rtol=1e-10, atol=1e-10)
    # The masks of transformers are its own again.
    masks = transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
    assert masks["sdpa"] is transformers.masking_utils.sdpa_mask


def test_last_layer_of_an_encoder_is_retrained_and_put_back(bert, samples):
    train, val = samples(60, 0), samples(30, 1)
    model = bert().eval()
    before = {name: p.clone() for name, p in model.named_parameters()}
    wrapped = TokenLogits(model)
    ids, mask, types = torch.tensor(val.x).unbind(1)
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    torch.testing.assert_close(wrapped(torch.tensor(val.x)), model(**given).logits)
    # The features are what the classifier is given: BERT's pooled output.
    head = split_head(wrapped, train)
    assert head.name == "model.classifier"
    torch.testing.assert_close(head.features(val), model.bert(**given).pooler_output.detach())

    reweighted = reweight(wrapped, train, val, n_neighbors=5, recipe=HeadRecipe(epochs=2))
    after = dict(reweighted.model.model.named_parameters())
    changed = {name for name, p in before.items() if not torch.equal(p, after[name])}
    assert changed == {"classifier.weight", "classifier.bias"}
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    right = reweighted.model.model(**given).logits.argmax(1).numpy() == val.y
    assert reweighted.after == pytest.approx(right.mean())


@pytest.fixture
def trainer(transformers, tmp_path):
    class WeightedTrainer(SampleWeightTrainerMixin, transformers.Trainer):
        pass

    def make(model, rows, kind=WeightedTrainer, **arguments):
        settings = {
            "num_train_epochs": 1, "per_device_train_batch_size": 8, "learning_rate": 1e-2,
            "optim": "sgd", "lr_scheduler_type": "constant", "max_grad_norm": 0,
            "remove_unused_columns": False, "save_strategy": "no", "report_to": "none",
            "disable_tqdm": True, "use_cpu": True,
        }  # fmt: skip
        args = transformers.TrainingArguments(str(tmp_path), **{**settings, **arguments})
        return kind(model, args, train_dataset=rows, eval_dataset=rows)

    return make


def rows_of(samples, labels, weights=None):
    names = ("input_ids", "attention_mask", "token_type_ids")
    results = [
        dict(zip(names, x, strict=True), labels=y) for x, y in zip(samples.x, labels, strict=True)
    ]
    for row, weight in zip(results, () if weights is None else weights, strict=False):
        row["sample_weight"] = float(weight)
    return results


def test_a_step_of_the_trainer_by_hand(bert, samples, trainer):
    """One update of plain descent on the weighted loss, in one batch and in two accumulated."""
    some = samples(8, 0)
    weights = np.linspace(0.25, 1.75, 8)
    model = bert()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    start = {name: p.detach().clone() for name, p in model.state_dict().items()}
    ids, mask, types = torch.tensor(some.x).unbind(1)
    logits = model(input_ids=ids, attention_mask=mask, token_type_ids=types).logits
    each = functional.cross_entropy(logits, torch.tensor(some.y), reduction="none")
    loss = (torch.tensor(weights).float() * each).mean()
    slope = torch.autograd.grad(loss, model.classifier.weight)[0]
    expected = start["classifier.weight"] - 1e-2 * slope
    rows = rows_of(some, some.y.tolist(), weights)
    for batch, accumulated in ((8, 1), (4, 2)):
        model.load_state_dict(start)
        done = trainer(
            model, rows, per_device_train_batch_size=batch, gradient_accumulation_steps=accumulated
        ).train()
        assert done.global_step == 1
        assert done.training_loss == pytest.approx(loss.item(), rel=1e-5)
        torch.testing.assert_close(model.classifier.weight.detach(), expected)


def test_weights_of_one_change_nothing(bert, samples, trainer, transformers):
    some = samples(16, 0)
    models, losses = (bert(), bert()), []
    for model, weights, kind in (
        (models[0], np.ones(16), {}),
        (models[1], None, {"kind": transformers.Trainer}),
    ):
        rows = rows_of(some, some.y.tolist(), weights)
        run = trainer(model, rows, label_smoothing_factor=0.1, **kind)
        losses.append(run.train().training_loss)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for a, b in zip(*(m.state_dict().values() for m in models), strict=True):
        torch.testing.assert_close(a, b)


def test_regression_and_evaluation_without_weights(bert, samples, trainer):
    some = samples(8, 0)
    targets = np.linspace(-1, 1, 8).tolist()
    weighted = trainer(bert(1), rows_of(some, targets, np.ones(8)))
    bare = rows_of(some, targets)
    result = weighted.predict(bare)
    square = np.square(result.predictions[:, 0] - np.float32(targets)).mean()
    assert result.metrics["test_loss"] == pytest.approx(square, rel=1e-5)


def test_example(transformers, encoder, tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("hugging_face", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    files = []
    for seed, n in ((0, 40), (1, 20)):
        lines = ["\t".join(row) for row in (("sentence1", "sentence2", "label"), *pairs(n, seed))]
        files.append(tmp_path / f"{seed}.tsv")
        files[-1].write_text("\n".join(lines) + "\n")
    example.main(str(encoder), *map(str, files), str(tmp_path / "out"))
    assert capsys.readouterr().out.count("accuracy with") == 2
    transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
