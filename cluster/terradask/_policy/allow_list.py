"""P8: a plan has what terradask's stacks make, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from terradask._policy.agreement import disagreements
from terradask._policy.document import PlanDocument, Resource, is_plan, written_document
from terradask._policy.document_shapes import ANY, may
from terradask._policy.findings import PolicyFinding
from terradask._policy.shapes import Place, of_shape
from terradask._policy.stack_shapes import (
    BACKENDS,
    COMPANIONS,
    DATA,
    NAMES,
    PROVIDER,
    REQUIRED_PROVIDERS,
    RESOURCES,
)
from terradask_modules.iam import listed

_SECTIONS = frozenset({"//", "terraform", "provider", "resource", "data"})
_PLAN_SECTIONS = frozenset({"resources"})
_SETTINGS = frozenset({"backend", "required_providers", "required_version"})
_SOURCE = "hashicorp/aws"
_PREFIX = "registry.terraform.io/"
_WAIVE = "remove it; for a resource of your own, waive P8 for its address"
_AS_MADE = "write it as terradask synthesises it, or waive P8 for this address"


def beyond_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield what a plan has that no stack of terradask's has, and what it lacks of theirs."""
    keyed = _has_key(document)
    for resource in document.resources:
        yield from _resource(document, resource, RESOURCES, keyed=keyed)
    for source in document.data:
        yield from _resource(document, source, DATA, keyed=keyed)
    yield from _companions(document)
    for address, what in disagreements(document):
        yield _finding(address, what, _AS_MADE)
    if is_plan(document.source):
        yield from _of_plan(document)
    else:
        yield from _of_stack(document)


def _resource(
    document: PlanDocument, resource: Resource, known: Mapping[str, Any], *, keyed: bool
) -> Iterator[PolicyFinding]:
    what = "data source" if known is DATA else "resource"
    if resource.address.startswith("module."):
        yield _finding(resource.address, "is in a module, which terradask's stacks don't use")
    shape = known.get(resource.type)
    if shape is None:
        yield _finding(
            resource.address, f"is a {what} of type {resource.type}, which terradask never makes"
        )
    elif resource.configured is not None:
        place = Place.of(resource.name, document.scope, document.rules, keyed=keyed)
        names = NAMES[resource.type] if known is RESOURCES else ("*",)
        if not any(place.matches(pattern, resource.name) for pattern in names):
            yield _finding(resource.address, "is one more than terradask makes of its type")
        values = {name: value for name, value in resource.configured.items() if name != "//"}
        if is_plan(document.source):
            # Plans don't show it.
            shape = {**shape, "lifecycle": may(ANY)} if "lifecycle" in shape else shape
        yield from _complaints(resource.address, shape, values, place)


def _complaints(
    address: str, shape: Mapping[str, Any], values: Mapping[str, Any], place: Place
) -> Iterator[PolicyFinding]:
    for path, what in dict(of_shape(shape, values, "", place)).items():
        if what == "leaves out":
            yield _finding(address, f"leaves out {path}, which terradask sets", _AS_MADE)
        elif what == "sets":
            yield _finding(address, f"sets {path}, which terradask never does", _AS_MADE)
        else:
            yield _finding(address, f"sets {path} to what terradask never does", _AS_MADE)


def _has_key(document: PlanDocument) -> bool:
    return any(written_document(item).get("kms_key_arn") for item in document.of("aws_s3_object"))


def _companions(document: PlanDocument) -> Iterator[PolicyFinding]:
    for kind, companions in COMPANIONS.items():
        for resource in document.of(kind):
            for companion in companions:
                if not any(document.of(companion)) and resource.configured is not None:
                    yield _finding(
                        resource.address, f"stands without its {companion}", "add it again"
                    )


def _of_plan(document: PlanDocument) -> Iterator[PolicyFinding]:
    configuration = document.source.get("configuration") or {}
    for name in sorted(set(configuration.get("root_module") or {}) - _PLAN_SECTIONS):
        yield _finding("", f"the configuration has {name}, which terradask's stacks have not")
    for name, entry in (configuration.get("provider_config") or {}).items():
        source = str(entry.get("full_name", _PREFIX + _SOURCE)).removeprefix(_PREFIX)
        yield from _provider(document, name, source)
    if (configuration.get("root_module") or {}).get("resources"):
        yield from _without_provider(document)


def _of_stack(document: PlanDocument) -> Iterator[PolicyFinding]:
    for name in sorted(set(document.source) - _SECTIONS):
        yield _finding("", f"the stack has {name}, which terradask's stacks have not")
    terraform = document.source.get("terraform") or {}
    required = terraform.get("required_providers") or {}
    for name in sorted(set(terraform) - _SETTINGS):
        yield _finding("terraform", f"sets {name}, which terradask never does")
    yield from _complaints("terraform", REQUIRED_PROVIDERS, required, _nowhere(document))
    for name in document.providers:
        yield from _provider(document, name, _SOURCE)
    yield from _without_provider(document)
    backends = terraform.get("backend") or {}
    if not backends:
        yield _finding("terraform.backend", "is missing: nothing says where the state is")
    for name, values in backends.items():
        shape = BACKENDS.get(name)
        if shape is None:
            yield _finding("terraform.backend", f"is {name}, which terradask doesn't use")
        else:
            yield from _complaints("terraform.backend", shape, values, _nowhere(document))


def _without_provider(document: PlanDocument) -> Iterator[PolicyFinding]:
    if "aws" not in document.providers:
        yield _finding("provider.aws", "is missing: the environment would choose the region")


def _provider(document: PlanDocument, name: str, source: str) -> Iterator[PolicyFinding]:
    address = f"provider.{name}"
    if name != "aws" or source != _SOURCE:
        yield _finding(address, f"is a provider that terradask doesn't use: {source}")
        return
    for values in listed(document.providers.get(name)):
        yield from _complaints(address, PROVIDER, values, _nowhere(document))


def _nowhere(document: PlanDocument) -> Place:
    return Place.of("", document.scope, document.rules)


def _finding(address: str, message: str, advice: str = _WAIVE) -> PolicyFinding:
    return PolicyFinding("P8", "error", address, message, advice)
