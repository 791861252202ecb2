"""Answer to calls about secrets in AWS's words.

AWS (recorded): Secrets Manager answers HTTP 400 for a secret, and for a version, that doesn't
exist. tests/records/data/secretsmanager.json

AWS (recorded): Secrets Manager refuses to create, tag and untag a secret that is scheduled for
deletion, with InvalidRequestException. tests/records/data/secretsmanager.json

AWS (recorded): Secrets Manager accepts letters, digits and ``-/_+=.@!`` in names.
tests/records/data/secretsmanager.json

AWS (documented): Secrets Manager returns the day of a secret's last access, without a time.
https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_DescribeSecret.html

moto answers HTTP 404, takes any name and tags what is scheduled for deletion, never shows when a
secret was read, and lists versions without a label as if they had one.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

from terradask_simulator.aws.fidelity.patching import add, around

__all__ = ["install"]

_NAME = re.compile(r"[A-Za-z0-9/_+=.@!-]+")
_DAY_SECONDS = 24 * 3600
_KEY = "DefaultEncryptionKey"

#: Calls about one secret -> whether they need one that isn't scheduled for deletion.
_OF_ONE = {
    "delete_secret": False,
    "describe_secret": False,
    "get_resource_policy": False,
    "get_secret_value": True,
    "list_secret_version_ids": False,
    "put_resource_policy": True,
    "put_secret_value": True,
    "restore_secret": False,
    "tag_resource": True,
    "untag_resource": True,
    "update_secret": True,
    "update_secret_version_stage": True,
}


def install() -> None:
    """Replace moto's answers."""
    from moto.secretsmanager import exceptions
    from moto.secretsmanager.models import FakeSecret, SecretsManagerBackend
    from moto.secretsmanager.responses import SecretsManagerResponse

    for refusal in (
        exceptions.ResourceNotFoundException,
        exceptions.SecretNotFoundException,
        exceptions.SecretHasNoValueException,
        exceptions.SecretStageVersionMismatchException,
    ):
        around(refusal, "__init__")(_with_status_400)

    @around(SecretsManagerResponse, "create_secret")
    def create_secret(create: Any, response: Any) -> Any:
        name = response._get_param("Name")
        _check_name(name)
        secrets = response.backend.secrets
        if name in secrets and secrets[name].is_deleted():
            raise exceptions.InvalidRequestException(
                "You can't create this secret because a secret with this name is already scheduled "
                "for deletion."
            )
        return create(response)

    @around(SecretsManagerBackend, "get_secret_value")
    def get_secret_value(
        get: Any, backend: Any, secret_id: str, version_id: str, version_stage: str
    ) -> Any:
        versions = backend.secrets[secret_id].versions if secret_id in backend.secrets else {}
        if version_stage and not version_id and not _labelled(versions, version_stage):
            raise exceptions.SecretHasNoValueException(version_stage)
        value = get(
            backend, secret_id=secret_id, version_id=version_id, version_stage=version_stage
        )
        versions[value["VersionId"]]["accessed"] = time.time() // _DAY_SECONDS * _DAY_SECONDS
        return value

    @around(FakeSecret, "to_dict")
    def to_dict(described: Any, secret: Any) -> Any:
        accessed = [v["accessed"] for v in secret.versions.values() if "accessed" in v]
        return {**described(secret), "LastAccessedDate": max(accessed, default=None)}

    def list_secret_version_ids(response: Any) -> str:
        secret = response.backend.describe_secret(response._get_param("SecretId"))
        versions = [
            _listed(version_id, version)
            for version_id, version in secret.versions.items()
            if version["version_stages"] or response._get_param("IncludeDeprecated")
        ]
        return json.dumps({"ARN": secret.arn, "Name": secret.name, "Versions": versions})

    add(SecretsManagerResponse, list_secret_version_ids)
    for name, needs_it in _OF_ONE.items():
        around(SecretsManagerResponse, name)(_checked if needs_it else _named)


def _with_status_400(make: Any, refusal: Any, *args: Any, **kwargs: Any) -> None:
    make(refusal, *args, **kwargs)
    refusal.code = 400


def _named(answer: Any, response: Any) -> Any:
    _check_name(response._get_param("SecretId"))
    return answer(response)


def _checked(answer: Any, response: Any) -> Any:
    from moto.secretsmanager.exceptions import InvalidRequestException

    name, secrets = response._get_param("SecretId"), response.backend.secrets
    _check_name(name)
    if name in secrets and secrets[name].is_deleted():
        raise InvalidRequestException(
            "You can't perform this operation on the secret because it was marked for deletion."
        )
    return answer(response)


def _check_name(name: str) -> None:
    from moto.secretsmanager.exceptions import ValidationException

    if not name.startswith("arn:") and not _NAME.fullmatch(name):
        raise ValidationException(
            "Invalid name. Must be a valid name containing alphanumeric characters, or any of the "
            "following: -/_+=.@!"
        )


def _labelled(versions: dict[str, dict[str, Any]], label: str) -> bool:
    return any(label in version["version_stages"] for version in versions.values())


def _listed(version_id: str, version: dict[str, Any]) -> dict[str, Any]:
    listed = {
        "VersionId": version_id,
        "CreatedDate": version["createdate"],
        "KmsKeyIds": [_KEY],
        "VersionStages": version["version_stages"],
        "LastAccessedDate": version.get("accessed"),
    }
    return {name: value for name, value in listed.items() if value}
