"""Plans of whole stacks as Terraform writes them, made from the golden stacks, and reports on them:
six changes that reviewers meet, from one line to fifty stacks.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from terradask._catalog.prices.calculation import as_it_is, estimate
from terradask._catalog.prices.groups import HostLaunch, PlannedStack, template_of
from terradask._catalog.prices.prices import Price, PriceKey, Quotes, Volumes
from terradask._catalog.prices.products import unit_of
from terradask._plans.impact import RunningCluster
from terradask._plans.report import PlanReport, WorkspaceReport
from terradask._plans.summary import summarise

from ..synth.golden_stacks import golden_stack
from .report_data import CONTEXT

Stack = dict[str, dict[str, Any]]

NETWORK, CLUSTER = "network-default", "cluster-default"
OFFICE = "203.0.113.7/32"
_RULE, _OFFICE_RULE = "aws_vpc_security_group_ingress_rule", "203_0_113_7_32-8786-8786"
#: What golden stacks have elsewhere.
_KEPT_APART = {'"<the cluster\'s settings>"': "{}"}
_USER_DATA = Path(__file__).parents[1] / "synth" / "golden" / "user_data.txt"

_REFERENCE = re.compile(r"\b(?:data\.)?aws_[a-z0-9_]+\.[A-Za-z0-9_-]+")
#: Attributes that the provider can't change in place.
_FORCING = ("vpc_id", "subnet_id", "route_table_id", "security_group_id", "cidr_block")
#: Not values of the resource.
_META = ("//", "lifecycle", "timeouts", "depends_on", "provider")
_USD = {
    "instance": Decimal("0.192"),
    "nat-gateway": Decimal("0.045"),
    "public-ipv4": Decimal("0.005"),
    "secret": Decimal("0.4"),
    "gp3-storage": Decimal("0.08"),
}


class _Prices:
    """A price list that has everything."""

    def look_up(self, keys: Iterable[PriceKey]) -> Quotes:
        prices = {
            key: Price(_USD.get(key.product, Decimal("0.01")), unit_of(key), "2026-11-01")
            for key in keys
        }
        return Quotes("AWS Price List API", prices, {}, ())


def stack_of(name: str, *, text: Mapping[str, str] | None = None, tag: str = "4711") -> Stack:
    """Return a golden stack's resources by address, with texts replaced, and a tag on each."""
    whole = {kind: dict(resources) for kind, resources in golden_stack(name)["resource"].items()}
    if name == NETWORK:
        rules = golden_stack("network-ingress")["resource"][_RULE]
        whole[_RULE] |= {label: rule for label, rule in rules.items() if _OFFICE_RULE in label}
    found: Stack = {}
    for kind, resources in _replaced(whole, _KEPT_APART | dict(text or {})).items():
        for label, values in resources.items():
            kept = {key: value for key, value in values.items() if key not in _META}
            if "tags" in kept:
                kept["tags"] = {**kept["tags"], "cost-centre": tag}
            for made in kept.get("tag_specifications") or []:
                made["tags"] = {**(made.get("tags") or {}), "cost-centre": tag}
            if kind == "aws_autoscaling_group":
                kept = {key: _blocks(value) for key, value in kept.items()}
                kept["tag"] = [
                    *kept["tag"],
                    {"key": "cost-centre", "propagate_at_launch": True, "value": tag},
                ]
            found[f"{kind}.{label}"] = kept
    return found


def _replaced(value: Any, texts: Mapping[str, str]) -> Any:
    """Return a value with texts replaced in it, also in names, and in numbers."""
    if isinstance(value, dict):
        return {_replaced(key, texts): _replaced(inner, texts) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, texts) for inner in value]
    if isinstance(value, str):
        for old, new in texts.items():
            value = value.replace(old, new)
        return _USER_DATA.read_text() if value.startswith("<user data") else value
    return int(texts.get(str(value), value)) if type(value) is int else value


def _blocks(value: Any) -> Any:
    """Return blocks as lists, as plans have them."""
    if isinstance(value, dict):
        return [{key: _blocks(inner) for key, inner in value.items()}]
    return value


