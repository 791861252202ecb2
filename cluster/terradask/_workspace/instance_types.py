"""``terradask.list_instance_types``: the machines that a region has, for people to look through."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from terradask._catalog.instance_types.listing import PricedInstanceType


def list_instance_types(
    names: str | Sequence[str] = (),
    *,
    cores: int | str | Sequence[int] | None = None,
    memory: int | str | Sequence[int | str] | None = None,
    gpu: bool | int | str | Sequence[int] | None = None,
    gpu_type: str | None = None,
    arm: bool | None = None,
    zone: str | None = None,
    local_disk: bool | None = None,
    current_generation: bool = False,
    spot: bool = False,
    region: str | None = None,
    settings: str | os.PathLike[str] | None = None,
    refresh: bool = False,
) -> list[PricedInstanceType]:
    """List the instance types of a region by price, cheapest first, unpriced ones last.

    Parameters
    ----------
    names
        Patterns for names (``"m6i.*"``) or, without a point, for families (``"c7*"``). By default
        all.
    cores
        Virtual CPUs: ``4``, a range ``[2, 8]``, or as text ``"2-8"``, ``"8+"``.
    memory
        Memory, within 10 %: ``"16 GiB"``, a range ``["16 GiB", "64 GiB"]``, or as text ``"16-64
        GiB"``, ``"64 GiB+"``; a number is bytes.
    gpu
        GPUs: True for any, False for none, a number or a range.
    gpu_type
        Model of the GPUs, such as ``"T4"``.
    arm
        ARM processors (True), x86-64 (False), or both, the default.
    zone
        Availability zone that offers them. By default any of the region.
    local_disk
        With local disks (True), without (False), or both, the default.
    current_generation
        Whether to leave out types that AWS counts as previous. Some of these serve well, such as
        m6i.
    spot
        Whether to look up Spot prices, too.
    region
        AWS region. By default that of the settings.
    settings
        Folder or ``terradask.toml`` to load settings from. By default the nearest one in the
        working directory or above it.
    refresh
        Whether to ignore this machine's cache, which keeps types for a day, prices for a week, Spot
        prices for an hour.

    Returns
    -------
    list of PricedInstanceType
        The types. A price that AWS doesn't list is None, never a guess.

    Raises
    ------
    InvalidInput
        If a filter can't be read, or the region has no such GPU or zone.
    AccessDenied
        If the caller may not list types, naming the permission.

    Notes
    -----
    Permissions needed: ``ec2:DescribeInstanceTypes``, ``ec2:DescribeInstanceTypeOfferings``; for
    prices ``pricing:GetProducts``, and ``ec2:DescribeSpotPriceHistory`` with `spot`.

    Examples
    --------
    >>> import terradask
    >>> for one in terradask.list_instance_types(cores=[4, 8], memory="32 GiB"):  # doctest: +SKIP
    ...     print(one.name, one.vcpus, one.memory_gib, one.hourly_usd)
    """
    from terradask._catalog.instance_types.listing import TypeFilter, find_types
    from terradask._workspace.workspace import Workspace

    wanted = TypeFilter.of(
        names,
        cores=cores,
        memory=memory,
        gpu=gpu,
        gpu_type=gpu_type,
        arm=arm,
        local_disk=local_disk,
        current_generation=current_generation,
    )
    workspace = Workspace.load(settings, workspace={"region": region} if region else {})
    return list(find_types(workspace.aws, wanted, zone=zone, spot=spot, refresh=refresh).types)
