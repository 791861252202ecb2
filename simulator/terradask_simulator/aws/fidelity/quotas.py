"""Quotas of EC2 and Auto Scaling: values of an established account, AWS's defaults, and requests
for increases.

moto has only VPC's quotas, and no requests. Requests stay open until a switch sets the quota;
`launch_limits` enforces quotas if that is switched on. A new account may run 5 vCPUs, too few for a
cluster: this account has raised quotas, like accounts that run clusters.

AWS (documented): The default quotas of EC2, EBS and Auto Scaling have these values.
https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html,
https://docs.aws.amazon.com/general/latest/gr/ec2-service.html,
https://docs.aws.amazon.com/ebs/latest/userguide/ebs-resource-quotas.html,
https://docs.aws.amazon.com/general/latest/gr/as.html
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

from terradask_simulator.aws.backend import ACCOUNT
from terradask_simulator.aws.errors import SimulatorError
from terradask_simulator.aws.fidelity.patching import add, around

__all__ = ["applied_quotas", "install", "quota_value", "set_quota"]

#: Service -> its name, and its quotas: code -> name and default value.
_QUOTAS: dict[str, tuple[str, dict[str, tuple[str, float]]]] = {
    "ec2": (
        "Amazon Elastic Compute Cloud (Amazon EC2)",
        {
            "L-1216C47A": ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 5),
            "L-6E869C2A": ("Running On-Demand DL instances", 0),
            "L-74FC7D96": ("Running On-Demand F instances", 0),
            "L-DB2E81BA": ("Running On-Demand G and VT instances", 0),
            "L-F7808C92": ("Running On-Demand HPC instances", 0),
            "L-43DA4232": ("Running On-Demand High Memory instances", 0),
            "L-1945791B": ("Running On-Demand Inf instances", 0),
            "L-417A185B": ("Running On-Demand P instances", 0),
            "L-2C3B7624": ("Running On-Demand Trn instances", 0),
            "L-7295265B": ("Running On-Demand X instances", 0),
            "L-34B43A08": ("All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", 5),
            "L-85EED4F7": ("All DL Spot Instance Requests", 0),
            "L-88CF9481": ("All F Spot Instance Requests", 0),
            "L-3819A6DF": ("All G and VT Spot Instance Requests", 0),
            "L-B5D1601B": ("All Inf Spot Instance Requests", 0),
            "L-7212CCBC": ("All P4, P3 and P2 Spot Instance Requests", 0),
            "L-C4BD4855": ("All P5 Spot Instance Requests", 0),
            "L-6B0D517C": ("All Trn Spot Instance Requests", 0),
            "L-E3A00192": ("All X Spot Instance Requests", 0),
            "L-0263D0A3": ("EC2-VPC Elastic IPs", 5),
            "L-FB451C26": ("Launch templates", 5_000),
        },
    ),
    "ebs": (
        "Amazon Elastic Block Store (Amazon EBS)",
        {"L-7A658B76": ("Storage for General Purpose SSD (gp3) volumes, in TiB", 50)},
    ),
    "autoscaling": (
        "Amazon EC2 Auto Scaling",
        {"L-CDE20ADC": ("Auto Scaling groups per region", 500)},
    ),
}

#: The account's vCPU quotas, in place of AWS's defaults: thousands of standard vCPUs, hundreds with
#: accelerators.
_GROWN: dict[str, float] = {
    **dict.fromkeys(("L-1216C47A", "L-34B43A08"), 10_000),
    **dict.fromkeys(
        (
            "L-DB2E81BA",
            "L-3819A6DF",
            "L-417A185B",
            "L-7212CCBC",
            "L-C4BD4855",
            "L-7295265B",
            "L-E3A00192",
        ),
        768,
    ),
}

_OPEN = ("PENDING", "CASE_OPENED")

#: Service and code -> the value set in place of the default.
_APPLIED: dict[tuple[str, str], float] = {}


def applied_quotas() -> dict[str, float]:
    """Return the quotas that were set, by ``service/code``."""
    return {f"{service}/{code}": value for (service, code), value in _APPLIED.items()}


def quota_value(service_code: str, quota_code: str) -> float:
    """Return a quota's value: the one that was set, or that of an established account, or AWS's
    default.
    """
    _, quotas = _QUOTAS.get(service_code, ("", {}))
    if quota_code not in quotas:
        known = ", ".join(
            f"{service}/{code}" for service, (_, codes) in _QUOTAS.items() for code in codes
        )
        raise SimulatorError(
            "There is no such quota on the embedded AWS",
            given=f"{service_code}/{quota_code}",
            allowed=known,
        )
    return _APPLIED.get(
        (service_code, quota_code), float(_GROWN.get(quota_code, quotas[quota_code][1]))
    )


def set_quota(service_code: str, quota_code: str, value: float) -> float:
    """Set a quota, approve the requests that it satisfies, and return the previous value."""
    from moto.servicequotas.models import servicequotas_backends

    before = quota_value(service_code, quota_code)
    _APPLIED[service_code, quota_code] = float(value)
    for backend in list(servicequotas_backends[ACCOUNT].values()):
        for one in _requests(backend):
            if _is_open(one, service_code, quota_code) and one["DesiredValue"] <= value:
                one.update(Status="APPROVED", LastUpdated=datetime.now(UTC).timestamp())
    return before


def install() -> None:
    """Add the quotas and calls that moto's Service Quotas lacks."""
    from moto.core.exceptions import JsonRESTError
    from moto.servicequotas.models import ServiceQuotasBackend
    from moto.servicequotas.responses import ServiceQuotasResponse

    @around(ServiceQuotasBackend, "get_service_quota")
    def get_service_quota(
        of_vpc: Any, backend: Any, service_code: str, quota_code: str, *, default_only: bool = False
    ) -> dict[str, Any]:
        quota = f"{service_code}/{quota_code}"
        arn = f"arn:aws:servicequotas:{backend.region_name}:{backend.account_id}:{quota}"
        service_name, quotas = _QUOTAS.get(service_code, ("", {}))
        if quota_code not in quotas:
            return {**of_vpc(backend, service_code, quota_code), "QuotaArn": arn}
        name, default = quotas[quota_code]
        return {
            "ServiceCode": service_code,
            "ServiceName": service_name,
            "QuotaArn": arn,
            "QuotaCode": quota_code,
            "QuotaName": name,
            "Value": float(default) if default_only else quota_value(service_code, quota_code),
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }

    def request_service_quota_increase(response: Any) -> str:
        given, backend = json.loads(response.body), response.backend
        service_code, quota_code = given["ServiceCode"], given["QuotaCode"]
        desired = float(given["DesiredValue"])
        quota = backend.get_service_quota(service_code, quota_code)
        if any(_is_open(one, service_code, quota_code) for one in _requests(backend)):
            raise JsonRESTError(
                "ResourceAlreadyExistsException",
                "Only one open service quota increase request is allowed per quota.",
            )
        if desired <= quota["Value"]:
            raise JsonRESTError(
                "IllegalArgumentException",
                "You must provide a quota value greater than the current quota value.",
            )
        now = datetime.now(UTC).timestamp()
        made = {
            **{name: held for name, held in quota.items() if name not in ("Value", "Adjustable")},
            "Id": uuid.uuid4().hex,
            "DesiredValue": desired,
            "Status": "PENDING",
            "Created": now,
            "LastUpdated": now,
        }
        _requests(backend).append(made)
        return json.dumps({"RequestedQuota": made})

    def get_aws_default_service_quota(response: Any) -> str:
        given = json.loads(response.body)
        quota = response.backend.get_service_quota(
            given["ServiceCode"], given["QuotaCode"], default_only=True
        )
        return json.dumps({"Quota": quota})

    def list_requested_service_quota_change_history(response: Any) -> str:
        given = json.loads(response.body)
        asked = {key: given[key] for key in ("ServiceCode", "Status") if key in given}
        found = [r for r in _requests(response.backend) if asked.items() <= r.items()]
        return json.dumps({"RequestedQuotas": found})

    add(
        ServiceQuotasResponse,
        get_aws_default_service_quota,
        request_service_quota_increase,
        list_requested_service_quota_change_history,
    )


def _is_open(request: dict[str, Any], service_code: str, quota_code: str) -> bool:
    named = (request["ServiceCode"], request["QuotaCode"]) == (service_code, quota_code)
    return named and request["Status"] in _OPEN


def _requests(backend: Any) -> list[dict[str, Any]]:
    return backend.__dict__.setdefault("_embedded_requests", [])
