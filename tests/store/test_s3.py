"""The store on S3, against a server on this machine; needs s3fs and moto (the extra `bench`)."""

import os

import pytest

from datassay.store.location import file_system
from helpers.stores import N_CHUNKS, check_all_there, full, opened

pytest.importorskip("s3fs")
moto = pytest.importorskip("moto.server")


@pytest.fixture
def bucket(monkeypatch):
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": host,
    }
    for name, value in settings.items():
        monkeypatch.setitem(os.environ, name, value)
    file_system("s3://bucket")[0].mkdir("bucket")
    yield "s3://bucket/here/store"
    server.stop()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.slow
def test_written_read_damaged_and_mended_on_s3(bucket):
    store = full(bucket)
    check_all_there(opened(bucket))
    files, root = file_system(bucket)
    files.pipe_file(f"{root}/train_rows/c/1/0/0", b"short")
    files.rm_file(f"{root}/val_rows/c/0/0/0")
    again = opened(bucket)
    survey = again.survey()
    assert list(survey.damaged) == [1, 3] and len(survey.complete) == N_CHUNKS - 2
    check_all_there(full(bucket))
    assert store.location == bucket
