"""Describe and list log groups as CloudWatch Logs does, and refuse names in its words.

AWS (recorded): CloudWatch Logs shows each group's class, and whether it is protected from deletion;
a search by a part of the name returns less of each group. tests/records/data/logs.json

AWS (recorded): CloudWatch Logs speaks of a stream where a stream exists, or doesn't.
tests/records/data/logs.json

moto speaks of groups, ignores a pattern and lists no groups.
"""

from __future__ import annotations

import json
import re
from typing import Any

from terradask_simulator.aws.fidelity.patching import add, around

__all__ = ["install"]

_CLASS = "STANDARD"
#: Left out by a search by a part of the name.
_LEFT_OUT = ("storedBytes", "deletionProtectionEnabled")


def install() -> None:
    """Replace moto's answers."""
    from moto.logs.exceptions import (
        InvalidParameterException,
        LogsClientError,
        ResourceNotFoundException,
        ValidationException,
    )
    from moto.logs.models import LogGroup
    from moto.logs.responses import LogsResponse

    @around(LogsResponse, "create_log_group")
    def create_log_group(create: Any, response: Any) -> Any:
        name = response._get_param("logGroupName")
        if len(name) > 512:
            raise InvalidParameterException(
                "Invalid LogGroup or LogStream, both must have length less than or equal to 512."
            )
        answer = create(response)
        group = response.logs_backend.groups[name]
        group.given_class = response._get_param("logGroupClass") or _CLASS
        group.protected = bool(response._get_param("deletionProtectionEnabled"))
        return answer

    @around(LogGroup, "to_describe_dict")
    def to_describe_dict(described: Any, group: Any) -> dict[str, Any]:
        return {
            **described(group),
            "logGroupClass": getattr(group, "given_class", _CLASS),
            "deletionProtectionEnabled": getattr(group, "protected", False),
        }

    # As a patch: simulator/upstream/release/logs-group-name-pattern.patch
    @around(LogsResponse, "describe_log_groups")
    def describe_log_groups(describe: Any, response: Any) -> Any:
        pattern = response._get_param("logGroupNamePattern")
        if pattern is None:
            return describe(response)
        if response._get_param("logGroupNamePrefix") is not None:
            raise InvalidParameterException(
                "LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters."
            )
        found = [
            {key: value for key, value in group.to_describe_dict().items() if key not in _LEFT_OUT}
            for name, group in sorted(response.logs_backend.groups.items())
            if pattern.lower() in name.lower()
        ]
        return json.dumps({"logGroups": found})

    def list_log_groups(response: Any) -> str:
        pattern = re.compile(response._get_param("logGroupNamePattern") or "")
        found = [
            group.to_describe_dict()
            for name, group in sorted(response.logs_backend.groups.items())
            if pattern.search(name)
        ]
        names = ("logGroupName", "logGroupArn", "logGroupClass")
        return json.dumps({"logGroups": [{name: one[name] for name in names} for one in found]})

    @around(LogGroup, "create_log_stream")
    def create_log_stream(create: Any, group: Any, log_stream_name: str) -> None:
        if log_stream_name in group.streams:
            raise LogsClientError(
                "ResourceAlreadyExistsException", "The specified log stream already exists"
            )
        create(group, log_stream_name)

    def check_stream(answer: Any, group: Any, log_stream_name: str, *args: Any) -> Any:
        if log_stream_name not in group.streams:
            raise ResourceNotFoundException("The specified log stream does not exist.")
        return answer(group, log_stream_name, *args)

    around(LogGroup, "get_log_events")(check_stream)
    around(LogGroup, "delete_log_stream")(check_stream)

    @around(LogsResponse, "describe_log_streams")
    def describe_log_streams(describe: Any, response: Any) -> Any:
        asked = (response._get_param("logGroupName"), response._get_param("logGroupIdentifier"))
        if all(asked):
            raise ValidationException(
                "LogGroup name and LogGroup ARN are mutually exclusive parameters."
            )
        return describe(response)

    add(LogsResponse, list_log_groups)
