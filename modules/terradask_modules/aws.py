"""The one door to cdktf and the AWS provider's bindings: nothing else imports them.

Moving to another framework or other bindings is a change of this file and of
:mod:`terradask_modules.bindings`.
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

#: Context under which every stack is synthesised, by whatever program: it decides how addresses
#: are spelled.
APP_CONTEXT = {"excludeStackIdFromLogicalIds": "true", "allowSepCharsInLogicalIds": "true"}

#: The provider's exact version: the bindings are made for it and the lock file holds its checksums.
PROVIDER_SOURCE = "hashicorp/aws"
PROVIDER_VERSION = "5.100.0"
REQUIRED_TERRAFORM = ">= 1.11.0"


def __getattr__(name: str) -> Any:
    """Return the provider's binding of a resource, by its class: ``IamRole`` of the module
    ``iam_role``. Its modules are 2,100; those that are asked for are loaded.
    """
    if not name[:1].isupper():
        raise AttributeError(name)
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    # A class whose name the module has for something else ends with an A.
    module = "provider" if name == "AwsProvider" else words.removesuffix("_a")
    return getattr(import_module(f"{terradask_modules.bindings.PROVIDER_PACKAGE}.{module}"), name)


def at(name: str, resource: TerraformElement) -> None:
    """Give a resource the address ``<type>.<name>``: readable in a plan, and the same whatever
    construct holds it.
    """
    resource.override_logical_id(name)


def literal(text: str) -> str:
    """Escape text so that Terraform takes ``${`` and ``%{`` in it as they stand."""
    return text.replace("${", "$${").replace("%{", "%%{")
