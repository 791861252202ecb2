"""Apply every field of its template to a launch.

moto reads image, type, key, groups, user data and tags from a template, but not the instance
profile, network interfaces (public addresses, security groups), metadata options, shutdown
behaviour, market, or the tags of volumes and interfaces; and it keeps volumes and interfaces of
terminated instances. Interfaces that outlive their instance are free. It launches any image, and
fails to end an instance once more, whose interfaces are gone.

AWS (documented): To terminate an EC2 instance again changes nothing, and succeeds.
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_TerminateInstances.html

AWS (documented): With ``InstanceMetadataTags = enabled``, tag keys have no slash and no blank: else
the launch fails. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/work-with-tags-in-IMDS.html
moto accepts any key.

ModifyInstanceMetadataOptions keeps options that it doesn't name; moto resets them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import Any

from terradask_simulator.aws.fidelity.capacity_reservations import reserve
from terradask_simulator.aws.fidelity.clock import now as aws_now
from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.images import check_architecture, check_root_volume
from terradask_simulator.aws.fidelity.launch_limits import (
    check_account,
    check_capacity,
    check_vcpus,
)
from terradask_simulator.aws.fidelity.lookups import index_of
from terradask_simulator.aws.fidelity.own_images import check_available
from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.fidelity.slow_instances import begin_launch
from terradask_simulator.aws.fidelity.spot import mark

__all__ = ["install", "read_boolean"]


_VALID = re.compile(r"[0-9a-zA-Z\-_+=,.@:]{1,255}")
_RESERVED = {".", "..", "_index"}


def read_boolean(value: Any) -> bool:
    """Return a request's boolean, sent as text or as a boolean."""
    return value is True or str(value).lower() == "true"


