"""GPUs on a machine's bus and those that its driver shows, from files as the kernel and NVIDIA's
driver write them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from terradask_host.errors import GpusMissing
from terradask_host.machine import count_of_driver, count_on_bus, wait_for_driver

#: Of a p4d: vendor and class.
T4, A100, NVSWITCH, NIC, AMD = (
    ("0x10de", "0x030000"),
    ("0x10de", "0x030200"),
    ("0x10de", "0x068000"),
    ("0x1d0f", "0x020000"),
    ("0x1002", "0x030000"),
)


def bus(folder: Path, *devices: tuple[str, str]) -> Path:
    for number, (vendor, kind) in enumerate(devices):
        device = folder / f"0000:00:{number:02x}.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    return folder


def driver(folder: Path, count: int) -> Path:
    for number in range(count):
        (folder / f"gpus/0000:00:{number:02x}.0").mkdir(parents=True)
    return folder / "gpus"


def test_gpus_are_nvidias_display_controllers(tmp_path: Path) -> None:
    assert count_on_bus(bus(tmp_path, T4, NVSWITCH, A100, NIC, AMD)) == 2
    (tmp_path / "0000:00:00.0/vendor").unlink()
    assert count_on_bus(tmp_path) == 1


def test_a_machine_without_a_bus_has_none(tmp_path: Path) -> None:
    assert (count_on_bus(tmp_path / "none"), count_of_driver(tmp_path / "none")) == (0, 0)


def test_a_driver_that_loads_late_is_waited_for(tmp_path: Path) -> None:
    paused = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        driver(tmp_path, 2)

    wait_for_driver(2, deadline_seconds=60, pause=pause, gpus=tmp_path / "gpus")
    assert len(paused) == 1


@pytest.mark.parametrize(
    ("shown", "said"), [(3, "shows fewer GPUs than the machine has"), (0, "no driver for them")]
)
def test_fewer_gpus_than_the_machine_has_are_an_error(
    tmp_path: Path, shown: int, said: str
) -> None:
    gpus = driver(tmp_path / "nvidia", shown)
    with pytest.raises(GpusMissing, match=said) as caught:
        wait_for_driver(4, deadline_seconds=0, pause=[].append, gpus=gpus)
    assert f"{shown} of 4 GPUs" in str(caught.value)


def test_a_machine_without_gpus_needs_no_driver(tmp_path: Path) -> None:
    wait_for_driver(0, deadline_seconds=0, pause=[].append, gpus=tmp_path / "none")
