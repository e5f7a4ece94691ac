"""--store: the command says what it found, and goes on to the same numbers."""

import logging

import pyarrow.parquet as pq
import pytest

from datassay.act.remove import removal_curve
from datassay.commands.run import job
from helpers.command_line import invoke, succeed

RUN = ["run", "iris", "--model", "mlp:width=8", "--curve-seeds", "1"]


def scores(out):
    return pq.read_table(out / "scores.parquet").to_pydict()


@pytest.mark.slow
def test_a_second_run_finds_everything_and_mends_the_rest(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(job, "act_table", lambda *_: None)  # of which nothing is stored
    kept = [*RUN, "--store", tmp_path / "kept", "--out"]
    with caplog.at_level(logging.INFO):
        succeed(*kept, tmp_path / "first")
        assert "chunks found" not in caplog.text
        with monkeypatch.context() as patch:
            patch.setattr(removal_curve, "train_in_stacks", None)
            succeed(*kept, tmp_path / "second")
        assert "kept/features: 2 of 2 chunks found, 0 missing, 0 damaged" in caplog.text
        one, other = sorted((tmp_path / "kept" / "retrained").glob("scores-*.npz"))[:2]
        one.write_bytes(other.read_bytes())
        succeed(*kept, tmp_path / "third")
    assert "is damaged (not what was written)" in caplog.text
    assert scores(tmp_path / "first") == scores(tmp_path / "second") == scores(tmp_path / "third")
    refused = invoke("score", "iris", "--store", tmp_path / "kept", "--out", tmp_path / "fourth")
    assert refused.exit_code == 2 and "differs in: " in refused.stderr
