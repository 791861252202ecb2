"""Clusters' secrets. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from terradask_modules.kinds.cluster_names import ClusterNames
from terradask_modules.kinds.kind import Charge, Deletion, ResourceKind


def _shape(names: ClusterNames, address: str) -> Mapping[str, str] | None:
    if address != "keys":
        return None
    name = names.where.secret_id
    # AWS (secret-suffix)
    arn = re.escape(names.where.arn("secretsmanager", f"secret:{name}-")) + "[A-Za-z0-9]{6}"
    return {"id": arn, "arn": arn, "name": re.escape(name)}


SECRET = ResourceKind(
    "aws_secretsmanager_secret",
    service="secretsmanager",
    # At once, even if it is scheduled for deletion: its name can then be used again.
    delete=Deletion("delete_secret", "SecretId", more={"ForceDeleteWithoutRecovery": True}),
    orphan="secret",
    price=Charge("secret", "and each call", "secret"),
    born="CreatedDate",
    shape=_shape,
    loss="hosts and clients of a running cluster lose their keys",
    loss_to_hosts="hosts and clients lose their keys",
)
