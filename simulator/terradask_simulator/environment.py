"""The environment in which boto3, Terraform, hosts and terradask use the embedded AWS."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path

from terradask_simulator.aws.endpoint import OWN_ADDRESS_PATH
from terradask_simulator.aws.session_manager.plugin import plugin_folder

__all__ = ["complete", "credentials_path", "laid_over", "overlay", "without_aws"]

#: Variables that would direct an AWS client to another account or endpoint.
_REMOVED = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CA_BUNDLE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DEFAULT_PROFILE",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SECURITY_TOKEN",
    "AWS_SESSION_TOKEN",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)


def credentials_path(state_dir: Path) -> Path:
    """Return the shared credentials file with the key of an embedded AWS's owner, readable only by
    its user.
    """
    return state_dir / "credentials"


def without_aws(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without endpoints and credentials of AWS."""
    return {name: value for name, value in environ.items() if not name.startswith("AWS_")}


def overlay(
    *,
    endpoint_url: str,
    region: str,
    vpc_cidr: str,
    state_dir: Path,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str | None]:
    """Return the variables that the embedded AWS sets in `environ`, by default this process's, and
    with None those that it removes.
    """
    around = os.environ if environ is None else environ
    changes: dict[str, str | None] = dict.fromkeys(_REMOVED)
    # AWS_ENDPOINT_URL_S3 and the like take precedence over AWS_ENDPOINT_URL.
    changes.update(dict.fromkeys(name for name in around if name.startswith("AWS_ENDPOINT_URL_")))
    empty = state_dir / "empty-aws-config"
    ingress = [{"ports": ["8786-8788"], "cidr": "127.0.0.0/8", "description": "loopback"}]
    changes.update(
        AWS_ENDPOINT_URL=endpoint_url,
        AWS_REGION=region,
        AWS_DEFAULT_REGION=region,
        AWS_EC2_METADATA_DISABLED="true",
        AWS_CONFIG_FILE=str(empty),
        AWS_SHARED_CREDENTIALS_FILE=str(credentials_path(state_dir)),
        TERRADASK_STATE_DIR=str(state_dir),
        TERRADASK_WORKSPACE__REGION=region,
        TERRADASK_WORKSPACE__OWN_ADDRESS_URL=endpoint_url + OWN_ADDRESS_PATH,
        TERRADASK_NETWORK__CIDR=vpc_cidr,
        TERRADASK_NETWORK__INGRESS=json.dumps(ingress),
        PATH=os.pathsep.join(
            dict.fromkeys(
                [str(plugin_folder(state_dir)), *around.get("PATH", os.defpath).split(os.pathsep)]
            )
        ),
    )
    for name in ("NO_PROXY", "no_proxy"):
        others = [part for part in around.get(name, "").split(",") if part]
        changes[name] = ",".join(dict.fromkeys([*others, "127.0.0.1", "localhost", "127.0.0.0/8"]))
    return changes


def complete(
    changes: Mapping[str, str | None], environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return `environ`, by default this process's, with changes applied; None removes a
    variable.
    """
    whole = dict(os.environ if environ is None else environ)
    _apply(changes, whole)
    return whole


@contextmanager
def laid_over(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change this process's environment variables within a block; None removes one."""
    before = {name: os.environ.get(name) for name in changes}
    _apply(changes, os.environ)
    try:
        yield
    finally:
        _apply(before, os.environ)


def _apply(changes: Mapping[str, str | None], environ: MutableMapping[str, str]) -> None:
    for name, value in changes.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value
