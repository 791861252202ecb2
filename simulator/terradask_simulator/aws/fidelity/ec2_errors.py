"""EC2's errors for what doesn't exist, and for ids and filters of a wrong form.

moto words some of them otherwise, shows a Python set in their place, and names the ids that exist
too; it takes an instance id of any form, and answers an unknown filter with HTTP 500.

AWS (recorded): EC2 names the first id that doesn't exist. tests/records/data/ec2-networks.json
AWS (reported): an instance id of a wrong form is InvalidInstanceID.Malformed.
https://github.com/ClusterLabs/cluster-glue/pull/30
AWS (reported): a filter that the operation doesn't document is InvalidParameterValue.
https://github.com/boto/boto3/issues/1299
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["check_instance_ids", "ec2_error", "install"]

_INSTANCE_ID = re.compile("i-(?:[0-9a-f]{8}|[0-9a-f]{17})")

#: moto's errors -> AWS's texts.
_TEXTS = {
    "InvalidVPCIdError": "The vpc ID '{}' does not exist",
    "InvalidSecurityGroupNotFoundError": "The security group '{}' does not exist",
    "InvalidVolumeIdError": "The volume '{}' does not exist.",
    "InvalidInternetGatewayIdError": "The internetGateway ID '{}' does not exist",
    "InvalidAllocationIdError": "The allocation ID '{}' does not exist",
    "InvalidAddressError": "Address '{}' not found.",
}


def install() -> None:
    """Replace moto's texts, and check ids and filters."""
    _word()
    _name_what_is_unknown()
    _check_filters()


def ec2_error(code: str, text: str) -> Exception:
    """Return one of EC2's errors."""
    from moto.ec2.exceptions import EC2ClientError

    return EC2ClientError(code, text)


def check_instance_ids(instance_ids: Collection[str]) -> None:
    """Refuse an id that no instance can have."""
    for instance_id in instance_ids:
        if not _INSTANCE_ID.fullmatch(instance_id):
            raise ec2_error("InvalidInstanceID.Malformed", f'Invalid id: "{instance_id}"')


def _word() -> None:
    from moto.ec2 import exceptions

    def worded(text: str) -> Callable[..., None]:
        def initialise(initialise: Any, error: Any, names: Any) -> None:
            one = names if isinstance(names, str) else next(iter(names))
            initialise(error, one)
            error.message = text.format(one)

        return initialise

    for name, text in _TEXTS.items():
        around(getattr(exceptions, name), "__init__")(worded(text))


def _name_what_is_unknown() -> None:
    """Ask for the unknown alone, so that the error names it."""
    from moto.ec2.models import EC2Backend
    from moto.ec2.models.elastic_block_store import EBSBackend
    from moto.ec2.models.security_groups import SecurityGroupBackend
    from moto.ec2.models.vpcs import VPCBackend

    def known_groups(backend: Any) -> Collection[str]:
        return {name for groups in backend.groups.values() for name in groups}

    @around(EC2Backend, "get_reservations_by_instance_ids")
    def get(get: Any, backend: Any, instance_ids: list[str], *args: Any, **more: Any) -> Any:
        check_instance_ids(instance_ids)
        return get(backend, instance_ids, *args, **more)

    for owner, operation, argument, known in (
        (SecurityGroupBackend, "describe_security_groups", "group_ids", known_groups),
        (VPCBackend, "describe_vpcs", "vpc_ids", lambda backend: backend.vpcs),
        (EBSBackend, "describe_volumes", "volume_ids", lambda backend: backend.volumes),
    ):
        around(owner, operation)(_asking_first(argument, known))


def _asking_first(argument: str, known: Callable[[Any], Collection[str]]) -> Callable[..., Any]:
    def described(describe: Any, backend: Any, *args: Any, **asked: Any) -> Any:
        names = (args[0] if args else asked.get(argument)) or ()
        unknown = [name for name in names if name not in known(backend)]
        if unknown and len(unknown) < len(names):
            return describe(backend, **{argument: unknown[:1]})
        return describe(backend, *args, **asked)

    return described


def _check_filters() -> None:
    from moto.ec2.responses._base_response import EC2BaseResponse

    @around(EC2BaseResponse, "_filters_from_querystring")
    def filters(read: Any, response: Any) -> dict[str, Any]:
        asked: dict[str, Any] = read(response)
        known = _documented_filters(response._get_action()) if asked else frozenset()
        for name in asked if known else ():
            if name not in known and not name.startswith("tag:"):
                raise ec2_error("InvalidParameterValue", f"The filter '{name}' is invalid")
        return asked


@lru_cache
def _documented_filters(operation: str) -> frozenset[str]:
    """Return the filters that the API's model documents, for which moto may lack some."""
    from moto.core.utils import get_service_model

    model = get_service_model("ec2")
    if operation not in model.operation_names:
        return frozenset()
    members = model.operation_model(operation).input_shape.members
    text = (members.get("Filters") or members.get("Filter")).documentation
    return frozenset(re.findall(r"<code>([^<&]+)</code>", text))
