"""A transformers Trainer is explained as it was trained: its samples, collator and smoothing."""

import warnings

import numpy as np
import pytest
import torch

import datassay as da
from datassay.errors import SettingError
from datassay.score.influence.checkpoints import trainer_run
from datassay.score.influence.optimizer_state import update_of
from datassay.score.influence.trainers import is_trainer
from helpers import transformers_models as tiny

N, M = 10, 3


@pytest.fixture(scope="module")
def tf():
    tiny.imported("accelerate")
    return tiny.imported("transformers")


def texts(n=N, seed=0):
    """With an id, words that no model takes, and lengths of their own."""
    rng = np.random.default_rng(seed)
    each = [rng.integers(1, tiny.WORDS, rng.integers(3, 7)).tolist() for _ in range(n)]
    more = {"text": "words", "length_of_text": 3}
    return [{"id": f"s{i}", **more, "input_ids": ids, "label": i % 2} for i, ids in enumerate(each)]


def padded(samples):
    """A collator of the user's own: fills up with 9, which the mask hides."""
    assert set(samples[0]) == {"input_ids", "label"}
    each = [s["input_ids"] for s in samples]
    size = max(map(len, each))
    return {
        "input_ids": torch.tensor([ids + [9] * (size - len(ids)) for ids in each]),
        "attention_mask": torch.tensor([[1] * len(i) + [0] * (size - len(i)) for i in each]),
        "labels": torch.tensor([s["label"] for s in samples]),
    }


def trainer(tf, folder, model=None, train=None, kind=None, collator=padded, **changes):
    torch.manual_seed(0)
    given = {
        "output_dir": str(folder), "report_to": "none", "use_cpu": True, "max_steps": 4,
        "save_steps": 2, "logging_steps": 1, "per_device_train_batch_size": 4,
        "learning_rate": 1e-2, "disable_tqdm": True, "dataloader_pin_memory": False, "seed": 0,
        **changes,
    }  # fmt: skip
    arguments = tf.TrainingArguments(**given)
    model = tiny.bert(tf) if model is None else model
    train = texts() if train is None else train
    return (kind or tf.Trainer)(model, arguments, data_collator=collator, train_dataset=train)


def plain(samples):
    """As our own collate function takes them."""
    return [{"input_ids": s["input_ids"], "labels": s["label"], "id": s["id"]} for s in samples]


def test_a_trainer_is_its_model_samples_and_loss(tf, tmp_path):
    one, queries = trainer(tf, tmp_path, label_smoothing_factor=0.2), texts(M, 1)
    one.train()
    given = {"measure": "loss", "precision": "float64"}
    attribution = da.influence(one, queries, **given)
    loss = torch.nn.CrossEntropyLoss(label_smoothing=0.2)
    truth = da.influence(one.model, plain(texts()), plain(queries), loss=loss, **given)
    np.testing.assert_allclose(attribution.effect, truth.effect, rtol=1e-8, atol=1e-14)
    assert attribution.ids.tolist() == [f"s{i}" for i in range(N)]
    assert attribution.warnings == truth.warnings
    np.testing.assert_array_equal(
        da.influence(one, val=queries, **given).effect, attribution.effect
    )
    # Means over a batch of our losses are what the Trainer descends.
    batch = padded([{k: s[k] for k in ("input_ids", "label")} for s in texts()])
    theirs = float(one.model.eval() and one.compute_loss(one.model, dict(batch)).detach())
    own = da.influence(one, None, measure="loss").outcome.mean()
    assert own == pytest.approx(theirs, rel=1e-5)


def test_checkpoints_of_a_run_with_their_rates(tf, tmp_path):
    one, queries = trainer(tf, tmp_path), texts(M, 1)
    one.train()
    given = {"method": "tracin", "measure": "loss"}
    attribution = da.influence(one, queries, checkpoints=tmp_path, lr="trainer", **given)
    rates = {e["step"]: e["learning_rate"] for e in one.state.log_history if "learning_rate" in e}
    each = [
        da.influence(one, queries, checkpoints=tmp_path / f"checkpoint-{s}", lr=rates[s], **given)
        for s in (2, 4)
    ]
    np.testing.assert_allclose(
        attribution.effect, sum(e.effect for e in each), rtol=1e-5, atol=1e-9
    )
    # The last checkpoint is the network as it is.
    last = da.influence(one, queries, lr=rates[4], **given)
    np.testing.assert_array_equal(last.effect, each[1].effect)


def test_segments_of_a_run_with_its_optimiser(tf, tmp_path):
    one = trainer(tf, tmp_path, weight_decay=0.1, max_grad_norm=0.1)
    one.train()
    attribution = da.influence(
        one, texts(M, 1), method="segments", checkpoints=tmp_path, lr="trainer"
    )
    assert attribution.method == "segments of Adam's run, temperature 2 (1 of self-influence)"
    assert not any(
        "weight decay" in reported or "clipped" in reported for reported in attribution.warnings
    )
    update = update_of(tmp_path / "checkpoint-4", one.model)
    for name, weight in one.model.named_parameters():
        root = (one.optimizer.state[weight]["exp_avg_sq"] / (1 - 0.999**4)).sqrt()
        torch.testing.assert_close(update.step_sizes[name], 1 / (root + 1e-8))
        decay = 0.0 if "bias" in name or "LayerNorm" in name else 0.1
        assert bool((update.decay[name] == torch.tensor(decay)).all())
    read, _ = trainer_run(tmp_path, [one.model] * 2, 0.1)
    logged = [e for e in one.state.log_history if "grad_norm" in e]
    each = [e["learning_rate"] * min(1, 0.1 / e["grad_norm"]) for e in logged]
    np.testing.assert_allclose(read["lr"], [np.mean(each[:2]), np.mean(each[2:])], rtol=1e-6)


