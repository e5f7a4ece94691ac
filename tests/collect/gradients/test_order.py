"""Which samples a loader stands for: every sampler, and samples that change as they are read."""

import itertools
import random

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from datassay.collect.gradients.reading import batches, samples_or_batches
from datassay.errors import DataError

N = 10


class Numbers(Dataset):
    def __init__(self, of=float):
        self.of = of

    def __len__(self):
        return N

    def __getitem__(self, i):
        return torch.tensor([self.of(i)]), i % 2


class Own(Sampler):
    """Gives what a function makes of the pass's number."""

    def __init__(self, of):
        self.of, self.passes, self.generator = of, 0, torch.Generator().manual_seed(0)

    def __len__(self):
        return N

    def __iter__(self):
        self.passes += 1
        return iter(self.of(self))


def seen(loader, size=4, **given):
    """Ids, the numbers behind them, and weights."""
    result = samples_or_batches(loader, "train", **given).batches(size)
    parts = list(result)
    ids = np.concatenate([ids for ids, _ in parts]).tolist()
    values = torch.cat([x for _, (x, _) in parts])[:, 0].long().tolist()
    assert ids == values == result.ids.tolist()
    assert result.n == len(ids)
    return ids, result


ALL = list(range(N))
WEIGHTS = [1.0, 0, 3, 1, 1, 1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ({}, ALL),
        ({"shuffle": True}, ALL),
        ({"shuffle": True, "drop_last": True}, ALL),
        ({"sampler": RandomSampler(Numbers(), replacement=True, num_samples=30)}, ALL),
        ({"sampler": SubsetRandomSampler([7, 2, 9])}, [7, 2, 9]),
        ({"sampler": [5, 1, 3]}, [5, 1, 3]),
        ({"sampler": Own(lambda s: range(N - 1, -1, -1))}, ALL[::-1]),
        ({"sampler": Own(lambda s: torch.randperm(N).tolist())}, ALL),
        ({"sampler": Own(lambda s: torch.randperm(N, generator=s.generator))}, ALL),
        ({"sampler": Own(lambda s: random.sample(ALL, N))}, ALL),
        ({"sampler": Own(lambda s: [(i + s.passes) % N for i in ALL])}, ALL),
        ({"sampler": DistributedSampler(Numbers(), 1, 0, shuffle=True)}, ALL),
        ({"batch_sampler": BatchSampler(RandomSampler(Numbers()), 3, True)}, ALL),
        ({"batch_sampler": BatchSampler(SequentialSampler(Numbers()), 3, False)}, ALL),
        ({"batch_sampler": BatchSampler(SequentialSampler(Numbers()), 4, True)}, ALL[:8]),
        ({"batch_sampler": [[4, 2], [0]]}, [4, 2, 0]),
        ({"batch_sampler": Own(lambda s: [[3, 1], [0, 2]])}, [3, 1, 0, 2]),
    ],
)
def test_ids_are_those_of_the_sampler(given, ids):
    size = {} if "batch_sampler" in given else {"batch_size": 4}
    assert seen(DataLoader(Numbers(), **size, **given))[0] == ids


def test_what_is_left_out_or_shared_is_told():
    _, result = seen(DataLoader(Numbers(), 4, drop_last=True))
    assert result.warnings == (
        "train leaves out its last 2 samples: drop_last without shuffle never trains on them.",
    )
    _, result = seen(DataLoader(Numbers(), 4, sampler=DistributedSampler(Numbers(), 2, 0)))
    assert "one of 2 parts of a DistributedSampler: all 10 samples" in result.warnings[0]
    assert seen(DataLoader(Numbers(), 4, shuffle=True, drop_last=True))[1].warnings == ()


