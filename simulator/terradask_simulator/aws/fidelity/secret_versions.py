"""Keep as many versions of a secret as AWS, move staging labels as AWS does, and refuse deleted
secrets in AWS's words.

AWS (documented): Outdated versions of a secret, which have no label, are removed beyond 100, but
none younger than 24 hours.
https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_PutSecretValue.html

AWS (documented): A secret has about 100 versions at most.
https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_limits.html
Here a new one is refused then.

moto keeps all versions, removes every label from a version that is no longer current, and returns
an old version as the current one after the label was moved.

AWS (reported): Secrets Manager refuses a deleted secret with these words.
https://github.com/external-secrets/external-secrets/issues/4560
"""

from __future__ import annotations

import time
from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install"]

_MOST = 100
_KEPT_SECONDS = 24 * 3600


def install() -> None:
    """Replace moto's functions that put and get a version, label the current one and move
    labels.
    """
    from moto.secretsmanager.exceptions import InvalidRequestException, SecretsManagerClientError
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

    @around(SecretsManagerBackend, "get_secret_value")
    def get_secret_value(get: Any, backend: Any, secret_id: str, *args: Any, **kwargs: Any) -> Any:
        if backend._is_valid_identifier(secret_id) and backend.secrets[secret_id].is_deleted():
            raise InvalidRequestException(
                "You can't perform this operation on the secret because it was marked for deletion."
            )
        return get(backend, secret_id, *args, **kwargs)

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
    FakeSecret._form_version_ids_to_stages = _labelled


def _labelled(secret: Any) -> dict[str, list[str]]:
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
        if not version["version_stages"] and time.time() - version["createdate"] > _KEPT_SECONDS
    )
    for _, version_id in outdated[: max(0, len(versions) - _MOST + 1)]:
        del versions[version_id]
    return len(versions) < _MOST
