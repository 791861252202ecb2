"""Every region has AWS's public parameters of images, these images, and offers instance types.

moto keeps all of them by region, and lacks the newest regions and other partitions: they are as
us-east-1.
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


def _newest_images(region: str) -> list[dict[str, Any]] | None:
    """Return a region's newest images of Amazon Linux; None if moto has no list of it."""
    from moto.utilities.utils import load_resource

    try:
        images: list[dict[str, Any]] = load_resource(f"ec2/resources/latest_amis/{region}.json")
    except FileNotFoundError:
        return None
    return images


def install() -> None:
    """Replace moto's tables."""
    from moto.ec2.models.amis import Ami, AmiBackend
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS
    from moto.ssm.models import ParameterDict

    load = ParameterDict._load_latest_amis

    def load_latest_amis(parameters: Any) -> None:
        load(parameters)
        if not parameters:
            own, parameters.region_name = parameters.region_name, _MODEL
            load(parameters)
            parameters.region_name = own

    load_images = AmiBackend._load_amis

    def load_amis(backend: Any) -> None:
        load_images(backend)
        # Without any, moto was told to have none.
        if backend.amis and _newest_images(backend.region_name) is None:
            for image in _newest_images(_MODEL) or []:
                backend.amis[image["ami_id"]] = Ami(backend, **{**image, "owner_alias": "amazon"})

    ParameterDict._load_latest_amis = load_latest_amis
    AmiBackend._load_amis = load_amis
    for by in ("region", "availability-zone"):
        INSTANCE_TYPE_OFFERINGS[by] = _Offerings(INSTANCE_TYPE_OFFERINGS[by])
