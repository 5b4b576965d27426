"""What the computer tells."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polyseme.machine import peak_memory


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells it")
def test_a_process_is_not_blamed_for_what_its_parent_holds():
    held = np.ones(40_000_000)  # 320 MB, of this process
    assert peak_memory(os.getpid()) > held.nbytes
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        assert 10**6 < peak_memory(child.pid) < 10**8
        child.communicate(b"\n")
    assert peak_memory(child.pid) == 0
