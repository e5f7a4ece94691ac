"""`tests/devices.py`, in a process of its own: torch takes new devices only before it computes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SUITE = Path(__file__).with_name("devices.py")
NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.parametrize(
    "device", ["not gpu", pytest.param("gpu", marks=[pytest.mark.gpu, NEEDS_CUDA])]
)
def test_public_functions_give_the_numbers_of_the_processor(device):
    words = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", device, str(SUITE)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment["UNCHECKED_SHAPES"] = "1"  # other tests check them; it would take a third longer
    call = [sys.executable, "-m", "pytest", *words]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert " passed" in done.stdout and " skipped" not in done.stdout
