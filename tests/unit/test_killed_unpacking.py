"""A host program that is killed while it unpacks an environment, and started again."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from terradask_host.agent.environment import Environment
from terradask_host.agent.environment_archive import unpack
from terradask_host.agent.event_queue import EventQueue
from terradask_host.config import Paths

from ..waiting import PROCESS_SECONDS

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

#: Unpacks what there is of an archive, says so, and then waits for the rest.
UNPACKS = """
import sys, time
from pathlib import Path
from terradask_host.agent.environment import Environment
from terradask_host.agent.environment_archive import unpack
from terradask_host.agent.event_queue import EventQueue
from terradask_host.config import Paths

class Slow:
    left = sys.stdin.buffer.read()

    def read(self, size):
        if not self.left:
            print("unpacked some", flush=True)
            time.sleep(600)
        taken, self.left = self.left[:size], self.left[size:]
        return taken

host = Environment(
    Paths(Path(sys.argv[1])), sys.argv[2], "probe==1.0", events=EventQueue(), log=len,
    deadline_seconds=100.0,
)
host.unpack(lambda folder: unpack(Slow(), folder))
"""


def archive_of(*names: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return content.getvalue()


@pytest.mark.parametrize("mark", [".complete", ".whole"])
def test_a_host_program_that_is_killed_while_it_unpacks_leaves_nothing_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-system")
    paths = Paths(tmp_path)
    command = [sys.executable, "-c", UNPACKS, str(tmp_path), PYTHON]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        # Two of its three files.
        child.stdin.write(archive_of(mark, "lib/half.py", "lib/rest.py")[:1024])
        child.stdin.close()
        assert child.stdout.readline() == b"unpacked some\n"
        child.kill()
    assert list(paths.environments.rglob(mark))
    again = Environment(
        paths,
        PYTHON,
        "probe==1.0",
        events=EventQueue(),
        log=[].append,
        deadline_seconds=PROCESS_SECONDS,
    )
    assert not again.is_there
    whole = io.BytesIO(archive_of("lib/other.py"))
    subprocess.run([again.unpack(lambda folder: unpack(whole, folder)), "-c", ""], check=True)
    assert again.is_there
    assert (again.folder / "lib/other.py").exists()
    assert not list(paths.environments.rglob("half.py"))
