"""The repository's structure keeps its rules, and each rule finds what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from . import structure_rules as rules
from .source_tree import ROOTS, Import, Tree, planted, repository

Files = dict[str, str]
ERRORS = "class TerradaskError(Exception): ...\nclass AwsError(TerradaskError): ...\n"
HELD_BACK = (
    "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nif "
    "TYPE_CHECKING:\n    from {} import x\n"
)


# ---- the repository ------------------------------------------------------------------------------


def test_the_reader_sees_the_whole_repository() -> None:
    tree = repository()
    assert {name.partition(".")[0] for name in tree.modules} == set(ROOTS)
    assert len(tree.modules) > 400
    assert len(tree.beside("tests")) > 150
    assert (
        sum(
            tree.target(one) is not None
            for module in tree.modules.values()
            for one in module.imports
        )
        > 2000
    )
    assert len(rules.own_classes(tree)) > 500


def test_imports_of_roots_point_one_way() -> None:
    assert rules.roots(repository()) == []


def test_the_framework_is_imported_through_one_door() -> None:
    assert rules.framework(repository()) == []


def test_stacks_make_no_resource_without_a_construct_of_modules() -> None:
    assert rules.resources(repository()) == []


def test_the_host_program_needs_the_standard_library_and_botocore_alone() -> None:
    assert rules.host_alone(repository()) == []


def test_the_simulator_is_imported_without_the_host_program() -> None:
    assert rules.simulator_alone(repository()) == []


def test_packages_inside_terradask_keep_their_order() -> None:
    assert rules.order(repository()) == []


def test_no_files_import_each_other() -> None:
    assert rules.circles(repository()) == []


def test_own_classes_are_at_most_two_deep() -> None:
    assert rules.depth(repository()) == []


def test_no_file_is_long() -> None:
    assert rules.length(repository()) == []


def test_the_simulators_aws_needs_nothing_else_of_ours() -> None:
    assert rules.aws_half(repository()) == []


# ---- the reader ----------------------------------------------------------------------------------


def test_imports_are_read_wherever_they_stand(tmp_path: Path) -> None:
    source = "import a.b\nfrom . import c\nfrom ..d import e as f\ndef g():\n    from h import i\n"
    module = planted(tmp_path, {"cluster/terradask/cli/x.py": source}).modules["terradask.cli.x"]
    assert module.imports == (
        Import(1, "a.b", None, "a", in_function=False),
        Import(2, "terradask.cli", "c", "c", in_function=False),
        Import(3, "terradask.d", "e", "f", in_function=False),
        Import(5, "h", "i", "i", in_function=True),
    )


def test_a_package_is_named_as_it_is_imported(tmp_path: Path) -> None:
    tree = planted(
        tmp_path, {"cluster/terradask/cli/__init__.py": '"""One.\n\nTwo."""\nfrom .x import y\n'}
    )
    module = tree.modules["terradask.cli"]
    assert (module.imports[0].dotted, module.summary) == ("terradask.cli.x.y", "One.")


def test_an_import_of_a_name_may_be_of_a_module(tmp_path: Path) -> None:
    files = {
        "cluster/terradask/cli/__init__.py": "z = 1",
        "cluster/terradask/cli/x.py": "",
        "cluster/terradask/app.py": "",
    }
    tree = planted(
        tmp_path,
        {
            **files,
            "cluster/terradask/y.py": (
                "from terradask.cli import x, z\nimport terradask.app\nimport os\n"
            ),
        },
    )
    found = [tree.target(one) for one in tree.modules["terradask.y"].imports]
    assert found == ["terradask.cli.x", "terradask.cli", "terradask.app", None]


# ---- each rule, broken and kept ------------------------------------------------------------------

AWS = "simulator/terradask_simulator/aws"
BROKEN: list[tuple[Callable[[Tree], list[str]], Files, list[str]]] = [
    (
        rules.roots,
        {"modules/terradask_modules/x.py": "def f():\n    from terradask.errors import E\n"},
        ["modules/terradask_modules/x.py:2 imports terradask.errors.E"],
    ),
    (
        rules.roots,
        {"cluster/terradask/_plans/x.py": "import terradask_simulator"},
        ["cluster/terradask/_plans/x.py:1 imports terradask_simulator"],
    ),
    (
        rules.roots,
        {"cluster/terradask/x.py": "from terradask_host.machine import y"},
        ["cluster/terradask/x.py:1 imports terradask_host.machine.y"],
    ),
    (
        rules.roots,
        {"simulator/terradask_simulator/x.py": "from terradask_modules.errors import A"},
        ["simulator/terradask_simulator/x.py:1 imports terradask_modules.errors.A"],
    ),
    (
        rules.framework,
        {"stacks/terradask_stacks/x.py": "from cdktf import App"},
        ["stacks/terradask_stacks/x.py:1 imports cdktf.App"],
    ),
    (
        rules.resources,
        {
            "modules/terradask_modules/aws.py": "from cdktf import Fn\nNAME = 'a'\ndef at(): ...\n",
            "stacks/terradask_stacks/x.py": "from terradask_modules.aws import Fn, NAME, S3Object",
        },
        ["stacks/terradask_stacks/x.py:1 imports terradask_modules.aws.S3Object"],
    ),
    (
        rules.host_alone,
        {"host/terradask_host/x.py": "import distributed\ndef f():\n    import boto3\n"},
        [
            "host/terradask_host/x.py:1 imports distributed",
            "host/terradask_host/x.py:3 imports boto3",
        ],
    ),
    (
        rules.simulator_alone,
        {
            "simulator/terradask_simulator/x.py": (
                "import terradask_host.documents\nif 1:\n    from terradask_host import x\n"
            )
        },
        [
            "simulator/terradask_simulator/x.py:1 imports terradask_host.documents",
            "simulator/terradask_simulator/x.py:3 imports terradask_host.x",
        ],
    ),
    (
        rules.aws_half,
        {f"{AWS}/x.py": "from ..hosts import y\nfrom terradask_host.http_proxy import z\n"},
        [
            f"{AWS}/x.py:1 imports terradask_simulator.hosts.y",
            f"{AWS}/x.py:2 imports terradask_host.http_proxy.z",
        ],
    ),
    (
        rules.aws_half,
        {"simulator/terradask_simulator/x.py": ""},
        ["there is no terradask_simulator.aws"],
    ),
    (
        rules.order,
        {
            "cluster/terradask/_aws/x.py": "def f():\n    from .._plans.y import w, z\n",
            "cluster/terradask/_plans/y.py": "",
        },
        ["cluster/terradask/_aws/x.py:2 imports terradask._plans.y: _plans comes after _aws"],
    ),
    (
        rules.order,
        {
            "cluster/terradask/_aws/x.py": HELD_BACK.format("terradask.cli"),
            "cluster/terradask/cli/__init__.py": "",
        },
        ["cluster/terradask/_aws/x.py:4 imports terradask.cli: cli comes after _aws"],
    ),
    (
        rules.order,
        {
            "cluster/terradask/__init__.py": "",
            "cluster/terradask/_dask/x.py": "from terradask import Cluster",
        },
        ["cluster/terradask/_dask/x.py:1 imports terradask: __init__ comes after _dask"],
    ),
    (
        rules.order,
        {"cluster/terradask/_new/__init__.py": ""},
        [
            (
                "terradask._new has no place: add it to ORDER in tests/unit/structure_rules.py, "
                "below "
                "all that it imports"
            )
        ],
    ),
    (
        rules.circles,
        {
            "host/terradask_host/a.py": "from . import b",
            "host/terradask_host/b.py": "def f():\n    import terradask_host.c",
            "host/terradask_host/c.py": HELD_BACK.format("terradask_host.a"),
            "host/terradask_host/outside.py": "from terradask_host import a",
        },
        [
            (
                "terradask_host.a -> terradask_host.b -> terradask_host.c -> terradask_host.a (3 "
                "files import each other)"
            )
        ],
    ),
    (
        rules.circles,
        {
            "cluster/terradask/cli/__init__.py": "from .a import b",
            "cluster/terradask/cli/a.py": "from terradask.cli import VERSION",
        },
        ["terradask.cli -> terradask.cli.a -> terradask.cli (2 files import each other)"],
    ),
    (
        rules.depth,
        {
            "modules/terradask_modules/a.py": (
                "from typing import Generic\nclass A(Generic[T]): ..."
            ),
            "stacks/terradask_stacks/__init__.py": "from terradask_modules.a import A as First",
            "stacks/terradask_stacks/b.py": (
                "import terradask_stacks as s\nclass B(s.First[int]): ...\nAlias = B\n"
            ),
            "cluster/terradask/c.py": (
                "def f():\n    from terradask_stacks.b import Alias\n    class C(Alias): ...\n"
            ),
        },
        ["terradask.c.f.C: terradask.c.f.C -> terradask_stacks.b.B -> terradask_modules.a.A"],
    ),
    (
        rules.length,
        {
            "benchmarks/x.py": "x = 1\n" * 601,
            "tests/unit/y.py": "x = 1\n" * 602,
            "host/terradask_host/z.py": "\n" * 603,
        },
        [
            "host/terradask_host/z.py: 603 lines",
            "tests/unit/y.py: 602 lines",
            "benchmarks/x.py: 601 lines",
        ],
    ),
]


@pytest.mark.parametrize(
    ("rule", "files", "found"),
    BROKEN,
    ids=[f"{rule.__name__}-{i}" for i, (rule, _, _) in enumerate(BROKEN)],
)
def test_a_rule_finds_what_breaks_it(
    tmp_path: Path, rule: Callable[[Tree], list[str]], files: Files, found: list[str]
) -> None:
    assert rule(planted(tmp_path, files)) == found


CLEAN: list[tuple[Callable[[Tree], list[str]], Files]] = [
    (
        rules.roots,
        {
            "cluster/terradask/cli/_demo.py": "import terradask_simulator",
            "simulator/terradask_simulator/demo/x.py": "import terradask",
            "cluster/terradask/x.py": (
                "from terradask_host.http_proxy.y import z\nfrom terradask_stacks import settings\n"
            ),
            "cluster/terradask/y.py": (
                "from terradask_host.documents import Run\nimport terradask_host.documents\n"
            ),
            "simulator/terradask_simulator/x.py": "import terradask_host\n",
        },
    ),
    (rules.framework, {"modules/terradask_modules/aws.py": "import cdktf"}),
    (rules.host_alone, {"host/terradask_host/x.py": "import json, botocore\nfrom . import y\n"}),
    (rules.host_alone, {"host/terradask_host/preload/x.py": "import distributed"}),
    (
        rules.simulator_alone,
        {
            "simulator/terradask_simulator/x.py": "def f():\n    import terradask_host\n",
            "simulator/terradask_simulator/hosts/simulated_workers/run.py": "import terradask_host",
        },
    ),
    (
        rules.aws_half,
        {
            f"{AWS}/iam/x.py": (
                "import moto\nfrom ..y import z\nfrom terradask_simulator.aws import w\n"
            )
        },
    ),
    (
        rules.order,
        {
            "cluster/terradask/errors/__init__.py": "",
            "cluster/terradask/_aws/x.py": (
                "from ..errors import E\nfrom . import y\nimport terradask_stacks\n"
            ),
            "cluster/terradask/_plans/x.py": (
                "from terradask import _aws, errors\nfrom terradask._aws.x import y\n"
            ),
            "cluster/terradask/__main__.py": "from terradask import Cluster",
            "cluster/terradask/__init__.py": "from ._plans.x import y",
            "cluster/terradask/_aws/__init__.py": "",
        },
    ),
    (
        rules.circles,
        {
            "cluster/terradask/__init__.py": "from .cli import main",
            "cluster/terradask/cli/__init__.py": "from .a import b",
            "cluster/terradask/cli/a.py": "from . import c\nfrom terradask.cli import c as d\n",
            "cluster/terradask/cli/c.py": "import os",
        },
    ),
    (
        rules.depth,
        {
            "cluster/terradask/errors/__init__.py": ERRORS,
            "cluster/terradask/a.py": (
                "from .errors import AwsError\nclass A(AwsError): "
                "...\nclass B(A, ValueError): ...\n"
            ),
            "stacks/terradask_stacks/s.py": (
                "from pydantic import BaseModel as M\nclass A(M): "
                "...\nclass B(A): ...\nclass C(B): ...\n"
            ),
            "stacks/terradask_stacks/t.py": (
                "import lib\nclass A(lib.B): ...\nclass C(A): ...\nclass D(lib.C): ...\n"
            ),
        },
    ),
    (rules.length, {"host/terradask_host/x.py": "x = 1\n" * 600, "docs/x.py": "x = 1\n" * 601}),
]


@pytest.mark.parametrize(
    ("rule", "files"), CLEAN, ids=[f"{rule.__name__}-{i}" for i, (rule, _) in enumerate(CLEAN)]
)
def test_a_rule_lets_pass_what_keeps_it(
    tmp_path: Path, rule: Callable[[Tree], list[str]], files: Files
) -> None:
    assert rule(planted(tmp_path, files)) == []
