"""Answer to calls about secrets in AWS's words, keep as many versions of a secret as AWS, and move
staging labels as AWS does.

AWS (recorded): Secrets Manager answers HTTP 400 for a secret, and for a version, that doesn't
exist. tests/records/data/secretsmanager.json

AWS (recorded): Secrets Manager refuses to create, tag and untag a secret that is scheduled for
deletion, with InvalidRequestException. tests/records/data/secretsmanager.json

AWS (recorded): Secrets Manager accepts letters, digits and ``-/_+=.@!`` in names.
tests/records/data/secretsmanager.json

AWS (documented): Secrets Manager returns the day of a secret's last access, without a time.
https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_DescribeSecret.html

moto answers HTTP 404, takes any name and tags what is scheduled for deletion, never shows when a
secret was read, and lists versions without a label as if they had one. It keeps all versions,
removes every label from a version that is no longer current, and returns an old version as the
current one after the label was moved.

AWS (documented): Outdated versions of a secret, which have no label, are removed beyond 100, but
none younger than 24 hours.
https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_PutSecretValue.html

AWS (documented): A secret has about 100 versions at most.
https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_limits.html
Here a new one is refused then.

AWS (reported): Secrets Manager refuses a deleted secret with these words.
https://github.com/external-secrets/external-secrets/issues/4560
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
_MOST_VERSIONS = 100
_DELETED = "You can't perform this operation on the secret because it was marked for deletion."

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
    """Replace moto's answers, and its functions that put and get a version and move labels."""
    _install_answers()
    _install_versions()


def _install_answers() -> None:
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
        versions = {}
        if secret_id in backend.secrets:
            versions = backend.secrets[secret_id].versions
            if backend.secrets[secret_id].is_deleted():
                raise exceptions.InvalidRequestException(_DELETED)
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


def _install_versions() -> None:
    from moto.secretsmanager.exceptions import SecretsManagerClientError
    from moto.secretsmanager.models import FakeSecret, SecretsManagerBackend

    @around(SecretsManagerBackend, "put_secret_value")
    def put_secret_value(put: Any, backend: Any, secret_id: str, *args: Any, **kwargs: Any) -> Any:
        token = kwargs.get("client_request_token")
        if backend._is_valid_identifier(secret_id):
            versions = backend.secrets[secret_id].versions
            if token not in versions and not _free_version(versions):
                raise SecretsManagerClientError(
                    "LimitExceededException",
                    "The request failed because it would exceed one of the Secrets Manager quotas.",
                )
        return put(backend, secret_id, *args, **kwargs)

    def reset_default_version(secret: Any, made: dict[str, Any], version_id: str) -> None:
        before = secret.default_version_id
        for old in secret.versions.values():
            _drop(old, "AWSPREVIOUS", *made["version_stages"])
        if before in secret.versions:
            # AWS (recorded): the label AWSPENDING doesn't stay with a version that was current.
            # tests/records/data/secretsmanager.json
            _drop(secret.versions[before], "AWSPENDING")
            secret.versions[before]["version_stages"].append("AWSPREVIOUS")
        secret.versions[version_id] = made
        secret.default_version_id = version_id

    @around(SecretsManagerBackend, "update_secret_version_stage")
    def move_label(move: Any, backend: Any, *args: Any, **kwargs: Any) -> tuple[str, str]:
        arn, name = move(backend, *args, **kwargs)
        secret = backend.secrets[arn]
        for version_id, version in secret.versions.items():
            if "AWSCURRENT" in version["version_stages"]:
                secret.default_version_id = version_id
        return arn, name

    FakeSecret.reset_default_version = reset_default_version
    FakeSecret._form_version_ids_to_stages = _shown_labels


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
        raise InvalidRequestException(_DELETED)
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


def _shown_labels(secret: Any) -> dict[str, list[str]]:
    return {
        version_id: version["version_stages"]
        for version_id, version in secret.versions.items()
        if version["version_stages"]
    }


def _drop(version: dict[str, Any], *labels: str) -> None:
    version["version_stages"] = [one for one in version["version_stages"] if one not in labels]


def _free_version(versions: dict[str, dict[str, Any]]) -> bool:
    """Remove outdated versions, the oldest first, until another fits; return whether it does."""
    outdated = sorted(
        (version["createdate"], version_id)
        for version_id, version in versions.items()
        if not version["version_stages"] and time.time() - version["createdate"] > _DAY_SECONDS
    )
    for _, version_id in outdated[: max(0, len(versions) - _MOST_VERSIONS + 1)]:
        del versions[version_id]
    return len(versions) < _MOST_VERSIONS
