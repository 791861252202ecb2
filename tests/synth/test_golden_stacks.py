"""``cdk.tf.json`` of thirty settings: the default network and cluster byte for byte, the others as
patches of these.

What follows the host wheel's content is masked: its SHA-256, and user data, which name it. Those
are kept as a digest of their text with the wheel's masked; the default network's text is kept
whole, so that a difference can be read. Of a cluster's stack the settings that ``cluster.json``
repeats are left out, so that a new setting, which no resource takes, changes no stack; those of the
default cluster are kept in a file of their own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest

from terradask_stacks.settings import ClusterSettings

from ..golden import check_golden
from .conftest import SynthText
from .golden_settings import CLUSTERS, NETWORKS
from .golden_stacks import GOLDEN, file_of, golden_stack, kept_text, patch_between
from .mutations import mutations

USER_DATA = GOLDEN / "user_data.txt"
SETTINGS = GOLDEN / "settings.json"
ECHO = "<the cluster's settings>"
DIGEST = "<SHA-256 of cluster.json>"
WHEEL = "<SHA-256 of the host wheel>"

_BASE64 = re.compile(r"[A-Za-z0-9+/]{400,}={0,2}")


def user_data_texts(text: str) -> list[str]:
    """Return the user data in a network's stack, as hosts read them."""
    return [base64.b64decode(found, validate=True).decode() for found in _BASE64.findall(text)]


def masked(text: str, wheel_sha256: str) -> str:
    """Return a network's stack with nothing in it that the host program's files decide."""

    def digest(found: re.Match[str]) -> str:
        decoded = base64.b64decode(found[0], validate=True).decode()
        return (
            "<user data with SHA-256 "
            f"{hashlib.sha256(decoded.replace(wheel_sha256, WHEEL).encode()).hexdigest()}>"
        )

    return _BASE64.sub(digest, text).replace(wheel_sha256, WHEEL)


def wheel_sha256(text: str) -> str:
    found: str = json.loads(text)["resource"]["aws_s3_object"]["host-wheel"]["source_hash"]
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_a_networks_stack_is_the_golden_one(synth_text: SynthText, name: str) -> None:
    def shown(name: str) -> str:
        text = synth_text("network", **NETWORKS[name.removeprefix("network-")])
        return masked(text, wheel_sha256(text))

    name = f"network-{name}"
    check_golden(file_of(name), kept_text(name, shown))


def parted(text: str) -> tuple[str, dict[str, Any]]:
    """Return a cluster's stack without the settings in its ``cluster.json``, and these."""
    (content,) = (
        each["content"]
        for each in json.loads(text)["resource"]["aws_s3_object"].values()
        if each["key"].endswith("/cluster.json")
    )
    document = json.loads(content)
    echo: dict[str, Any] = document["settings"]
    shorter = json.dumps({**document, "settings": ECHO}, indent=1)
    shown = text.replace(json.dumps(content), json.dumps(shorter))
    # A private cluster's secret binds the document, as Terraform writes it.
    written = content.replace("$${", "${").replace("%%{", "%{")
    return shown.replace(hashlib.sha256(written.encode()).hexdigest(), DIGEST), echo


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_clusters_stack_is_the_golden_one(synth_text: SynthText, name: str) -> None:
    def shown(name: str) -> str:
        return parted(synth_text("etl", **CLUSTERS[name.removeprefix("cluster-")]))[0]

    stack = f"cluster-{name}"
    check_golden(file_of(stack), kept_text(stack, shown))
    assert ECHO in shown(stack)
    _, echo = parted(synth_text("etl", **CLUSTERS[name]))
    given = ClusterSettings.model_validate(CLUSTERS[name].get("cluster", {})).model_dump_json()
    # As Terraform is to read no template in it.
    assert echo == json.loads(given.replace("${", "$${").replace("%{", "%%{"))


def test_the_settings_in_the_descriptor_are_the_golden_ones(synth_text: SynthText) -> None:
    _, echo = parted(synth_text("etl"))
    check_golden(SETTINGS, json.dumps(echo, indent=2, sort_keys=True) + "\n")


def test_a_stack_without_its_settings_has_everything_else(synth_text: SynthText) -> None:
    text = synth_text("etl")
    shown, _ = parted(text)
    assert "package_sync" in text
    assert "package_sync" not in shown
    changed = text.replace(r"\"max_size\": 200", r"\"max_size\": 199")
    assert changed != text
    assert parted(changed)[0] != shown


def test_user_data_is_the_golden_one(synth_text: SynthText) -> None:
    text = synth_text("network")
    (only,) = set(user_data_texts(text))
    check_golden(USER_DATA, only.replace(wheel_sha256(text), WHEEL))


def test_masking_leaves_nothing_of_the_wheel_and_everything_of_user_data(
    synth_text: SynthText,
) -> None:
    text = synth_text("network")
    sha256 = wheel_sha256(text)
    shown = masked(text, sha256)
    assert sha256 not in shown
    # Of another wheel it is the same; of other user data it is not.
    (data,) = set(user_data_texts(text))

    def with_user_data(changed: str) -> str:
        before, after = (base64.b64encode(part.encode()).decode() for part in (data, changed))
        return text.replace(before, after)

    other = "0" * 64
    assert (
        masked(with_user_data(data.replace(sha256, other)).replace(sha256, other), other) == shown
    )
    assert masked(with_user_data(data.replace("UMask=0077", "UMask=0022")), sha256) != shown


def test_a_patch_differs_for_every_change_of_a_stack() -> None:
    base, stack = golden_stack("network-default"), golden_stack("network-nat-none")
    patch = patch_between(base, stack)
    changed = [mutation.applied(stack) for mutation in mutations(stack)]
    assert len(changed) > 500
    assert all(patch_between(base, each) != patch for each in changed)
    with pytest.raises(AssertionError):
        patch_between(base, {**stack, "output": None})


def test_every_golden_file_has_its_settings() -> None:
    assert len(NETWORKS) + len(CLUSTERS) >= 30
    expected = {
        *(file_of(f"network-{name}").name for name in NETWORKS),
        *(file_of(f"cluster-{name}").name for name in CLUSTERS),
        USER_DATA.name,
        SETTINGS.name,
    }
    assert {path.name for path in GOLDEN.iterdir()} == expected
