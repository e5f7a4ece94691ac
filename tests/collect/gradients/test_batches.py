"""Samples in batches: in their own order, with their ids, whole numbers kept, lengths filled up."""

import importlib

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from datassay.collect.gradients.batches import _list_leaves, batch_size, rows
from datassay.collect.gradients.reading import Loaded, Streamed, batches, samples_or_batches
from datassay.data.samples import SampleSet
from datassay.errors import DataError

TEXTS = [
    {"id": "a", "input_ids": [3, 4], "labels": 1, "text": "one two"},
    {"id": "b", "input_ids": [5, 6, 7], "labels": 0, "text": "three"},
    {"id": "c", "input_ids": [8], "labels": 1, "text": "four"},
]


class Squares(Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, i):
        return torch.tensor([i, i * i], dtype=torch.float32), i % 2


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(5):
            yield {"idx": 10 * i, "x": torch.tensor([float(i)]), "labels": i % 2}


def read(data, size=2, **given):
    results = list(batches(data, size, **given))
    return np.concatenate([ids for ids, _ in results]), [batch for _, batch in results]


def test_a_loaders_own_collate_function_is_used():
    def flipped(samples):
        x, y = default_collate(samples)
        return {"values": -x, "labels": y}

    _, parts = read(DataLoader(Squares(), 3, shuffle=True, collate_fn=flipped))
    assert [len(part["labels"]) for part in parts] == [3, 3, 1]
    assert torch.cat([p["values"] for p in parts])[:, 1].tolist() == [-i * i for i in range(7)]


def test_dictionaries_of_different_lengths():
    ids, parts = read(TEXTS, 3)
    assert ids.tolist() == ["a", "b", "c"]
    (batch,) = parts
    assert set(batch) == {"input_ids", "labels", "attention_mask"}  # no text, no id
    assert batch["input_ids"].tolist() == [[3, 4, 0], [5, 6, 7], [8, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 0]]
    assert batch["labels"].dtype == torch.int64
    tokens = [{"input_ids": s["input_ids"], "labels": s["input_ids"]} for s in TEXTS]
    _, (batch,) = read(tokens, 3)
    assert batch["labels"].tolist() == [[3, 4, -100], [5, 6, 7], [8, -100, -100]]
    masked = [
        dict(input_ids=[1, 2], attention_mask=[0, 1]),
        dict(input_ids=[1], attention_mask=[1]),
    ]
    _, (batch,) = read(masked, 2)  # a mask that is there is kept
    assert batch["attention_mask"].tolist() == [[0, 1], [1, 0]]
    _, (batch,) = read([{"input_ids": [1, 2]}, {"input_ids": [3, 4]}], 2)
    assert set(batch) == {"input_ids"}


@pytest.mark.parametrize(
    "form",
    [
        lambda a, b, y: ((a, b), y),
        lambda a, b, y: ({"a": a, "b": b}, y),
        lambda a, b, y: {"inputs": {"a": a, "b": b}, "labels": y},
        lambda a, b, y: {"inputs": (a, b), "labels": y},
    ],
    ids=["tuples", "mappings", "nested", "tuple in a mapping"],
)
def test_samples_of_two_inputs_are_batches_as_a_loader_makes_them(form):
    draw = np.random.default_rng(0)
    samples = [form(torch.tensor(draw.random(3)), draw.random(5), i % 2) for i in range(4)]
    _, parts = read(samples_or_batches(samples, "train"))
    _, loaded = read(DataLoader(samples, 2))
    assert len(parts) == 2 and all(map(torch.equal, _list_leaves(parts), _list_leaves(loaded)))


def test_an_iterable_set_with_ids():
    ids, parts = read(Stream())
    assert ids.tolist() == [0, 10, 20, 30, 40]
    assert all("idx" not in part for part in parts)
    result = batches(Stream(), 2)
    assert result.n == 5
    part = result.subset([1, 2, 4])
    assert np.concatenate([ids for ids, _ in part]).tolist() == [10, 20, 40]
    assert torch.cat([batch["x"] for _, batch in part]).flatten().tolist() == [1, 2, 4]


def test_a_datasets_dataset():
    pytest.importorskip("datasets")
    data = importlib.import_module("datasets").Dataset.from_list(TEXTS)
    ids, (batch, _) = read(data)
    assert ids.tolist() == ["a", "b", "c"]
    assert batch["input_ids"].tolist() == [[3, 4, 0], [5, 6, 7]]
    assert isinstance(samples_or_batches(data, "train"), Loaded)


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.bool, torch.float64])
def test_tensors_stay_of_their_kind(kind):
    x = (torch.arange(12).view(6, 2) % 2).to(kind)
    _, parts = read(TensorDataset(x, torch.arange(6)), 4)
    assert parts[0][0].dtype == kind and parts[0][1].dtype == torch.int64


def test_arrays_keep_ids_and_are_whole_numbers_where_asked():
    x = np.arange(6).reshape(3, 2)
    samples = SampleSet(x, np.array([0, 1, 0]), np.array(["p", "q", "r"]), ("n", "y"))
    ids, parts = read(samples)
    assert ids.tolist() == ["p", "q", "r"] and parts[0][0].dtype == torch.float32
    _, parts = read(samples, as_integers=True)
    assert parts[0][0].dtype == torch.int64
    again = batches(samples, 2).subset([2, 0])
    assert [i for ids, _ in again for i in ids] == ["r", "p"]
    before = samples.x.copy()
    for _, (x, _) in batches(samples, 2):
        x.mul_(5)
    assert (samples.x == before).all()


def test_rows_of_a_batch():
    batch = {"x": torch.arange(4), "extra": (torch.eye(4), "name"), "scale": torch.tensor(2.0)}
    assert batch_size(batch) == 4
    part = rows(batch, slice(1, 3))
    assert part["x"].tolist() == [1, 2] and part["extra"][0].shape == (2, 4)
    assert part["extra"][1] == "name" and part["scale"] == 2.0


def test_what_is_taken_as_arrays_and_what_as_batches():
    assert isinstance(samples_or_batches((np.eye(4), np.arange(4) % 2), "train"), SampleSet)
    for data in (TEXTS, DataLoader(Squares()), [(torch.ones(2), torch.ones(2), 1)] * 3):
        assert isinstance(samples_or_batches(data, "train"), Loaded)
    result = samples_or_batches(Stream(), "train")
    assert isinstance(result, Streamed) and samples_or_batches(result, "train") is result


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "train must hold at least 1 sample; got none"),
        (7, "train must be a SampleSet, a DataLoader, a Dataset or a list of samples; got a int"),
        (torch.ones(3, 2), r"Arrays are a pair \(x, y\)"),
        (["a text", "another"], "a batch must hold tensors, one row per sample"),
    ],
)
def test_what_is_refused(data, message):
    with pytest.raises(DataError, match=message):
        list(batches(data, 2))
