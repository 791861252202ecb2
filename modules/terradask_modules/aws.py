"""The only module that imports the framework and the AWS provider's bindings: those that
:mod:`terradask_modules.frameworks` finds.
"""

from __future__ import annotations

from terradask_modules.bindings import FRAMEWORK  # isort: split

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from constructs import Construct
from jsii.errors import JSIIError

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """Return a class of the framework, or the provider's binding of a resource by its class, such
    as ``IamRole``: only requested modules of its 2,100 are loaded.
    """
    if name in __all__:
        return getattr(import_module(FRAMEWORK.package), name)
    if not name[:1].isupper():
        raise AttributeError(name)
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    # A class ends with an A if its module uses the name for something else.
    module = "provider" if name == "AwsProvider" else words.removesuffix("_a")
    return getattr(import_module(f"{FRAMEWORK.bindings}.{module}"), name)


def at(name: str, resource: TerraformElement) -> None:
    """Give a resource the address ``<type>.<name>``, whatever construct contains it."""
    resource.override_logical_id(name)


def literal(text: str) -> str:
    """Escape text so that Terraform takes ``${`` and ``%{`` in it literally."""
    return text.replace("${", "$${").replace("%{", "%%{")
