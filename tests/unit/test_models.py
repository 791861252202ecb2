"""What botocore's newest models change for the calls that we make: `pytest -s` prints it."""

import copy
import functools
import json
import re
from pathlib import Path

import pytest
from botocore import xform_name
from botocore.loaders import Loader
from botocore.model import ServiceModel

from terradask_simulator.aws.shapes.models import models_in

from ..shape_report import newest_models
from .model_changes import changes

_REPOSITORY = Path(__file__).parents[2]
_CALLS = Path(__file__).parent / "data" / "aws_calls.json"
_WORD = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")
#: Prefixes of actions -> names of clients, if they differ.
_CLIENTS = {"servicequotas": "service-quotas", "tag": "resourcegroupstaggingapi"}


@functools.cache
def _recorded():
    """Return the calls of Terraform and of commands, as the embedded AWS names them."""
    return {one for each in json.loads(_CALLS.read_text())["calls"].values() for one in each}


@functools.cache
def _in_code():
    """Return all words of the client's and the host's code that may be methods of a client."""
    files = [*_REPOSITORY.glob("cluster/**/*.py"), *_REPOSITORY.glob("host/**/*.py")]
    return {word for file in files for word in _WORD.findall(file.read_text())}


def _services():
    files = [*_REPOSITORY.glob("cluster/**/*.py"), *_REPOSITORY.glob("host/**/*.py")]
    named = {
        name for file in files for name in re.findall(r'client\("([a-z0-9-]+)"', file.read_text())
    }
    return sorted(named | {one.partition(":")[0] for one in _recorded()})


def _action(model, name):
    """Return how the embedded AWS names an operation."""
    prefix = next((p for p, client in _CLIENTS.items() if client == model.service_name), None)
    return f"{prefix or model.service_name}:{name}"


def _ours(model):
    """Return the operations of a service that we call."""
    recorded, words = _recorded(), _in_code()
    return [
        name
        for name in model.operation_names
        if _action(model, name) in recorded or xform_name(name) in words
    ]


def test_nothing_that_we_call_is_broken_by_the_newest_models():
    folder = newest_models()
    if folder is None:
        pytest.skip("botocore's newest models are missing: make models")
    models, found, called = models_in(str(folder)), [], set()
    for service in _services():
        old, new = models.of(service)
        names = _ours(old)
        called |= {f"{service}:{name}" for name in names}
        found += [change for name in names for change in changes(old, new, name)]
        assert old.metadata["protocols"][-1] in new.metadata["protocols"], service
    print(f"\n{len(called)} operations in {len(_services())} services, {len(found)} changes:")
    print("\n".join(map(str, found)))
    assert {"s3:PutPublicAccessBlock", "s3:PutObject", "autoscaling:SetDesiredCapacity"} <= called
    assert len(called) > 150
    assert [str(change) for change in found if change.breaks] == []


def test_each_recorded_call_is_an_operation_of_the_models():
    known = {
        _action(model, name)
        for service in _services()
        for model in models_in("").of(service)
        for name in model.operation_names
    }
    assert _recorded() <= known


# ---- planted changes -----------------------------------------------------------------------------


def _service():
    return json.loads(
        json.dumps(Loader().load_service_model("autoscaling", "service-2"), default=str)
    )


def _changed(change):
    old = _service()
    new = copy.deepcopy(old)
    change(new)
    models = [ServiceModel(one, "autoscaling") for one in (old, new)]
    return list(changes(*models, "DescribeAutoScalingGroups"))


def _shape(model, name):
    return model["shapes"][name]


@pytest.mark.parametrize(
    ("change", "said", "breaks"),
    [
        (lambda m: None, None, False),
        (lambda m: m["operations"].pop("DescribeAutoScalingGroups"), "is gone", True),
        (
            lambda m: m["operations"]["DescribeAutoScalingGroups"].update(deprecated=True),
            "is deprecated",
            True,
        ),
        (
            lambda m: _shape(m, "AutoScalingGroupNamesType")["members"].pop(
                "AutoScalingGroupNames"
            ),
            "takes.AutoScalingGroupNames is gone",
            True,
        ),
        (
            lambda m: _shape(m, "AutoScalingGroupNamesType").update(required=["MaxRecords"]),
            "takes.MaxRecords is required now",
            True,
        ),
        (
            lambda m: _shape(m, "Instance")["members"].pop("LifecycleState"),
            "returns.AutoScalingGroups[].Instances[].LifecycleState is gone",
            True,
        ),
        (
            lambda m: _shape(m, "LifecycleState")["enum"].append("Resting"),
            "LifecycleState may be 'Resting'",
            False,
        ),
        (
            lambda m: _shape(m, "Instance")["members"].update(Mood={"shape": "XmlString"}),
            "Instances[].Mood is new",
            False,
        ),
        (
            lambda m: _shape(m, "AutoScalingGroupDesiredCapacity").update(type="string"),
            "DesiredCapacity has another type: integer -> string",
            True,
        ),
    ],
)
def test_a_planted_change_is_told(change, said, breaks):
    found = _changed(change)
    assert [one for one in found if one.breaks] == (found if breaks else [])
    assert (found == []) if said is None else any(said in str(one) for one in found)
