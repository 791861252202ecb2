"""The only module that imports cdktf and the AWS provider's bindings.

Another framework or other bindings change only this file and :mod:`terradask_modules.bindings`.
"""

from __future__ import annotations

import terradask_modules.bindings  # isort: split

import re
from importlib import import_module
from typing import Any

from constructs import Construct
from jsii.errors import JSIIError

from cdktf import (
    App,
    Fn,
    Postcondition,
    S3Backend,
    TerraformElement,
    TerraformOutput,
    TerraformResourceLifecycle,
    TerraformStack,
    Token,
)

__all__ = [
    "App",
    "Construct",
    "Fn",
    "JSIIError",
    "Postcondition",
    "S3Backend",
    "TerraformElement",
    "TerraformOutput",
    "TerraformResourceLifecycle",
    "TerraformStack",
    "Token",
    "at",
    "literal",
]

#: Context of every stack's synthesis, in any program: it decides how addresses are spelled.
APP_CONTEXT = {"excludeStackIdFromLogicalIds": "true", "allowSepCharsInLogicalIds": "true"}

#: The provider's exact version: the bindings are made for it and the lock file has its checksums.
PROVIDER_SOURCE = "hashicorp/aws"
PROVIDER_VERSION = "5.100.0"
REQUIRED_TERRAFORM = ">= 1.11.0"


def __getattr__(name: str) -> Any:
    """Return the provider's binding of a resource by its class, such as ``IamRole``.

    Only requested modules of its 2,100 are loaded.
    """
    if not name[:1].isupper():
        raise AttributeError(name)
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    # A class ends with an A if its module uses the name for something else.
    module = "provider" if name == "AwsProvider" else words.removesuffix("_a")
    return getattr(import_module(f"{terradask_modules.bindings.PROVIDER_PACKAGE}.{module}"), name)


def at(name: str, resource: TerraformElement) -> None:
    """Give a resource the address ``<type>.<name>``, whatever construct contains it."""
    resource.override_logical_id(name)


def literal(text: str) -> str:
    """Escape text so that Terraform takes ``${`` and ``%{`` in it literally."""
    return text.replace("${", "$${").replace("%{", "%%{")
