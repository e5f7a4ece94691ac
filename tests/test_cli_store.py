"""--store: the command says what it found, and goes on to the same numbers."""

import logging

import pyarrow.parquet as pq
import pytest
from test_cli import invoke, succeed

from datassay.act import removal_curve

RUN = ["run", "iris", "--model", "mlp:width=8", "--curve-seeds", "1"]


def scores(out):
    return pq.read_table(out / "scores.parquet").to_pydict()


def test_a_second_run_finds_everything(tmp_path, monkeypatch, caplog):
    succeed(*RUN, "--out", tmp_path / "plain")
    kept = [*RUN, "--store", tmp_path / "kept"]
    with caplog.at_level(logging.INFO):
        succeed(*kept, "--out", tmp_path / "first")
        assert "kept/features: 0 of 2 chunks found, 2 missing, 0 damaged" in caplog.text
        monkeypatch.setattr(removal_curve, "train_networks", None)
        succeed(*kept, "--out", tmp_path / "second")
    assert "kept/features: 2 of 2 chunks found, 0 missing, 0 damaged" in caplog.text
    assert scores(tmp_path / "plain") == scores(tmp_path / "first") == scores(tmp_path / "second")
    assert "chunks found" in " ".join(succeed(*kept, "--plan").stdout.split())
    refused = invoke("score", "iris", "--store", tmp_path / "kept", "--out", tmp_path / "third")
    assert refused.exit_code == 2 and "differs in: " in refused.stderr


def test_a_damaged_piece_of_the_curve_is_trained_again(tmp_path, caplog):
    kept = [*RUN, "--store", tmp_path / "kept", "--out", tmp_path / "report"]
    succeed(*kept)
    first = scores(tmp_path / "report")
    one, other = sorted((tmp_path / "kept" / "retrained").glob("scores-*.npz"))[:2]
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    with caplog.at_level(logging.WARNING):
        succeed(*kept)
    assert "is damaged (it was written as scores-" in caplog.text
    assert len(one.read_bytes()) == len(content) and scores(tmp_path / "report") == first


@pytest.mark.parametrize("command", ["run", "score"])
def test_it_is_listed(command):
    assert "--store" in succeed(command, "--help").output
