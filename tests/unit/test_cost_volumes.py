"""Volumes of launch templates: what of them has a price."""

from __future__ import annotations

from typing import Any

import pytest

from terradask._catalog.prices.groups import HostLaunch, launch_of
from terradask._catalog.prices.prices import Volumes


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"VolumeType": "gp3", "VolumeSize": 80}, Volumes(80)),
        ({"VolumeType": "gp3", "VolumeSize": 80, "Iops": 3000, "Throughput": 125}, Volumes(80)),
        ({"VolumeType": "gp3", "VolumeSize": 80, "Iops": 6000}, Volumes(80, 0, 3000)),
        ({"VolumeType": "gp3", "VolumeSize": 80, "Throughput": 250}, Volumes(80, 125)),
        ({"VolumeType": "io2", "VolumeSize": 80}, None),
        ({"VolumeType": "gp3"}, None),
    ],
)
def test_a_volume_is_known_where_it_is_gp3(
    volume: dict[str, Any], expected: Volumes | None
) -> None:
    data = {
        "InstanceType": "m7i.large",
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": volume}],
    }
    assert launch_of(data) == HostLaunch("m7i.large", expected, None)
