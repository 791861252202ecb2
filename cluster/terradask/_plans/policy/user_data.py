"""P1: user data, which many can read, contains no keys, and fits EC2's limit."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from terradask._common.decoding import Undecodable, from_base64, layers
from terradask._plans.policy.complete_plan import UNREADABLE
from terradask._plans.policy.document import PlanDocument, Resource, Unknown, written_document
from terradask._plans.policy.findings import PolicyFinding, error, warning
from terradask._plans.policy.patterns import forbidden_in_user_data
from terradask_modules.errors import TerradaskError
from terradask_modules.mounts import Mount
from terradask_modules.names import HOST_SCRIPT_PREFIX, HOST_SCRIPTS

#: AWS (ec2-user-data)
MAX_USER_DATA_BYTES = 16_384

_ATTRIBUTES = {
    "aws_launch_template": ("user_data",),
    "aws_instance": ("user_data", "user_data_base64"),
    "aws_spot_instance_request": ("user_data", "user_data_base64"),
    "aws_launch_configuration": ("user_data", "user_data_base64"),
}
_BASELINE = "${jsondecode(data.aws_s3_object.baseline.body).launch.user_data_base64}"
#: The names in a host's configuration, as in the user data template.
_HOST_JSON = re.compile(r"^ +(\{\"format\": 1, \"workspace\": .*\})$", re.MULTILINE)
_ADVICE = "keep keys in Secrets Manager; hosts read them with their role when they start"
_SCRIPT_ADVICE = "change the file that network.host_setup or network.host_leave names"


def user_data_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield forbidden contents of user data, and user data that is too long."""
    for resource in document.of(*_ATTRIBUTES):
        for attribute in _ATTRIBUTES[resource.type]:
            value = resource.values.get(attribute)
            if isinstance(value, Unknown):
                if _is_of_network(value):
                    continue
                if value.references or value.template:
                    yield warning(
                        resource.address,
                        f"{attribute} is known only after the apply, and can't be checked",
                        _ADVICE,
                    )
            elif isinstance(value, str) and value:
                encoded = attribute == "user_data_base64" or resource.type == "aws_launch_template"
                yield from _text_findings(resource, attribute, value, encoded, document)
    yield from _network_document_findings(document)
    for item, name in _uploaded_scripts(document):
        content = from_base64(str(item.values.get("content_base64"))) or b""
        if hashlib.sha256(content).hexdigest() != name:
            yield _finding(
                item, "is another script than the one whose SHA-256 its key has", _SCRIPT_ADVICE
            )


def _uploaded_scripts(document: PlanDocument) -> Iterator[tuple[Resource, str]]:
    """Yield the objects for hosts' scripts, with the SHA-256 in their keys."""
    for item in document.of("aws_s3_object"):
        key = item.values.get("key")
        if isinstance(key, str) and key.startswith(HOST_SCRIPT_PREFIX):
            yield item, key.removeprefix(HOST_SCRIPT_PREFIX)


def _is_of_network(value: Any) -> bool:
    """Return whether user data is the network document's, which the network's plan checks."""
    return isinstance(value, Unknown) and value.template == _BASELINE


def _network_document_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield user data in the document for clusters that isn't a template's."""
    booted = [template.values.get("user_data") for template in document.of("aws_launch_template")]
    for item in document.of("aws_s3_object"):
        launch = written_document(item).get("launch")
        if isinstance(launch, Mapping) and launch.get("user_data_base64") not in booted:
            yield _finding(item, "passes clusters user data that no launch template here has")


@functools.lru_cache(maxsize=16)
def _as_rendered(text: str) -> bool:
    """Return whether a text is terradask's own template with the names in it."""
    from terradask_modules.user_data import render_user_data

    found = _HOST_JSON.search(text)
    try:
        host = json.loads(found[1]) if found else {}
        rendered = render_user_data(
            workspace=host["workspace"],
            region=host["region"],
            bucket=host["bucket"],
            log_group=host["log_group"],
            wheel_key=host["wheel"]["key"],
            wheel_sha256=host["wheel"]["sha256"],
            notify_topic_arn=host.get("notify_topic_arn"),
            scripts={name: host[name] for name in HOST_SCRIPTS if name in host},
            mounts=[Mount.of_document(mount) for mount in host.get("mounts", ())],
        )
    except (*UNREADABLE, TerradaskError):
        return False
    return rendered == text


def _is_of_workspace(text: str, document: PlanDocument, *, is_of_network: bool) -> bool:
    found = _HOST_JSON.search(text)
    host = json.loads(found[1]) if found else {}
    words, wheel = document.scope.patterns, host["wheel"]
    scripts = {host[name]["sha256"] for name in HOST_SCRIPTS if name in host}
    # The plan of a cluster has only what the network has put into user data.
    if not is_of_network and not scripts <= {name for _, name in _uploaded_scripts(document)}:
        return False
    # A cluster's hosts have the mounts of the applied network, maybe of earlier settings.
    wanted = None if is_of_network else document.rules.mounts
    if wanted is not None and host.get("mounts", []) != list(wanted):
        return False
    topic, given = host.get("notify_topic_arn"), document.rules.given
    if topic is not None and given is not None and topic not in given:
        return False
    return all(
        re.fullmatch(pattern.format(**words), str(value))
        for pattern, value in (
            ("{workspace}", host["workspace"]),
            ("{region}", host["region"]),
            ("{bucket}", host["bucket"]),
            ("/terradask/{workspace}", host["log_group"]),
            ("{sha256}", wheel["sha256"]),
            (r"host/{sha256}/[\w.-]+", wheel["key"]),
        )
    )


def _text_findings(
    resource: Resource, attribute: str, value: str, encoded: bool, document: PlanDocument
) -> Iterator[PolicyFinding]:
    raw = (from_base64(value) if encoded else None) or value.encode()
    text = raw.decode("utf-8", errors="replace")
    is_of_network = _is_of_network((resource.configured or {}).get(attribute))
    if _as_rendered(text) and _is_of_workspace(text, document, is_of_network=is_of_network):
        return
    if len(raw) > MAX_USER_DATA_BYTES:
        yield _finding(
            resource,
            f"{attribute} is {len(raw):,} bytes long; EC2 takes {MAX_USER_DATA_BYTES:,}",
            advice="fetch the rest from S3 at boot",
        )
    try:
        kinds = dict.fromkeys(kind for text in layers(raw) for kind in forbidden_in_user_data(text))
    except Undecodable:
        yield _finding(
            resource,
            f"{attribute} is compressed and can't be read",
            advice="compress it with gzip, or not at all",
        )
        return
    for kind in kinds:
        yield _finding(resource, f"{attribute} holds {kind}")
    if not kinds and not is_of_network:
        yield _finding(
            resource,
            f"{attribute} isn't terradask's for this workspace",
            advice="leave it to terradask; put other contents into the image",
        )


def _finding(resource: Resource, message: str, advice: str = _ADVICE) -> PolicyFinding:
    return error(resource.address, message, advice)
