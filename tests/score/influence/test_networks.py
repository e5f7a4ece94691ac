"""Networks nobody chose: effects, rows of an index and kernels are those of single samples."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

import datassay as da
from datassay.collect.jacobian.per_sample import frozen_copy, typed_copy
from datassay.errors import ModelError
from datassay.score.index.plan import index_plan
from helpers.made_of import MadeOf
from kinds import networks
from kinds.judge import unequal

# Together they have each start, layer, loss, loader and measure at least once.
COVERING = (4, 9, 14, 93, 120, 141, 40, 23, 73, 198, 41, 177, 179, 11, 21, 74)


# A checkpoint says so where nothing is differentiated.
pytestmark = pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")


OTHERS = [pytest.param(seed, marks=pytest.mark.slow) for seed in COVERING[4:]]


@pytest.mark.parametrize("seed", [*COVERING[:4], *OTHERS])
def test_drawn_networks(seed):
    drawn = networks.draw(seed)
    assert not networks.failure(drawn), drawn


@pytest.mark.slow
def test_more_of_them():
    drawn = [networks.draw(seed) for seed in range(1000, 1012)]
    failures = {each: why for each in drawn if (why := networks.failure(each))}
    assert not failures


def graphs(*sizes):
    """Nodes, edges and a class of each graph."""
    rng = torch.Generator().manual_seed(0)
    return [
        (torch.randn(n, 5, generator=rng), torch.randint(0, n, (2, 6), generator=rng), n % 3)
        for n in sizes
    ]


def join(few):
    """Nodes of all graphs in one axis, as libraries of graphs have them."""
    sizes = [len(nodes) for nodes, _, _ in few]
    starts = np.cumsum([0, *sizes]).tolist()
    return (
        torch.cat([nodes for nodes, _, _ in few]),
        torch.cat([edges + start for start, (_, edges, _) in zip(starts, few, strict=False)], 1),
        torch.repeat_interleave(torch.arange(len(few)), torch.tensor(sizes)),
        torch.tensor([label for _, _, label in few]),
    )


def pass_messages(net, nodes, edges, graph):
    hidden = net.first(nodes)
    hidden = torch.tanh(hidden.index_add(0, edges[1], hidden[edges[0]]))
    total = hidden.new_zeros(int(graph.max()) + 1, 4)
    return net.head(total.index_add(0, graph, hidden))


def test_graphs_whose_nodes_share_an_axis():
    torch.manual_seed(0)
    model = MadeOf(pass_messages, first=nn.Linear(5, 4), head=nn.Linear(4, 3))
    some = graphs(3, 4, 5, 6, 3)
    settings = {"curvature": "blocks", "damping": 0.5, "temperature": 1.0}
    found = da.influence(
        model, DataLoader(some, 2, collate_fn=join), DataLoader(some, 3, collate_fn=join),
        measure="loss", precision="float64", **settings,
    )  # fmt: skip
    copied = frozen_copy(model, torch.float64)

    def parts(graph):
        nodes, edges, index, y = join([graph])
        return nodes.double(), edges, index, y

    names = [("first.weight", "first.bias"), ("head.weight", "head.bias")]
    right = 0
    for block in names:
        rows, hessian = [], 0
        for graph in some:
            *inputs, y = parts(graph)
            f = copied(*inputs)
            rows.append(networks.slopes(copied, functional.cross_entropy(f, y), block))
            p = f.softmax(1)[0].detach()
            jacobian = torch.stack([networks.slopes(copied, value, block) for value in f[0]])
            hessian = hessian + jacobian.T @ (p.diag() - p.outer(p)) @ jacobian / 5
        g = torch.stack(rows)
        hessian = hessian + 0.5 * hessian.diagonal().mean() * torch.eye(len(hessian)).double()
        right = right - g @ torch.linalg.solve(hessian, g.T) / 5
    assert not unequal(found.effect, right.numpy())
    assert any("one axis, as the nodes of graphs" in warning for warning in found.warnings)


class Second(nn.Module):
    """A second input that samples may lack, alone or a whole batch of them."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(5, 4), nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x, z):
        hidden = self.first(x)
        has_it = (z != 0).any(1, keepdim=True)
        if has_it.any():
            hidden = hidden + torch.tanh(self.second(z)) * has_it
        return self.head(torch.tanh(hidden))


def test_an_index_has_layers_that_its_first_sample_does_not_use():
    torch.manual_seed(0)
    model, x, z = Second(), torch.randn(6, 5), torch.randn(6, 5)
    z[0] = 0
    some = [(*pair, i % 3) for i, pair in enumerate(zip(x, z, strict=True))]
    settings = {"curvature": "blocks", "damping": 0.5, "temperature": 1.0}
    right = da.influence(model, some, some, measure="loss", precision="float64", **settings)
    index = da.index(model, some, bytes_per_sample=2**20, precision="float64", **settings)
    assert not unequal(index.query(some, top=None, measure="loss").effect, right.effect, 1e-5)


