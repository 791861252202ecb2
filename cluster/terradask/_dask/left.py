"""What a client leaves running that leaves a cluster, as a sentence."""

from __future__ import annotations

import logging
from decimal import Decimal
from functools import partial

from terradask._common.side_by_side import side_by_side
from terradask._dask.provision import Provisioned
from terradask_host.documents import LifetimePolicy
from terradask_modules.names import SCHEDULER_GROUP

logger = logging.getLogger("terradask")


def left_running(provisioned: Provisioned) -> str:
    """Return what runs on, what it costs, and how it ends; what can't be read is left out."""
    deployment = provisioned.deployment
    name, life = deployment.name, provisioned.attachment.run.life or LifetimePolicy()
    try:
        number, price = side_by_side([partial(each, provisioned) for each in (_hosts, _price)], 2)
        hosts = f": {number}, {price}"
    except Exception:
        logger.debug("cluster %s: can't read what runs on", name, exc_info=True)
        hosts = ""
    seconds = life.no_client_timeout_seconds
    without = "" if seconds is None else f"; {seconds:g} s after its last client it ends by itself"
    return (
        f"{name} runs on{hosts}{without}. To end it: terradask stop {name}, or "
        f"Cluster.from_name({name!r}).shutdown()"
    )


def _hosts(provisioned: Provisioned) -> str:
    groups = provisioned.deployment.groups.describe()
    n = sum(one.desired for key, one in groups.items() if key != SCHEDULER_GROUP)
    return f"a scheduler and {n} host{'' if n == 1 else 's'} of workers"


def _price(provisioned: Provisioned) -> str:
    from terradask._deployments.overview import cluster_hourly_usd

    workspace = provisioned.workspace
    usd: Decimal | None = cluster_hourly_usd(
        workspace.aws,
        workspace=workspace.settings.workspace.name,
        cluster=provisioned.deployment.name,
    )
    return "at a price that isn't known" if usd is None else f"${usd:.4f} an hour"
