"""Shapes of what terradask's stacks write into tags and into the workspace's bucket."""

from __future__ import annotations

from typing import Any

from terradask._policy.shapes import Allowed, Keyed, Shape, anything, given


def must(*values: Any) -> Allowed:
    """Return what an attribute has to be set to."""
    return Allowed(values)


def may(*values: Any) -> Allowed:
    """Return what an attribute is set to where it is set."""
    return Allowed(values, optional=True)


def with_key(*values: Any) -> Allowed:
    """Return what an attribute is set to where the workspace has a key of its own."""
    return Allowed(values, optional=True, demanded_with="key")


def to(*expressions: str) -> tuple[str, ...]:
    """Return expressions of Terraform's."""
    return tuple(f"${{{each}}}" for each in expressions)


#: Text for readers, sizes, types of machines: no access depends on them.
ANY = anything

#: The network's document, as clusters' stacks read it.
BASELINE = "jsondecode(data.aws_s3_object.baseline.body)"


def baseline(*paths: str) -> tuple[str, ...]:
    """Return expressions for parts of the network's document."""
    return to(*(f"{BASELINE}.{path}" for path in paths))


#: Order of creation.
META = {"depends_on": may(ANY)}
#: Names of a workspace's resources, and of a cluster's own.
NAME = "terradask-{workspace}"
CLUSTERS_NAME = "terradask-{workspace}.{cluster}"

#: ARN of a key that the settings give.
KEY_ARN = "arn:{partition}:kms:*:*:*"

#: Tags of a resource: the team's own, and those by which terradask finds it.
TAGS = must(
    Keyed(
        "",
        must(ANY),
        {
            "terradask:workspace": must("{workspace}"),
            "terradask:cluster": Allowed(("{cluster}",), optional=True, demanded_with="cluster"),
        },
    )
)
#: Tags of a group and its hosts.
GROUP_TAGS = Keyed(
    "",
    must(ANY),
    {
        "terradask:workspace": must("{workspace}"),
        "terradask:cluster": must("{cluster}"),
        "terradask:role": must("{role}"),
        "terradask:group": must("{name}"),
    },
)

_SUBNETS = must(*to("aws_subnet.public-*.id", "aws_subnet.private-*.id"), given("subnet-*"))


def _by_role(**by_role: Allowed) -> Allowed:
    return must(by_role)


def _templates(role: str) -> Allowed:
    template = f"aws_launch_template.{role}-*"
    return must(
        Keyed(
            "{architectures}",
            must(
                {
                    "id": must(*to(f"{template}.id")),
                    "version": must(*to(f"tostring({template}.latest_version)")),
                }
            ),
            {},
        )
    )


_DISKS: Shape = {
    "scheduler": may(Keyed("*", _templates("scheduler"), {})),
    "worker": may(Keyed("*", _templates("worker"), {})),
    "worker_throughputs": may(Keyed("*", may(Keyed("*", _templates("worker"), {})), {})),
}

_PROFILE = must("*terradask-{workspace}*", given("*"))

