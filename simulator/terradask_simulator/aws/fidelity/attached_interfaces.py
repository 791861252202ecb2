"""An interface that an instance has can't be deleted.

moto deletes it, and then fails to end the instance. AWS's answer, as a tool that empties accounts
gets it: https://github.com/gruntwork-io/cloud-nuke/issues/431
"""

from __future__ import annotations

from typing import Any

__all__ = ["install"]


def install() -> None:
    """Refuse the request; what ends an instance deletes its interfaces another way."""
    from moto.ec2.exceptions import EC2ClientError
    from moto.ec2.responses.elastic_network_interfaces import ElasticNetworkInterfaces

    delete = ElasticNetworkInterfaces.delete_network_interface

    def delete_network_interface(response: Any) -> Any:
        name = response._get_param("NetworkInterfaceId")
        interface = response.ec2_backend.enis.get(name)
        if interface is not None and interface.instance is not None:
            raise EC2ClientError(
                "InvalidParameterValue", f"Network interface '{name}' is currently in use."
            )
        return delete(response)

    ElasticNetworkInterfaces.delete_network_interface = delete_network_interface
