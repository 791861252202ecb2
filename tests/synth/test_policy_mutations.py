"""The mutation score of the checks: every part of our stacks, removed, widened, pointed elsewhere,
or made foreign, is found, or does no harm for a reason that the page gives.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from terradask._policy.checks import CHECKS
from terradask._policy.document import read
from terradask._policy.malformed import UNREADABLE
from terradask.errors import InvalidInput

from ..golden import check_golden
from .conftest import Synth
from .golden_settings import CLUSTERS, NETWORKS
from .harmless_mutations import HARMLESS, harmless_because
from .mutations import mutations
from .policy_forms import FORMS, Document, rules_of

#: Golden stacks that together have every resource and every attribute.
STACKS = (
    *(f"network-{name}" for name in ("default", "nat-none", "given-hosts", "company-rules")),
    *(f"network-{name}" for name in ("dual-stack", "ingress", "state-in-s3", "isolation")),
    *(f"cluster-{name}" for name in ("default", "spot", "worker-groups", "private", "zones")),
    *(f"cluster-{name}" for name in ("disks-of-groups", "dask-options", "isolation-everything")),
)
GOLDEN = Path(__file__).with_name("golden")
#: Of each stack the mutations that no check finds: what is changed, which part, how.
SURVIVORS = Path(__file__).with_name("survivors")
#: What a plan of a stack doesn't show.
ONLY_IN_STACKS = re.compile(r"terraform\.|.*\.(depends_on|lifecycle)")


def _given(name: str) -> dict[str, Any]:
    kind, _, of = name.partition("-")
    return (NETWORKS if kind == "network" else CLUSTERS)[of]


@functools.cache
def _names_in(name: str) -> dict[tuple[str, str, str], None]:
    stack = json.loads((GOLDEN / f"{name}.tf.json").read_text())
    return dict.fromkeys(each.name for each in mutations(stack))


@functools.cache
def own_mutations(name: str) -> tuple[tuple[str, str, str], ...]:
    """Return the mutations of a stack that none before it has, by their names."""
    earlier = {each for other in STACKS[: STACKS.index(name)] for each in _names_in(other)}
    return tuple(each for each in _names_in(name) if each not in earlier)


@pytest.mark.parametrize("name", STACKS)
def test_a_mutation_is_found_or_listed_as_a_survivor(synth: Synth, name: str) -> None:
    given = _given(name)
    stack = synth("network" if name.startswith("network") else "etl", **given)
    more = {
        "rules": rules_of(**given),
        "open_to_anywhere": given.get("network", {}).get("allow_ingress_from_anywhere", False),
    }
    before = {form: _told(written(stack), more) for form, written in FORMS.items()}
    wanted, survivors = set(own_mutations(name)), []
    for number, mutation in enumerate(mutations(stack)):
        if mutation.name not in wanted:
            continue
        wanted.remove(mutation.name)
        changed = mutation.applied(stack)
        told = _told(changed, more) - before["synthesised"]
        if not told:
            survivors.append(" | ".join(mutation.name))
        # Of the plans of them, one of five: the same functions read both.
        in_plans = not ONLY_IN_STACKS.match(f"{mutation.of}.{mutation.part}")
        if number % 5 == 0 and in_plans:
            as_plan = _told(FORMS["planned"](changed), more) - before["planned"]
            assert bool(as_plan) == bool(told), mutation.name
    assert wanted == set()
    check_golden(SURVIVORS / f"{name}.txt", "".join(f"{each}\n" for each in survivors))


def _told(stack: Document, more: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Return what the checks say, without the masking of secrets, which takes longer than they."""
    try:
        document = read(stack, **more)
        told = [finding for check in CHECKS for finding in check.find(document)]
    except (InvalidInput, *UNREADABLE):
        return {("refused", "", "")}
    return {(finding.check, finding.address, finding.message) for finding in told}


def test_the_page_gives_the_score_and_explains_every_survivor() -> None:
    lines = [
        line for name in STACKS for line in (SURVIVORS / f"{name}.txt").read_text().splitlines()
    ]
    reasons = {line: harmless_because(*line.split(" | ")) for line in lines}
    assert [line for line, reason in reasons.items() if reason is None] == []
    assert len(reasons) == len(lines)
    counts = Counter(reasons.values())
    assert set(counts) == set(HARMLESS)

    made = sum(len(own_mutations(name)) for name in STACKS)
    found_ones = made - len(lines)
    assert found_ones >= 200
    page = (Path(__file__).parents[2] / "docs/policy.md").read_text()
    rows = dict(re.findall(r"^\| ([^|]+) \| (\d+) \|$", page, re.MULTILINE))
    assert {reason: int(rows.get(reason, 0)) for reason in HARMLESS} == counts
    # In hundreds: each new attribute of a stack makes more of them.
    said = (
        f"Of more than {made // 100 * 100:,} mutations more than {found_ones // 100 * 100:,} are "
        f"found; the other {len(lines)} do no harm"
    )
    assert said in " ".join(page.split())