#: ``workspace.json``, which clusters' stacks and hosts read.
WORKSPACE_DOCUMENT: Shape = {
    "format": must(1),
    "terradask_version": must(ANY),
    "workspace": must("{workspace}"),
    "region": must("{region}"),
    "account": must("{account}"),
    "bucket": must("{bucket}"),
    "vpc_id": must(*to("aws_vpc.this.id"), given("vpc-*")),
    "vpc_cidr": must(ANY),
    "zones": must(
        Keyed(
            "{region}*",
            must(
                {
                    "public_subnet_id": _SUBNETS,
                    "private_subnet_id": _SUBNETS,
                    "scheduler_subnet_id": _SUBNETS,
                    "worker_subnet_id": _SUBNETS,
                    "public_cidr": must(ANY),
                    "private_cidr": must(ANY),
                }
            ),
            {},
        )
    ),
    "templates": _by_role(scheduler=_templates("scheduler"), worker=_templates("worker")),
    "disks": may(_DISKS),
    "gpu": may(
        {
            "templates": _by_role(scheduler=_templates("scheduler"), worker=_templates("worker")),
            "disks": must(_DISKS),
        }
    ),
    "security_groups": _by_role(
        scheduler=must(*to("aws_security_group.scheduler.id"), given("sg-*")),
        worker=must(*to("aws_security_group.worker.id"), given("sg-*")),
    ),
    "instance_profiles": _by_role(scheduler=_PROFILE, worker=_PROFILE),
    "roles": _by_role(
        scheduler=must(
            *to("aws_iam_role.scheduler.arn", "data.aws_iam_instance_profile.scheduler.role_arn")
        ),
        worker=must(
            *to("aws_iam_role.worker.arn", "data.aws_iam_instance_profile.worker.role_arn")
        ),
    ),
    "secrets_prefix": must("terradask/{workspace}/"),
    "log_group": must("/terradask/{workspace}"),
    "nat": must("single", "per_zone", "none", "given"),
    "interface_endpoints": must(ANY),
    "container_repositories": may(ANY),
    "notify_topic_arn": may(given("arn:{partition}:sns:*:*:*")),
    "scheduler_ports": must(ANY),
    "public_workers": must(True, False),
    "public_schedulers": must(True, False),
    "session_manager": must(True, False),
    "allow_ingress_from_anywhere": must(True, False),
    "given": must(ANY),
    "kms_key_arn": may(given(KEY_ARN)),
    "ingress": must(ANY),
    "host": must({"wheel_key": must("host/{sha256}/*.whl"), "wheel_sha256": must("{sha256}")}),
    "launch": must(
        {
            # P1 judges it.
            "user_data_base64": must(ANY),
            "image_ids": must(Keyed("{architectures}", must(given("ami-*")), {})),
            "disk_size_gib": must(ANY),
            "gpu_image_ids": may(Keyed("{architectures}", must(given("ami-*")), {})),
            "gpu_disk_size_gib": may(ANY),
            "public_address": _by_role(scheduler=must(True, False), worker=must(True, False)),
        }
    ),
    "cluster_launch_templates": must(True, False),
    "isolation": must("workspace", "cluster"),
    "isolated": may(
        {
            "security_groups": must(
                {
                    "clients": must(*to("aws_security_group.clients.id")),
                    "hosts": must(*to("aws_security_group.hosts.id")),
                }
            ),
            "role_path": must("/*terradask/{workspace}/"),
            "role_name_prefix": must("*"),
            "permissions_boundary": must(
                *to("aws_iam_policy.boundary.arn"), given("arn:{partition}:iam::*:policy/*")
            ),
            # P6 judges these.
            "access": must(ANY),
            "scheduler_access": may(ANY),
        }
    ),
}

#: A cluster's ``cluster.json``, which the library reads. P5 looks for secrets in it.
CLUSTER_DOCUMENT: Shape = {
    "format": must(1),
    "terradask_version": must(ANY),
    "workspace": must("{workspace}"),
    "cluster": must("{cluster}"),
    "region": must("{region}"),
    "zone": must(ANY),
    "bucket": must("{bucket}"),
    "secret_id": must("terradask/{workspace}/{cluster}"),
    "groups": must(
        Keyed(
            "*",
            must(
                {
                    "autoscaling_group": must("terradask-{workspace}-{cluster}-*"),
                    "market": must("on-demand", "spot"),
                    "max_size": must(ANY),
                    "resources": may(ANY),
                    "role": must("scheduler", "worker"),
                    "worker_group": may("*"),
                    "zones": must(ANY),
                }
            ),
            {},
        )
    ),
    "lock": must(ANY),
    "settings": must(ANY),
    "scheduler": must(ANY),
    "worker": must(ANY),
}
