"""The example that trains a small GPT: its sentences, its batches, and what it leaves behind."""

import importlib.util
import os
import warnings
from itertools import islice
from pathlib import Path

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"
SENTENCES = [f"the {a} {b} in the {c}" for a in ("man", "dog") for b in ("runs", "sleeps")
             for c in ("park", "house", "rain")]  # fmt: skip


@pytest.fixture(scope="module")
def example():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("transformers")
    spec = importlib.util.spec_from_file_location(
        "small_gpt", Path(__file__).parents[1] / "examples" / "small_gpt.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def lines(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("\n".join([*SENTENCES, "", SENTENCES[0]]), encoding="utf-8")
    return file


@pytest.mark.slow
def test_the_folder_is_read_the_seed_decides_and_what_is_written_is_explained(
    example, lines, tmp_path, capsys
):
    def trained(name, *more):
        size = "--words 300 --width 32 --layers 1 --epochs 15 --batch 4".split()
        example.main([str(tmp_path / name), "--texts", str(lines), *size, *more])
        return example.GPT2LMHeadModel.from_pretrained(tmp_path / name).eval()

    first, again, other = trained("first"), trained("again", "--explain"), trained("o", "--seed=1")
    assert all(map(torch.equal, first.parameters(), again.parameters()))
    assert not torch.equal(first.transformer.wte.weight, other.transformer.wte.weight)
    message = capsys.readouterr().out
    losses = [float(line.split()[4]) for line in message.splitlines() if line.startswith("epoch")]
    assert losses[14] < losses[0] / 2
    assert (tmp_path / "first" / "texts.txt").read_text("utf-8").splitlines() == SENTENCES
    tokenizer = example.PreTrainedTokenizerFast.from_pretrained(tmp_path / "first")
    assert tokenizer.decode(tokenizer("Ü, ever 7")["input_ids"]) == "Ü, ever 7"
    assert example.continued(first, tokenizer, "the man", 5).startswith("the man ")
    page = (tmp_path / "again" / "influence" / "index.html").read_text(encoding="utf-8")
    assert "raised most by: the " in message and "Which training texts made the model say" in page


def test_padding_does_not_count(example):
    tokenizer = example.new_tokenizer(SENTENCES, 300)
    model = example.new_model(tokenizer, 32, 1, seed=0).eval()
    rows = example.encoded(tokenizer, ["the man", "the dog sleeps in the rain and the house"])
    together = example.padded(rows)
    n = [len(row) - 1 for row in rows]
    with torch.no_grad():
        alone = [float(model(row[None], labels=row[None]).loss) for row in rows]
        loss = float(model(**together).loss)
    assert loss == pytest.approx((alone[0] * n[0] + alone[1] * n[1]) / sum(n), rel=1e-5)
    assert rows[0][0] == rows[0][-1] == tokenizer.eos_token_id
    assert together["labels"][0].tolist() == [*rows[0].tolist(), *[-100] * (n[1] - n[0])]


def test_sentences_come_from_the_file_the_data_folder_or_docstrings(
    example, lines, tmp_path, monkeypatch
):
    assert example.sentences(lines, 100, seed=0) == SENTENCES
    few = example.sentences(lines, 5, seed=0)
    assert len(few) == 5 and few == [s for s in SENTENCES if s in few]
    monkeypatch.setenv("DATASSAY_DATA", str(tmp_path))
    for sentence in islice(example.source(None), 50):
        assert sentence[0].isupper() and sentence.endswith(".") and len(sentence.split()) >= 6
    for name, text, predicted in (
        ("sst2/train.tsv", "a good film\t1\n", ["a good film"]),
        ("rt_polarity/rt-polarity.pos", "pos film\n", ["a good film"]),  # the other part is missing
        ("rt_polarity/rt-polarity.neg", "neg film\n", ["pos film", "neg film"]),
    ):
        (tmp_path / "text" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "text" / name).write_text(text, encoding="utf-8")
        assert example.source(None) == predicted
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(SystemExit, match=r"no sentences in .*empty.txt"):
        example.main([str(tmp_path / "out"), "--texts", str(tmp_path / "empty.txt")])
