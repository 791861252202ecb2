"""An account whose quotas and instances are written down, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

TYPES = {"m6i.xlarge": 4, "m6i.8xlarge": 32, "g5.2xlarge": 8, "p5.48xlarge": 192, "c5.large": 2}


class Client:
    """A client whose methods have their answers written down; whoever asks for pages gets one."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)
        self.requests: list[dict[str, Any]] = []

    def __getattr__(self, method: str) -> Any:
        answer = self.answers[method]
        return answer if callable(answer) else lambda **_: answer

    def can_paginate(self, _method: str) -> bool:
        return True

    def get_paginator(self, method: str) -> Any:
        call = getattr(self, method)

        class Paginator:
            def paginate(self, **asked: Any) -> list[Any]:
                return [call(**asked)]

        return Paginator()


class FakeAws:
    region = "us-east-1"

    def __init__(
        self, *, limits: Mapping[str, float], default_limits: Mapping[str, float] = {}, **ec2: Any
    ) -> None:
        def get(source: Mapping[str, float]) -> Any:
            def answer(*, ServiceCode: str, QuotaCode: str) -> dict[str, Any]:  # noqa: N803  as boto3 names them
                if QuotaCode not in source:
                    raise ClientError(
                        {"Error": {"Code": "NoSuchResourceException", "Message": ""}},
                        "GetServiceQuota",
                    )
                return {"Quota": {"Value": source[QuotaCode]}}

            return answer

        def types(**asked: Any) -> dict[str, Any]:
            wanted = asked["Filters"][0]["Values"]
            return {
                "InstanceTypes": [
                    {"InstanceType": t, "VCpuInfo": {"DefaultVCpus": TYPES[t]}}
                    for t in wanted
                    if t in TYPES
                ]
            }

        nothing = {
            "describe_instances": {"Reservations": []},
            "describe_addresses": {"Addresses": []},
            "describe_launch_templates": {"LaunchTemplates": []},
            "describe_security_groups": {"SecurityGroups": []},
            "describe_vpcs": {"Vpcs": []},
            "describe_volumes": {"Volumes": []},
            "describe_nat_gateways": {"NatGateways": []},
            "describe_subnets": {"Subnets": []},
            "describe_availability_zones": {
                "AvailabilityZones": [{"ZoneName": f"us-east-1{z}"} for z in "abc"]
            },
            "describe_instance_types": types,
        }
        self.quotas = Client(
            {
                "get_service_quota": get(limits),
                "get_aws_default_service_quota": get(default_limits),
                "list_requested_service_quota_change_history": ec2.pop(
                    "requests", {"RequestedQuotas": []}
                ),
                "request_service_quota_increase": lambda **asked: self.quotas.requests.append(
                    asked
                ),
            }
        )
        scaling = Client(
            {"describe_auto_scaling_groups": ec2.pop("groups", {"AutoScalingGroups": []})}
        )
        self._clients = {
            "ec2": Client({**nothing, **ec2}),
            "autoscaling": scaling,
            "service-quotas": self.quotas,
        }

    def client(self, name: str) -> Client:
        return self._clients[name]
