"""Describe only the region's instance types, page by page.

moto describes all its types in every region and returns all pages at once: 6 MB, which take seconds
to write, during which no other call is answered.
"""

from __future__ import annotations

import hashlib
from typing import Any

from terradask_simulator.aws.fidelity.pages import page

__all__ = ["WRITTEN", "install"]

#: Serialized pages of types, by a digest of their content.
WRITTEN: dict[str, tuple[Any, Any, Any]] = {}
_MOST_WRITTEN = 64

#: AWS's smallest page, and its largest pages of types and of offerings, which are also the
#: defaults.
_SMALLEST, _TYPES, _OFFERINGS = 5, 100, 1000


def install() -> None:
    """Replace moto's answers."""
    from moto.core.responses import ActionResult
    from moto.ec2.exceptions import InvalidInstanceTypeError
    from moto.ec2.models.instance_types import InstanceTypeBackend
    from moto.ec2.responses.instances import InstanceResponse

    described_anywhere = InstanceTypeBackend.describe_instance_types

    def described(
        backend: Any, instance_types: list[str] | None = None, filters: Any = None
    ) -> list[Any]:
        here = {
            offer["InstanceType"] for offer in backend.describe_instance_type_offerings("region")
        }
        unknown = set(instance_types or ()) - here
        if unknown:
            raise InvalidInstanceTypeError(sorted(unknown), error_type="InvalidInstanceType")
        return [
            one
            for one in described_anywhere(backend, instance_types, filters)
            if one["InstanceType"] in here
        ]

    class WrittenOnce(ActionResult):  # type: ignore[misc]
        """A page that is serialized once, which takes a tenth of a second."""

        def execute_result(self, context: Any) -> Any:
            key = hashlib.sha256(repr(self.result).encode()).hexdigest()
            written = WRITTEN.get(key) or super().execute_result(context)
            if len(WRITTEN) < _MOST_WRITTEN:
                WRITTEN[key] = written
            status, headers, body = written
            return status, dict(headers), body

    def describe_instance_types(response: Any) -> Any:
        found = response.ec2_backend.describe_instance_types(
            response._get_param("InstanceTypes", []), response._filters_from_querystring()
        )
        return WrittenOnce(page("InstanceTypes", found, response, smallest=_SMALLEST, most=_TYPES))

    def describe_instance_type_offerings(response: Any) -> Any:
        found = response.ec2_backend.describe_instance_type_offerings(
            response._get_param("LocationType"), response._filters_from_querystring()
        )
        return ActionResult(
            page("InstanceTypeOfferings", found, response, smallest=_SMALLEST, most=_OFFERINGS)
        )

    InstanceTypeBackend.describe_instance_types = described
    InstanceResponse.describe_instance_types = describe_instance_types
    InstanceResponse.describe_instance_type_offerings = describe_instance_type_offerings