def test_weights_are_how_often_a_sample_is_drawn():
    ids, result = seen(DataLoader(Numbers(), 4, sampler=WeightedRandomSampler(WEIGHTS, 50)))
    given = np.array([w for w in WEIGHTS if w])
    assert ids == [i for i in ALL if i != 1]
    np.testing.assert_allclose(result.weights, given / given.mean())
    assert result.subset([1, 8]).weights.tolist() == result.weights[[1, 8]].tolist()
    ids, result = seen(DataLoader(Numbers(), 4, sampler=[3, 1, 3, 0]))
    assert ids == [3, 1, 0]
    np.testing.assert_allclose(result.weights, np.array([2, 1, 1]) * 3 / 4)
    assert "drawn 4 times in a pass" in result.warnings[0]
    ids, result = seen(DataLoader(Numbers(), 4, sampler=[3, 1, 3, 1]))  # each twice: all alike
    assert ids == [3, 1] and result.weights is None
    once = WeightedRandomSampler(WEIGHTS, N - 1, False)
    ids, result = seen(DataLoader(Numbers(), 4, sampler=once))
    assert ids == [i for i in ALL if i != 1] and result.weights is None
    loader = DataLoader(Numbers(), 4, sampler=[3, 1, 3])  # of queries each that is drawn is one
    result = samples_or_batches(loader, "val", are_queries=True).batches(2)
    assert torch.cat([x for _, (x, _) in result])[:, 0].tolist() == [3, 1, 3]
    assert result.weights is None
    loader = DataLoader(Numbers(), 4, sampler=WeightedRandomSampler(WEIGHTS, 5))
    with pytest.raises(DataError, match="WeightedRandomSampler draws them anew"):
        samples_or_batches(loader, "val", are_queries=True)


@pytest.mark.parametrize("queries", [False, True])
@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (Own(lambda s: torch.randint(0, N, (N,)).tolist()), "same samples in each pass; Own draws"),
        (Own(lambda s: range(s.passes % 3)), "same samples in each pass"),
        (Own(lambda s: itertools.count()), "must end; its sampler gave more than"),
        (Own(lambda s: []), "at least 1 sample; got none"),
        (Own(lambda s: 1 / 0), "its sampler or Dataset raised ZeroDivisionError"),
        (WeightedRandomSampler(WEIGHTS, 4, False), "WeightedRandomSampler draws them anew"),
    ],
)
def test_samplers_that_nobody_knows_the_samples_of(sampler, message, queries):
    with pytest.raises(DataError, match=message):
        samples_or_batches(DataLoader(Numbers(), 4, sampler=sampler), "train", are_queries=queries)


def test_looking_leaves_generators_and_samplers_as_they_were():
    own = Own(lambda s: [random.random(), np.random.rand(), torch.rand(1)] and  # noqa: NPY002
              torch.randperm(N, generator=s.generator))  # fmt: skip
    loader = DataLoader(Numbers(), 4, sampler=own)
    torch.manual_seed(3), random.seed(3), np.random.seed(3)  # noqa: NPY002
    before = own.generator.get_state(), torch.get_rng_state()
    numpy = np.random.get_state()[1].copy()  # noqa: NPY002
    samples_or_batches(loader, "train")
    assert torch.equal(own.generator.get_state(), before[0]) and own.passes == 0
    assert torch.equal(torch.get_rng_state(), before[1])  # beartype draws from Python's
    assert (np.random.get_state()[1] == numpy).all()  # noqa: NPY002


class Stream(IterableDataset):
    """A stream whose passes differ as a function of their number says."""

    def __init__(self, of):
        self.of, self.passes = of, 0

    def __iter__(self):
        self.passes += 1
        return ((torch.tensor([float(i)]), i % 2) for i in self.of(self.passes))


@pytest.mark.parametrize("how", ["bare", "loader"])
@pytest.mark.parametrize(
    ("of", "message"),
    [
        (lambda p: random.sample(ALL, N), "others, or in another order"),
        (lambda p: ALL[: N - p], "gave 8 samples after 9"),
        (lambda p: [], "at least 1 sample; got none"),
        (lambda p: ALL if p < 3 else ALL[::-1], "others, or in another order"),  # only later
    ],
)
def test_streams_that_change_are_refused(of, message, how):
    random.seed(0)
    data = Stream(of) if how == "bare" else DataLoader(Stream(of), 3)
    with pytest.raises(DataError, match=message):
        list(samples_or_batches(data, "train").batches(3))


