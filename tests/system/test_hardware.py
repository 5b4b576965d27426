"""Memory of processes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polyseme.system.hardware import peak_memory


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_peak_memory_excludes_the_parent():
    array = np.ones(40_000_000)  # 320 MB, of this process
    assert peak_memory(os.getpid()) > array.nbytes
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        assert 10**6 < peak_memory(child.pid) < 10**8
        child.communicate(b"\n")
    assert peak_memory(child.pid) == 0