def test_a_language_model_whose_head_is_its_embedding(tf, tmp_path):
    """The file holds the shared tensor once."""
    from_texts = [{"input_ids": s["input_ids"]} for s in texts()]

    def collator(samples):
        each = [torch.tensor(s["input_ids"]) for s in samples]
        ids = torch.nn.utils.rnn.pad_sequence(each, batch_first=True)
        return {"input_ids": ids, "labels": ids.masked_fill(ids == 0, -100)}

    one = trainer(tf, tmp_path, tiny.gpt2(tf), from_texts, collator=collator)
    one.train()
    truth, last = da.influence(one, from_texts[:M], measure="loss"), tmp_path / "checkpoint-4"
    attribution = da.influence(one, from_texts[:M], measure="loss", checkpoints=last)
    np.testing.assert_array_equal(attribution.effect, truth.effect)


def test_each_token_of_a_language_model(tf):
    """Effects on the tokens' losses add up to that on the text's; padding has none."""
    torch.manual_seed(0)
    model = tiny.gpt2(tf)
    train = [{"input_ids": s["input_ids"]} for s in texts()]
    queries = [{"input_ids": s} for s in ([3, 4, 5, 6, 7], [8, 9, 1])]

    def by_token(model, batch):
        logits = model(**batch).logits[:, :-1]
        labels = batch["input_ids"][:, 1:].masked_fill(batch["attention_mask"][:, 1:] == 0, -100)
        return torch.nn.functional.cross_entropy(logits.mT, labels, reduction="none")

    given = {"precision": "float64", "curvature": "ekfac"}
    tokens = da.influence(model, train, queries, measure=by_token, **given)
    whole = da.influence(model, train, queries, measure="loss", **given)
    each = tokens.effect.reshape(N, 2, 4)
    np.testing.assert_allclose(each.sum(2), whole.effect, rtol=1e-9, atol=1e-15)
    assert (each[:, 1, 2:] == 0).all() and (each[:, 1, :2] != 0).all()


def test_an_adapter_and_its_checkpoints(tf, tmp_path):
    peft = tiny.imported("peft")

    def adapted():
        torch.manual_seed(0)
        config = peft.LoraConfig(r=2, target_modules=["query", "value"], task_type="SEQ_CLS")
        return peft.get_peft_model(tiny.bert(tf), config)

    with warnings.catch_warnings():  # of an old name, and the tiny model's missing name
        warnings.simplefilter("ignore")
        one, fresh = trainer(tf, tmp_path, adapted()), adapted()
        one.train()
    last, queries, chosen = tmp_path / "checkpoint-4", texts(M, 1), {"parameters": "lora_"}
    assert (last / "adapter_model.safetensors").is_file()
    attribution = da.influence(one, queries, **chosen)
    loaded = da.influence(fresh, plain(texts()), plain(queries), checkpoints=last, **chosen)
    np.testing.assert_allclose(loaded.effect, attribution.effect, rtol=1e-4, atol=1e-8)
    assert np.abs(attribution.effect).max() > 0


def test_mixed_precision_is_taken_off_a_copy(tf, tmp_path):
    one = trainer(tf, tmp_path, bf16=True)
    one.train()
    assert "_original_forward" in vars(one.model)  # what accelerate put there
    before = dict(vars(one.model))
    attribution = da.influence(one, texts(M, 1), precision="float64")
    clean = tiny.bert(tf)
    clean.load_state_dict(one.model.state_dict())
    truth = da.influence(clean, plain(texts()), plain(texts(M, 1)), precision="float64")
    np.testing.assert_allclose(attribution.effect, truth.effect, rtol=1e-8, atol=1e-14)
    assert vars(one.model).keys() == before.keys()


def test_what_is_no_part_of_the_loss_is_said(tf, tmp_path):
    class Own(tf.Trainer):
        def compute_loss(self, *args, **kwargs):
            return super().compute_loss(*args, **kwargs)

    attribution = da.influence(trainer(tf, tmp_path, kind=Own, weight_decay=0.01), texts(M, 1))
    message = " ".join(attribution.warnings)
    assert "weight decay of 0.01" in message and "compute_loss" in message


class Looks:
    """What a Trainer looks like from outside."""

    def __init__(self, train):
        self.model, self.train_dataset = torch.nn.Linear(2, 2), train
        self.data_collator, self.args = torch.utils.data.default_collate, object()


def test_without_transformers():
    pairs = [(torch.tensor([float(i), 1.0]), i % 2) for i in range(6)]
    assert is_trainer(Looks(pairs)) and not is_trainer(torch.nn.Linear(2, 2))
    attribution = da.influence(Looks(pairs), pairs[:2])
    assert attribution.effect.shape == (6, 2)


def test_what_is_refused():
    pairs = [(torch.ones(2), 1)] * 3
    with pytest.raises(SettingError, match="give the queries alone: influence"):
        da.influence(Looks(pairs), pairs, pairs)
    with pytest.raises(SettingError, match="the Trainer must have a train_dataset"):
        da.influence(Looks(None), pairs)
