"""The test suite. What every process of it needs before it imports anything else is set here."""

import os
import sys

# OpenBLAS starts a thread per core, and its threads spin while they wait for each other. Several test processes on few
# cores then spend most of their time spinning: matrices here are small, and one thread is the fastest.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Container images often set PYTHONDONTWRITEBYTECODE. Without bytecode each test process, and each command that a test
# starts, compiles all that it imports, and pytest rewrites the assertions of every test module again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
