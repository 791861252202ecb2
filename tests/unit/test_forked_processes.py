"""Processes that the tests fork."""

import os
import threading

from ..forking import Forked
from ..waiting import eventually


def test_a_process_can_be_looked_at_while_a_thread_waits_for_its_end():
    reading, writing = os.pipe()
    process = Forked(1, reading)
    waiting = threading.Thread(target=process.wait)
    waiting.start()
    eventually(process._lock.locked)
    assert process.poll() is None
    os.close(writing)
    waiting.join()
    assert process.poll() == -9
