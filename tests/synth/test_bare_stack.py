"""A stack without its resources: as its synthesis is, in all that Terraform needs for its end."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import Named
from terradask_stacks.bare_stack import bare_stack, resources_to_find

from .conftest import Synth, settings_of
from .golden_settings import CLUSTERS, NETWORKS

GOLDEN = [("network", name) for name in NETWORKS] + [("etl", name) for name in CLUSTERS]


def _settings(stack: str, given: dict[str, Any]) -> tuple[Any, Any]:
    settings, answers = settings_of(
        stack, **{name: value for name, value in given.items() if name != "scripts"}
    )
    lock = answers.network if stack == "network" else answers.clusters[stack]
    assert lock is not None
    return settings, settings.workspace.where(lock.account, lock.partition)


@pytest.mark.parametrize(("stack", "name"), GOLDEN)
def test_backend_provider_and_versions_are_the_whole_stacks(
    stack: str, name: str, synth: Synth
) -> None:
    given = (NETWORKS if stack == "network" else CLUSTERS)[name]
    whole, bare = synth(stack, **given), bare_stack(stack, *_settings(stack, given))

    assert bare == {key: whole[key] for key in ("provider", "terraform")}
    assert not {"moved", "removed", "output", "module"} & whole.keys()


@pytest.mark.parametrize("name", NETWORKS)
def test_what_no_list_of_awss_has_is_found_by_the_names_that_the_stack_gives(
    name: str, synth: Synth
) -> None:
    given = NETWORKS[name]
    by_name = {kind.terraform for kind in KINDS.values() if isinstance(kind.find, Named)}
    wanted = by_name | {kind.terraform for kind in KINDS.values() if kind.is_optional}
    made = {
        kind: {
            key: _named(block, kind in by_name, KINDS[kind].name_attribute)
            for key, block in blocks.items()
        }
        for kind, blocks in synth("network", **given)["resource"].items()
        if kind in wanted
    }
    found = {
        kind: {key: _named(block, kind in by_name) for key, block in blocks.items()}
        for kind, blocks in resources_to_find(*_settings("network", given)).items()
        if blocks
    }
    assert found == made


def _named(block: dict[str, Any], by_name: bool, attribute: str = "name") -> tuple[str, str] | None:
    return (block[attribute], block.get("path") or "/") if by_name else None


def test_no_resource_is_kept_from_its_end_by_its_configuration_alone(synth: Synth) -> None:
    """Terraform's `prevent_destroy` is in the configuration only, and wouldn't hold."""
    for stack in ("network", "etl"):
        for blocks in synth(stack)["resource"].values():
            for block in blocks.values():
                assert "prevent_destroy" not in block.get("lifecycle", {})
                assert "provisioner" not in block


def test_it_needs_no_framework() -> None:
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('cdktf', 'jsii', 'constructs')));"
        "import terradask_stacks.bare_stack, terradask._synthesis.configuration"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