def plan_between(before: Stack, after: Stack) -> dict[str, Any]:
    """Return the plan that makes one stack of another one, as ``terraform show -json`` does."""
    replaced: set[str] = set()
    # Until nothing more follows.
    while True:
        new = (after.keys() - before.keys()) | replaced
        values = {address: _known(each, new) for address, each in after.items()}
        forced = {
            address: [
                name
                for name in _FORCING
                if name in before[address]
                and _resolved(before[address]).get(name) != values[address].get(name)
            ]
            for address in after.keys() & before.keys()
        }
        found = {address for address, names in forced.items() if names}
        if found == replaced:
            break
        replaced = found
    entries = [
        _entry(address, before.get(address), after.get(address), new, forced.get(address, []))
        for address in sorted({*before, *after})
    ]
    return {
        "format_version": "1.2",
        "terraform_version": "1.11.4",
        "timestamp": "2026-11-20T05:30:19Z",
        "resource_changes": entries,
        "configuration": _configuration(after),
        "planned_values": {"root_module": {"resources": _resources(values)}},
        "prior_state": {
            "values": {
                "root_module": {
                    "resources": _resources({a: _resolved(each) for a, each in before.items()})
                }
            }
        },
    }


def _entry(
    address: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    new: set[str],
    forced: list[str],
) -> dict[str, Any]:
    sides = (
        None if before is None else _resolved(before),
        None if after is None else _known(after, new),
    )
    if before is None or after is None:
        actions = ["create"] if before is None else ["delete"]
    else:
        same = sides[0] == sides[1]
        actions = ["delete", "create"] if forced else ["no-op"] if same else ["update"]
    change = {
        "actions": actions,
        "before": sides[0],
        "after": sides[1],
        "after_unknown": {
            name: True for name, value in (after or {}).items() if _names_new(value, new)
        },
        "replace_paths": [[name] for name in forced],
    }
    kind, _, label = address.partition(".")
    reason = "replace_because_cannot_update" if forced else None
    if actions == ["delete"]:
        reason = "delete_because_no_resource_config"
    return {
        "address": address,
        "type": kind,
        "name": label,
        "mode": "managed",
        "change": change,
        **({"action_reason": reason} if reason else {}),
    }


def _references(value: Any) -> list[str]:
    written = json.dumps(value)
    return _REFERENCE.findall(written) if "${" in written else []


def _names_new(value: Any, new: set[str]) -> bool:
    return any(reference in new for reference in _references(value))


def _known(values: dict[str, Any], new: set[str]) -> dict[str, Any]:
    return _resolved({n: value for n, value in values.items() if not _names_new(value, new)})


