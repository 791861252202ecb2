"""Tasks that last. Hosts have no tests, so these functions are sent by value: each is inside
another one.
"""

import time


def _slow():
    def slowinc(number, delay):
        time.sleep(delay)
        return number + 1

    return slowinc


#: Adds one after some seconds, as in `distributed.utils_test`, which imports all of Dask.
slowinc = _slow()


def behind(gate):
    """Return a task that adds one as soon as a file is there."""

    def waiting(number):
        while not gate.exists():
            time.sleep(0.02)
        return number + 1

    return waiting
