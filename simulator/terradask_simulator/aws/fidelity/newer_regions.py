"""Every region has AWS's public parameters of images, and offers instance types.

moto keeps both by region, and lacks the newest regions and other partitions: they are as us-east-1.
"""

from __future__ import annotations

from typing import Any

__all__ = ["install"]

_MODEL = "us-east-1"


class _Offerings(dict[str, Any]):
    """Region -> its offerings, as moto looks them up."""

    def get(self, region: str, default: Any = None) -> Any:
        if region not in self:
            self[region] = [
                {**one, "Location": one["Location"].replace(_MODEL, region)} for one in self[_MODEL]
            ]
        return self[region]


def install() -> None:
    """Replace moto's tables."""
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS
    from moto.ssm.models import ParameterDict

    load = ParameterDict._load_latest_amis

    def load_latest_amis(parameters: Any) -> None:
        load(parameters)
        if not parameters:
            own, parameters.region_name = parameters.region_name, _MODEL
            load(parameters)
            parameters.region_name = own

    ParameterDict._load_latest_amis = load_latest_amis
    for by in ("region", "availability-zone"):
        INSTANCE_TYPE_OFFERINGS[by] = _Offerings(INSTANCE_TYPE_OFFERINGS[by])