def _resolved(value: Any) -> Any:
    """Return a value with ids in place of references."""
    if isinstance(value, dict):
        return {key: _resolved(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_resolved(inner) for inner in value]
    if isinstance(value, str) and _references(value):
        return f"id-{hashlib.sha256(value.encode()).hexdigest()[:8]}"
    return value


def _configuration(stack: Stack) -> dict[str, Any]:
    resources = [
        {
            "address": address,
            "expressions": {
                name: {"references": _references(value)} for name, value in values.items()
            },
        }
        for address, values in stack.items()
    ]
    provider = {
        "full_name": "registry.terraform.io/hashicorp/aws",
        "version_constraint": "5.100.0",
        "expressions": {"region": {"constant_value": "us-east-1"}},
    }
    return {"provider_config": {"aws": provider}, "root_module": {"resources": resources}}


def _resources(stack: Stack) -> list[dict[str, Any]]:
    return [
        {"address": a, "type": a.partition(".")[0], "mode": "managed", "values": values}
        for a, values in stack.items()
    ]


# ---- reports -------------------------------------------------------------------------------------


def reviewed(
    stack: str, before: Stack, after: Stack, *, running: tuple[RunningCluster, ...] = ()
) -> PlanReport:
    """Return the report on a plan, with its cost before and after."""
    document = plan_between(before, after)
    hosts = {
        template: HostLaunch(volumes=Volumes(gib=Decimal(50)), public_address=False)
        for resource in PlannedStack.of(document).resources
        if resource.type == "aws_autoscaling_group"
        for template in [template_of(resource)]
        if template is not None
    }
    present = as_it_is(document)
    assert present is not None
    return PlanReport(
        summarise(document, stack=stack, plan_hash="ab" * 32),
        findings=(),
        cost=estimate(document, _Prices(), hosts=hosts),
        cost_before=estimate(present, _Prices(), hosts=hosts),
        context=CONTEXT,
        expires_at="2026-11-21T05:30:19Z",
        running=running,
        hardware=PlannedStack.of(document).reasons,
    )


_WIDER = {"200": "240"}
CLUSTERS = ("etl", "ml", "bi")


def _together(*plans: PlanReport, **parts: Any) -> WorkspaceReport:
    return WorkspaceReport(CONTEXT, plans, **parts)


def one_value() -> WorkspaceReport:
    """One cluster may grow."""
    plan = reviewed("etl", stack_of(CLUSTER), stack_of(CLUSTER, text=_WIDER))
    return _together(plan, stack="etl")


def changed_tag() -> WorkspaceReport:
    """The network and three clusters get another value of one tag."""
    return _together(
        reviewed("network", stack_of(NETWORK), stack_of(NETWORK, tag="4712")),
        *(reviewed(name, stack_of(CLUSTER), stack_of(CLUSTER, tag="4712")) for name in CLUSTERS),
    )


def widened_rule() -> WorkspaceReport:
    """Schedulers admit a whole range instead of one address."""
    wide = {OFFICE: "203.0.113.0/24", "203_0_113_7_32": "203_0_113_0_24"}
    return _together(
        reviewed("network", stack_of(NETWORK), stack_of(NETWORK, text=wide)),
        *(reviewed(name, stack_of(CLUSTER), stack_of(CLUSTER)) for name in CLUSTERS),
    )


def new_network() -> WorkspaceReport:
    """The first plan of a workspace."""
    return _together(reviewed("network", {}, stack_of(NETWORK)), waiting=CLUSTERS)


def replaced_vpc() -> WorkspaceReport:
    """The VPC gets other addresses while clusters run."""
    running = (
        RunningCluster("etl", "running", {"scheduler": 1, "workers": 12}),
        RunningCluster("ml", "running", {"scheduler": 1, "workers": 3}),
    )
    moved = stack_of(NETWORK, text={"10.64.": "10.9."})
    return _together(reviewed("network", stack_of(NETWORK), moved, running=running))


def fifty_stacks() -> WorkspaceReport:
    """A tag changes everywhere, some clusters grow, some are new, and one loses its workers."""
    tag, grown = stack_of(CLUSTER, tag="4712"), stack_of(CLUSTER, text=_WIDER, tag="4712")
    plans = [reviewed("network", stack_of(NETWORK), stack_of(NETWORK, tag="4712"))]
    kinds = [
        reviewed("c", stack_of(CLUSTER), tag),
        reviewed("c", stack_of(CLUSTER), grown),
        reviewed("c", {}, tag),
    ]
    for number in range(48):
        made = kinds[2 if number % 12 == 5 else number % 6 == 1]
        name = f"team-{number:02}-nightly"
        plans.append(replace(made, summary=replace(made.summary, stack=name)))
    left = {a: each for a, each in stack_of(CLUSTER).items() if "workers" not in a}
    running = (RunningCluster("legacy", "running", {"scheduler": 1, "workers": 4}),)
    plans.append(reviewed("legacy", stack_of(CLUSTER), left, running=running))
    return _together(*plans)


#: The changes by name, in the order of their size.
CHANGES: dict[str, Callable[[], WorkspaceReport]] = {
    "one-value": one_value,
    "changed-tag": changed_tag,
    "widened-rule": widened_rule,
    "replaced-vpc": replaced_vpc,
    "new-network": new_network,
    "fifty-stacks": fifty_stacks,
}


@functools.cache
def change(name: str) -> WorkspaceReport:
    """Return the report on one of the changes."""
    return CHANGES[name]()