def install() -> None:
    """Replace moto's RunInstances, CreateTags and ModifyInstanceMetadataOptions."""
    from moto.core.utils import utcnow
    from moto.ec2.models.instances import Instance, InstanceBackend
    from moto.ec2.models.tags import TagBackend

    around(Instance, "terminate")(_terminate)
    around(Instance, "setup_defaults")(_add_root_volume)

    @around(Instance, "start")
    def start(begin: Any, instance: Any) -> Any:
        # AWS (documented): LaunchTime is when the instance was last launched: a start counts.
        # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Instance.html
        instance.launch_time = utcnow()
        return begin(instance)

    @around(InstanceBackend, "run_instances")
    def run_instances(
        run: Any,
        backend: Any,
        image_id: str,
        count: int,
        *given: Any,
        **kwargs: Any,
    ) -> Any:
        template = kwargs.get("launch_template")
        data = backend._get_template_from_args(template).data if template else {}
        tags = _tags(data, kwargs)
        kwargs.update(_completed(data, kwargs), tags=tags, region_name=backend.region_name)
        if kwargs["metadata_options"].get("InstanceMetadataTags") == "enabled":
            _check_tag_keys(tags["instance"])
        wanted_profile = _profile(backend, data, kwargs)
        reserved = _check_pool(backend, image_id or data.get("ImageId", ""), data, kwargs, count)
        known = set(backend.reservations)
        in_block = kwargs["instance_market_options"] == "capacity-block"
        if in_block:
            # moto takes each market for Spot.
            kwargs["instance_market_options"] = None
        try:
            reservation = run(backend, image_id, count, *given, **kwargs)
        except BaseException:
            # All or nothing, as documented for RunInstances: moto keeps the instances that it made
            # before the error.
            for reservation_id in set(backend.reservations) - known:
                for instance in backend.reservations.pop(reservation_id).instances:
                    _undo(instance)
            raise
        for number, instance in enumerate(reservation.instances):
            index_of(backend)[instance.id] = instance
            _finish(backend, instance, kwargs["nics"], tags)
            mark(instance)
            if in_block:
                instance.lifecycle = "capacity-block"
            if number < len(reserved):
                instance._embedded_reservation = reserved[number]
            begin_launch(instance)
            # If the request names a profile, moto's own response associates the first instance's.
            if wanted_profile and (number > 0 or not _named_by_request(kwargs)):
                backend.associate_iam_instance_profile(
                    instance.id, iam_instance_profile_arn=wanted_profile
                )
        return reservation

    @around(TagBackend, "create_tags")
    def create_tags(
        create: Any, backend: Any, resource_ids: list[str], tags: dict[str, str]
    ) -> Any:
        instances = index_of(backend)
        for resource_id in resource_ids:
            instance = instances.get(resource_id)
            if (
                instance is not None
                and instance.metadata_options.instance_metadata_tags == "enabled"
            ):
                _check_tag_keys(tags)
        return create(backend, resource_ids, tags)

    @around(InstanceBackend, "modify_instance_metadata_options")
    def modify_options(modify: Any, backend: Any, instance_id: str, **options: Any) -> Any:
        if options.get("metadata_tags") == "enabled":
            _check_tag_keys(backend.tags.get(instance_id, {}))
        now = backend.get_instance(instance_id).metadata_options
        kept = {
            "http_tokens": now.http_tokens,
            "hop_limit": now.http_put_response_hop_limit,
            "http_endpoint": now.http_endpoint,
            "http_protocol": now.http_protocol_ipv6,
            "metadata_tags": now.instance_metadata_tags,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return modify(backend, instance_id, **{**kept, **given})


def _terminate(terminate: Any, instance: Any) -> Any:
    """End an instance once, note when, and free the interfaces that outlive it."""
    if instance.state == "terminated":
        return copy.copy(instance._state)
    instance._embedded_terminated_at = aws_now()
    before = terminate(instance)
    for interface in instance.nics.values():
        if not interface.delete_on_termination:
            interface.instance = interface.attachment_id = interface.attach_time = None
            interface.status = "available"
    return before


def _add_root_volume(add: Any, instance: Any) -> None:
    """Add the root volume that the image has; moto's is always the same."""
    image = instance.ec2_backend.amis.get(instance.image_id)
    if image is None:
        add(instance)
        return
    (root,) = image.block_device_mappings
    disk = root["Ebs"]
    instance.add_block_device(
        disk["VolumeSize"],
        root["DeviceName"],
        disk["SnapshotId"],
        encrypted=False,
        delete_on_termination=True,
        kms_key_id=None,
        volume_type=disk["VolumeType"],
    )


def _check_tag_keys(keys: Iterable[str]) -> None:
    """Raise AWS's error for the first key that the instance metadata service can't serve."""
    for key in keys:
        if key in _RESERVED or not _VALID.fullmatch(key):
            raise ec2_error(
                "InvalidParameterValue",
                f"'{key}' is not a valid tag key. Tag keys must match pattern "
                f"([0-9a-zA-Z\\-_+=,.@:]{{1,255}}), and "
                "must not be a reserved name ('.', '..', '_index')",
            )


def _check_pool(
    backend: Any, image_id: str, data: dict[str, Any], kwargs: dict[str, Any], count: int
) -> list[str]:
    """Refuse an image that doesn't exist, and a type that can't run it, exceeds a quota or has no
    capacity. Return the capacity reservations that the instances run in.
    """
    from moto.ec2.exceptions import InvalidAMIIdError

    # Without any, moto is configured to have none.
    if image_id and backend.amis and image_id not in backend.amis:
        raise InvalidAMIIdError(image_id)
    instance_type, zone = pool_of(backend, data, kwargs)
    check_account(instance_type)
    check_available(backend, image_id)
    check_architecture(backend, image_id, instance_type)
    devices = kwargs.get("block_device_mappings") or data.get("BlockDeviceMappings") or []
    check_root_volume(backend, image_id, devices)
    market = kwargs["instance_market_options"] or kwargs.get("lifecycle") or "on-demand"
    check_vcpus(backend, instance_type, market, count)
    reserved = reserve(backend, data, (instance_type, zone, market), count)
    if left := count - len(reserved):
        check_capacity(backend, instance_type, zone, market, left)
    return reserved


def pool_of(backend: Any, data: dict[str, Any], kwargs: dict[str, Any]) -> tuple[str, str]:
    """Return the type and the zone of a launch: the request's, or those of its template's data."""
    instance_type = (
        data.get("InstanceType") if kwargs.get("is_instance_type_default") else None
    ) or kwargs["instance_type"]
    nics = kwargs.get("nics") or data.get("NetworkInterfaces") or []
    subnet_id = kwargs.get("subnet_id") or next(
        (nic["SubnetId"] for nic in nics if nic.get("SubnetId")), None
    )
    zone = backend.get_subnet(subnet_id).availability_zone if subnet_id else kwargs.get("placement")
    return instance_type, zone or f"{backend.region_name}a"


def _undo(instance: Any) -> None:
    for interface in instance.nics.values():
        interface.delete_on_termination = True
    instance.terminate()


def _named_by_request(kwargs: dict[str, Any]) -> bool:
    return bool(kwargs.get("iam_instance_profile_name") or kwargs.get("iam_instance_profile_arn"))


def _profile(backend: Any, data: dict[str, Any], kwargs: dict[str, Any]) -> str | None:
    from moto.ec2.utils import filter_iam_instance_profiles

    given = data.get("IamInstanceProfile") or {}
    name = kwargs.get("iam_instance_profile_name") or given.get("Name")
    arn = kwargs.get("iam_instance_profile_arn") or given.get("Arn")
    if _named_by_request(kwargs):
        name, arn = kwargs.get("iam_instance_profile_name"), kwargs.get("iam_instance_profile_arn")
    if not name and not arn:
        return None
    profile = filter_iam_instance_profiles(
        backend.account_id,
        partition=backend.partition,
        iam_instance_profile_arn=arn,
        iam_instance_profile_name=name,
    )
    return str(profile.arn)


def _tags(data: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, dict[str, str]]:
    from moto.ec2.utils import convert_tag_spec

    tags = {
        "instance": {},
        "volume": {},
        "network-interface": {},
        **convert_tag_spec(data.get("TagSpecifications", [])),
    }
    for kind, given in (kwargs.get("tags") or {}).items():
        tags[kind] = {**tags.get(kind, {}), **given}
    return tags


def _completed(data: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    nics = copy.deepcopy(kwargs.get("nics") or data.get("NetworkInterfaces") or [])
    for nic in nics:
        nic["DeviceIndex"] = int(nic.get("DeviceIndex", 0))
        if "AssociatePublicIpAddress" in nic:
            nic["AssociatePublicIpAddress"] = read_boolean(nic["AssociatePublicIpAddress"])
        if kwargs.get("subnet_id"):
            nic.pop("SubnetId", None)
    more: dict[str, Any] = {
        "nics": nics,
        "metadata_options": {
            **(data.get("MetadataOptions") or {}),
            **(kwargs.get("metadata_options") or {}),
        },
        "instance_initiated_shutdown_behavior": kwargs.get("instance_initiated_shutdown_behavior")
        or data.get("InstanceInitiatedShutdownBehavior"),
        "instance_market_options": kwargs.get("instance_market_options")
        or (data.get("InstanceMarketOptions") or {}).get("MarketType"),
        "associate_public_ip": kwargs.get("associate_public_ip"),
    }
    devices = kwargs.get("block_device_mappings") or data.get("BlockDeviceMappings")
    if devices:
        more["block_device_mappings"] = [
            {
                **device,
                "Ebs": {
                    **device["Ebs"],
                    "Encrypted": read_boolean(device["Ebs"].get("Encrypted", False)),
                    "DeleteOnTermination": read_boolean(
                        device["Ebs"].get("DeleteOnTermination", True)
                    ),
                },
            }
            for device in devices
            if device.get("Ebs")
        ]
    return more


def _finish(
    backend: Any, instance: Any, nics: list[dict[str, Any]], tags: dict[str, dict[str, str]]
) -> None:
    kept = {
        nic["DeviceIndex"]
        for nic in nics
        if nic.get("NetworkInterfaceId") or not read_boolean(nic.get("DeleteOnTermination", True))
    }
    for number, interface in instance.nics.items():
        interface.delete_on_termination = number not in kept
        interface.add_tags(tags["network-interface"])
