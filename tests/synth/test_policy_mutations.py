"""The mutation score of the checks: every part of our stacks, removed, widened, pointed elsewhere,
or made foreign, is found; and what the rules find that know nothing of the settings.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from terradask._plans.policy import expected
from terradask._plans.policy.checks import findings_in
from terradask._plans.policy.complete_plan import UNREADABLE
from terradask._plans.policy.document import read
from terradask.errors import InvalidInput

from ..golden import check_golden
from .conftest import Synth
from .golden_settings import CLUSTERS, NETWORKS
from .golden_stacks import golden_stack
from .mutations import mutations
from .policy_forms import FORMS, Document, rules_of

#: Golden stacks that together have every resource and every attribute.
STACKS = (
    *(f"network-{name}" for name in ("default", "nat-none", "given-hosts", "company-rules")),
    *(f"network-{name}" for name in ("dual-stack", "ingress", "own-state-bucket", "isolation")),
    *(f"cluster-{name}" for name in ("default", "spot", "worker-groups", "private", "zones")),
    *(f"cluster-{name}" for name in ("disks-of-groups", "dask-options", "isolation-everything")),
)
#: Of each stack the mutations that P1 to P7 find by themselves: what is changed, which part, how.
BY_RULES = Path(__file__).with_name("found_by_rules")
#: What a plan of a stack doesn't show.
ONLY_IN_STACKS = re.compile(r"terraform\.|.*\.(depends_on|lifecycle)")


def _given(name: str) -> dict[str, Any]:
    kind, _, of = name.partition("-")
    return (NETWORKS if kind == "network" else CLUSTERS)[of]


@functools.cache
def _names_in(name: str) -> dict[tuple[str, str, str], None]:
    return dict.fromkeys(each.name for each in mutations(golden_stack(name)))


@functools.cache
def own_mutations(name: str) -> tuple[tuple[str, str, str], ...]:
    """Return the mutations of a stack that none before it has, by their names."""
    earlier = {each for other in STACKS[: STACKS.index(name)] for each in _names_in(other)}
    return tuple(each for each in _names_in(name) if each not in earlier)


@pytest.mark.parametrize("name", STACKS)
def test_every_mutation_is_found(synth: Synth, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = _given(name)
    stack = synth("network" if name.startswith("network") else "etl", **given)
    ours = read(stack)
    monkeypatch.setattr(expected, "read", lambda given: ours if given is stack else read(given))
    more = {
        "rules": rules_of(**given),
        "open_to_anywhere": given.get("network", {}).get("allow_ingress_from_anywhere", False),
        "expected": stack,
    }
    before = {form: _told(written(stack), more) for form, written in FORMS.items()}
    wanted, by_rules = set(own_mutations(name)), []
    for number, mutation in enumerate(mutations(stack)):
        if mutation.name not in wanted:
            continue
        wanted.remove(mutation.name)
        changed = mutation.applied(stack)
        told = _told(changed, more) - before["synthesised"]
        assert told, mutation.name
        if any(check != "P8" for check, *_ in told):
            by_rules.append(" | ".join(mutation.name))
        # Of the plans of them, one of five: the same functions read both.
        in_plans = not ONLY_IN_STACKS.match(f"{mutation.of}.{mutation.part}")
        if number % 5 == 0 and in_plans:
            assert _told(FORMS["planned"](changed), more) - before["planned"], mutation.name
    assert wanted == set()
    kept = BY_RULES / f"{name}.txt"
    if by_rules or kept.exists():
        check_golden(kept, "".join(f"{each}\n" for each in by_rules))


def _told(stack: Document, more: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Return what the checks say, without the masking of secrets, which takes longer than they."""
    try:
        told = findings_in(replace(read(stack), **more))
    except (InvalidInput, *UNREADABLE):
        return {("refused", "", "")}
    return {(finding.check, finding.address, finding.message) for finding in told}


def test_the_page_gives_the_score() -> None:
    made = sum(len(own_mutations(name)) for name in STACKS)
    by_rules = sum(len(path.read_text().splitlines()) for path in BY_RULES.iterdir())
    assert made >= 1300
    page = (Path(__file__).parents[2] / "docs/policy.md").read_text()
    # Rounded: each new attribute of a stack makes more of them.
    said = (
        f"All of more than {made // 100 * 100:,} mutations are found. P1 to P7 alone find more "
        f"than {by_rules // 50 * 50} of them"
    )
    assert said in " ".join(page.split())