@pytest.mark.parametrize("how", ["bare", "loader"])
def test_a_stream_and_parts_of_it(how):
    data = Stream(lambda p: ALL) if how == "bare" else DataLoader(Stream(lambda p: ALL), 4)
    result = samples_or_batches(data, "train").batches(4)
    assert torch.cat([x for _, (x, _) in result])[:, 0].tolist() == ALL
    part = result.subset([0, 3, 4, 9]).subset([1, 3])
    assert np.concatenate([ids for ids, _ in part]).tolist() == [3, 9]
    assert torch.cat([x for _, (x, _) in part])[:, 0].tolist() == [3, 9]


@pytest.mark.parametrize(
    ("draw", "workers"),
    [
        (lambda: float(torch.rand(1)), 0),
        (np.random.rand, 0),
        (random.random, 0),
        (random.random, 1),
    ],
    ids=["torch", "numpy", "python", "python in a worker"],
)
def test_one_draw_of_each_sample_in_every_pass(draw, workers):
    noisy = Numbers(lambda i: i + draw())
    loader = DataLoader(noisy, 3, shuffle=True, num_workers=workers)
    result = samples_or_batches(loader, "train").batches(4)
    first, second = (torch.cat([x for _, (x, _) in result])[:, 0] for _ in range(2))
    assert torch.equal(first, second) and len((first % 1).unique()) == N
    assert torch.equal(torch.cat([x for _, (x, _) in result.subset([6, 2])])[:, 0], first[[6, 2]])
    assert "drawn at random each time it is read" in result.warnings[0]
    arrays = samples_or_batches(noisy, "train")
    np.testing.assert_allclose(arrays.x[:, 0], first)
    assert "drawn at random" in arrays.warnings[-1]


def test_draws_of_a_generator_of_ones_own_are_refused():
    own = np.random.default_rng(0)
    with pytest.raises(DataError, match="draws at random from a generator of its own"):
        samples_or_batches(DataLoader(Numbers(lambda i: i + own.random()), 3), "train")


def test_a_collate_function_that_draws_is_called_once():
    def masked(samples):
        x, y = torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples])
        return {"x": x * (torch.rand(x.shape) < 0.5), "labels": y}

    result = samples_or_batches(DataLoader(Numbers(), 3, collate_fn=masked), "train").batches(4)
    first, second = (torch.cat([batch["x"] for _, batch in result]) for _ in range(2))
    assert torch.equal(first, second)
    part = result.subset([2, 3, 8])
    assert torch.equal(torch.cat([batch["x"] for _, batch in part]), first[[2, 3, 8]])


def test_what_a_dataset_raises_is_one_line():
    broken = Numbers(lambda i: float(i) if i != 4 else {}["no picture"])  # not read twice
    result = batches(DataLoader(broken, 2), 2)
    with pytest.raises(
        DataError, match=r"train: at batch 2 its Dataset .* raised KeyError: 'no pic"
    ):
        list(result)

    def collate(samples):
        raise RuntimeError("of one's own")

    with pytest.raises(DataError, match=r"collate function raised RuntimeError: of one's own"):
        samples_or_batches(DataLoader(Numbers(), 2, collate_fn=collate), "train")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Dataset(), r"train must be a SampleSet.*got a Dataset"),
        (DataLoader(Dataset(), 2, sampler=ALL), r"Dataset raised TypeError.*has no len\(\)"),
    ],
)
def test_a_dataset_without_a_length_is_refused(data, message):
    with pytest.raises(DataError, match=message):
        samples_or_batches(data, "train")
