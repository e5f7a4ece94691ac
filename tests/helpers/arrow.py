"""What older versions of pyarrow cannot read."""

import pyarrow as pa
import pytest


def reads_views():
    try:
        return bool(pa.array(["a"], pa.string_view()).cast(pa.large_string()))
    except (AttributeError, pa.ArrowNotImplementedError):
        return False


needs_views = pytest.mark.skipif(not reads_views(), reason="this pyarrow reads no views of polars")
