"""Which start of the AWS provider gets one that another start has used, in the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..kept_providers import Launch, Providers

PROGRAM = """#!/bin/sh
echo "1|5|unix|/nowhere|grpc"
exec sleep 600
"""


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    program = tmp_path / "provider"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (tmp_path / "stack").mkdir()
    return Launch(str(program), {"PATH": "/bin", "AWS_ACCESS_KEY_ID": "a"}, f"{tmp_path}/stack")


def test_what_the_provider_reads_makes_it_another(launch: Launch, tmp_path: Path) -> None:
    def changed(**environ: str) -> Launch:
        return Launch(launch.program, {**launch.environ, **environ}, launch.folder)

    assert changed(PYTEST_CURRENT_TEST="one").key() == launch.key()
    assert changed(AWS_ACCESS_KEY_ID="b").key() != launch.key()
    elsewhere = Launch(launch.program, launch.environ, f"{tmp_path}/elsewhere")
    Path(elsewhere.folder, ".terraform").mkdir(parents=True)
    assert elsewhere.key() == launch.key()
    Path(elsewhere.folder, "host").mkdir()
    assert elsewhere.key() != launch.key()


async def test_one_serves_one_start_at_a_time_and_none_after_a_bad_end(
    launch: Launch, tmp_path: Path
) -> None:
    providers = Providers(tmp_path)
    first, second = await providers.take(launch), await providers.take(launch)
    assert first is not second
    providers.give_back(first, is_good=True)
    assert await providers.take(launch) is first
    providers.give_back(first, is_good=False)
    providers.give_back(second, is_good=True)
    assert await first.process.wait() < 0
    assert await providers.take(launch) is second
    others = [await providers.take(launch) for _ in range(2)]
    for each in (second, *others):
        providers.give_back(each, is_good=True)
    assert await second.process.wait() < 0
    await providers.close()
    assert [each.process.returncode for each in others] == [-9, -9]


async def test_a_program_that_says_nothing_is_no_provider(launch: Launch, tmp_path: Path) -> None:
    Path(launch.program).write_text("#!/bin/sh\n")
    with pytest.raises(ChildProcessError, match="doesn't start"):
        await Providers(tmp_path).take(launch)