def test_an_index_of_gradients_that_are_all_0_is_refused():
    model = MadeOf(lambda net, x: net.head(x) * 0, head=nn.Linear(5, 3))
    some = torch.randn(6, 5).numpy(), np.arange(6) % 3
    assert not da.influence(model, some, some, measure="loss").effect.any()
    for function in (da.index, index_plan):
        with pytest.raises(ModelError, match="index needs gradients; every training sample's is 0"):
            function(model, some)


def made_of(call, **layers):
    torch.manual_seed(0)
    return MadeOf(call, **layers)


def routed(net, words):
    """A table that is also the head, and experts that not every sample has."""
    hidden = net.table(words).mean(1)
    chosen = hidden[:, 0] > 0
    result = torch.zeros_like(hidden)
    for expert, mask in ((net.first, chosen), (net.second, ~chosen)):
        if mask.any():
            result[mask] = torch.tanh(expert(hidden[mask]))
    return (hidden + result) @ net.table.weight.T + net.head(hidden)


WORDS = torch.from_numpy(np.random.default_rng(0).integers(1, 9, (8, 4)))
VALUES = torch.from_numpy(np.random.default_rng(1).normal(size=(8, 5)).astype(np.float32))
CLASSES = torch.arange(8) % 3


def beside_offsets(few):
    """Words of all texts in one tensor, where each begins in another, which comes first."""
    texts = [words[: 2 + int(y)] for words, y in few]
    starts = np.cumsum([0, *map(len, texts)])[:-1]
    return torch.tensor(starts), torch.cat(texts), torch.stack([y for _, y in few])


PAIRS = list(zip(WORDS, CLASSES, strict=True))
ORDINARY = {
    "a layer turned into its input's type": (
        lambda: made_of(
            lambda net, x: net.head(net.body.to(torch.float32)(x.float()).tanh().to(x.dtype)),
            body=nn.Linear(5, 4), head=nn.Linear(4, 3),
        ),
        (VALUES, CLASSES),
    ),
    "a layer turned into half precision": (
        lambda: made_of(
            lambda net, x: net.head(net.body.to(torch.bfloat16)(x.bfloat16()).tanh().to(x.dtype)),
            body=nn.Linear(5, 4), head=nn.Linear(4, 3),
        ),
        (VALUES.bfloat16().float(), CLASSES),
    ),
    "a re-entrant checkpoint": (
        lambda: made_of(
            lambda net, x: net.head(checkpoint(net.body, net.first(x), use_reentrant=True).tanh()),
            first=nn.Linear(5, 4), body=nn.Linear(4, 4), head=nn.Linear(4, 3),
        ),
        (VALUES, CLASSES),
    ),
    "a tied table beside experts": (
        lambda: made_of(
            routed, table=nn.Embedding(9, 4), first=nn.Linear(4, 4), second=nn.Linear(4, 4),
            head=nn.Linear(4, 9),
        ),
        (WORDS, CLASSES),
    ),
    "words beside offsets": (
        lambda: made_of(
            lambda net, starts, words: net.head(net.bag(words, starts)),
            bag=nn.EmbeddingBag(9, 4), head=nn.Linear(4, 3),
        ),
        DataLoader(PAIRS, 3, collate_fn=beside_offsets),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("case", list(ORDINARY))
def test_ordinary_networks(case):
    make, given = ORDINARY[case]
    if isinstance(given, DataLoader):
        singles, some = [given.collate_fn([pair]) for pair in PAIRS], given
    else:
        singles = [(x, y[None]) for x, y in zip(given[0][:, None], given[1], strict=True)]
        some = tuple(part.numpy() for part in given)
    found = da.influence(
        make(), some, some, method="tracin", lr=1.0, measure="loss", precision="float64"
    )
    copied, rows = typed_copy(make(), torch.float64), []
    names = tuple(dict(copied.named_parameters()))
    for *inputs, y in singles:
        inputs = [t.double() if t.is_floating_point() else t for t in inputs]
        rows.append(networks.slopes(copied, functional.cross_entropy(copied(*inputs), y), names))
    g = torch.stack(rows)
    assert not unequal(found.effect, -(g @ g.T).numpy(), 1e-4)
    assert np.isfinite(da.influence(make(), some, some).effect).all()
    assert len(da.index(make(), some).query(some, top=None).effect) == len(PAIRS)
    if "turned" in case:
        assert len(da.collect(make(), some)) == len(PAIRS)
