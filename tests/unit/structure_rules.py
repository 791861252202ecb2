"""The rules of the repository's structure: each takes a tree and returns what breaks it, a line
each.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from terradask_modules.frameworks import COMMON_PACKAGES, FRAMEWORKS

from .source_tree import BESIDES, ROOTS, Import, Module, Tree, dotted

# Inside `terradask` each package (or module) imports itself and those above it.
# docs/architecture.md's list has this order.
ORDER = (
    "errors",  # every error, in one tree
    "_common",  # progress, clock, files, polling
    "_aws",  # clients that translate errors, objects in S3, tags, Auto Scaling groups
    "_catalog",  # instance types, prices, quotas
    "_terraform",  # Terraform in one stack's folder, its state and lock
    "_network",  # what the network tells its clusters, what is given
    "_software",  # packages of the client, and which of them hosts install
    "_plans",  # plans read, checked by policy, shown, kept
    "_observe",  # deployed clusters: documents, status, logs, events, costs
    "_synthesis",  # settings to a stack's folder: locked answers, Terraform's configuration
    "_clusters",  # deployed clusters: start, attach, stop, jobs
    "_cleanup",  # what an interruption leaves: found, adopted, deleted
    "_workspace",  # `Workspace` and the parts it is composed of
    "_dask",  # `Cluster` and the parts it is composed of, `terradask.function`
    "__init__",  # what `import terradask` offers
    "cost",  # `terradask.cost`, for programs
    "policy",  # `terradask.policy`, for programs
    "_doctor",  # what is missing on this machine or in the account; the account check
    "cli",  # the command line
    "app",  # the app of the `cdktf` command
    "__main__",  # `python -m terradask`
)
ORDER_IS_IN = "ORDER in tests/unit/structure_rules.py"

# Each root, and the other ones that it may import.
MAY_IMPORT: dict[str, set[str]] = {
    "terradask_modules": set(),
    "terradask_stacks": {"terradask_modules"},
    "terradask": {"terradask_stacks", "terradask_modules"},
    "terradask_host": set(),
    "terradask_simulator": {"terradask_host"},
}
# What stands at both ends, and is the same: the HTTP proxy of the dashboard, the documents in the
# bucket, whose the bucket is and how it encrypts, what is called at most once, container images in
# registries, conda's channels, the names of log streams and of gauges, what workers used, which
# group of workers grows how, what AWS's texts on launches mean, how Dask connects, workers' names,
# the words for states, and the version.
SHARED = {
    "terradask": (
        "terradask_host.__version__.",
        "terradask_host.bucket_calls.",
        "terradask_host.channel_credentials.",
        "terradask_host.commands.",
        "terradask_host.conda_lines.",
        "terradask_host.end_once.",
        "terradask_host.document_fields.",
        "terradask_host.documents.",
        "terradask_host.environment_manifest.",
        "terradask_host.gauges.",
        "terradask_host.http_proxy.",
        "terradask_host.jobs.",
        "terradask_host.log_streams.",
        "terradask_host.preload.closed_streams.",
        "terradask_host.preload.local_names.",
        "terradask_host.registry.",
        "terradask_host.rules.autoscaling_groups.",
        "terradask_host.rules.job_tasks.",
        "terradask_host.rules.launch_problem.",
        "terradask_host.rules.lifetime.",
        "terradask_host.rules.limits.",
        "terradask_host.rules.markets.",
        "terradask_host.rules.membership.",
        "terradask_host.scaling_policy.",
        "terradask_host.structure.",
        "terradask_host.usage.",
        "terradask_host.words.",
    ),
}
# The commands that start the simulator and the demo are the one place where the runtime knows it;
# the demo, which comes with the simulator, is a program that uses terradask.
BEHIND_THE_COMMAND = ("cluster/terradask/cli/_sim.py", "cluster/terradask/cli/_demo.py")
DEMO = "simulator/terradask_simulator/demo/"
FRAMEWORK = {
    *COMMON_PACKAGES,
    *(name for each in FRAMEWORKS for name in (each.package, each.bindings)),
}
FRAMEWORK_DOOR = "modules/terradask_modules/aws.py"
AWS_HALF = "terradask_simulator.aws"

MAX_CLASS_DEPTH = 2
MAX_LINES = 600
_MODELS = {"pydantic.BaseModel", "pydantic.RootModel", "pydantic_settings.BaseSettings"}


def roots(tree: Tree) -> list[str]:
    """Return imports of a root that the importing one may not know."""
    return [
        _describe(module, one)
        for package in ROOTS
        for module in tree.below(package)
        for one in module.imports
        if one.top in ROOTS and not _root_may_import(package, module, one)
    ]


def framework(tree: Tree) -> list[str]:
    """Return imports of a framework outside of the one module that is for it."""
    found = (
        (module, one)
        for module in tree.modules.values()
        for one in module.imports
        if module.where != FRAMEWORK_DOOR
    )
    return [_describe(module, one) for module, one in found if one.top in FRAMEWORK]


def resources(tree: Tree) -> list[str]:
    """Return imports of resources' bindings by stacks: constructs of `modules/` make resources,
    stacks read settings and put constructs together.
    """
    door = tree.modules.get("terradask_modules.aws")
    defined = set() if door is None else {*door.names, *_assigned(door), "AwsProvider"}
    return [
        _describe(module, one)
        for module in tree.below("terradask_stacks")
        for one in module.imports
        if one.module == "terradask_modules.aws" and one.name not in defined
    ]


def host_alone(tree: Tree) -> list[str]:
    """Return imports of the host program of more than the standard library and botocore, which is
    what ``boot.lock`` brings to hosts: programs aside that run with other packages.
    """
    standard = sys.stdlib_module_names | {"botocore", "terradask_host"}
    apart = ("preload", "conda_install")
    modules = [
        module
        for module in tree.below("terradask_host")
        if not any(name in module.name for name in apart)
    ]
    return [
        _describe(module, one)
        for module in modules
        for one in module.imports
        if one.top not in standard
    ]


def simulator_alone(tree: Tree) -> list[str]:
    """Return imports that the simulator, which is installed without terradask too, makes of the
    host program before an instance boots it: those of simulated workers' own processes aside.
    """
    workers = "terradask_simulator.hosts.simulated_workers."
    apart = {f"{workers}{name}" for name in ("run", "simulated_host", "worker_process")}
    return [
        _describe(module, one)
        for module in tree.below("terradask_simulator")
        for one in module.imports
        if one.top == "terradask_host"
        and not one.in_function
        and module.name not in apart
        and not module.where.startswith(DEMO)
    ]


def aws_half(tree: Tree) -> list[str]:
    """Return imports of the simulator's AWS of anything else of ours. It is to be there."""
    modules = tree.below(AWS_HALF)
    if not modules:
        return [f"there is no {AWS_HALF}"]
    imports = [(module, one) for module in modules for one in module.imports if one.top in ROOTS]
    return [
        _describe(module, one)
        for module, one in imports
        if not f"{one.dotted}.".startswith(f"{AWS_HALF}.")
    ]


def order(tree: Tree) -> list[str]:
    """Return packages of `terradask` that `ORDER` misses, and imports against it."""
    place = {name: number for number, name in enumerate(ORDER)}
    missing = [name for name in packages(tree) if name not in place]
    found = [
        f"terradask.{name} has no place: add it to {ORDER_IS_IN}, below all that it imports"
        for name in missing
    ]
    for module, one, target in _imports_within_terradask(tree):
        ours, theirs = _package(module.name), _package(target)
        if ours in place and theirs in place and place[theirs] > place[ours]:
            found.append(f"{module.where}:{one.line} imports {target}: {theirs} comes after {ours}")
    # A statement may bring several names of one module.
    return list(dict.fromkeys(found))


def circles(tree: Tree) -> list[str]:
    """Return one circle, the shortest, for each group of files that all import each other."""
    graph = {name: _imported(tree, module) for name, module in tree.modules.items()}
    reach = {name: _reach(graph, name) for name in graph}
    found, seen = [], set[str]()
    for name in sorted(graph):
        if name in reach[name] and name not in seen:
            group = {other for other in reach[name] if name in reach[other]}
            seen |= group
            path = min((_way_back(graph, start) for start in sorted(group)), key=len)
            found.append(f"{' -> '.join(path)} ({len(group)} files import each other)")
    return found


def depth(tree: Tree) -> list[str]:
    """Return classes with more than two own ones in a line, themselves counted; errors and pydantic
    models aside.
    """
    lineages = ((name, lineage(tree, name)) for name in own_classes(tree))
    return [
        f"{name}: {' -> '.join(map(str, line))}"
        for name, line in lineages
        if len(line) > MAX_CLASS_DEPTH
    ]


def length(tree: Tree) -> list[str]:
    """Return files that are too long."""
    modules = [
        *tree.modules.values(),
        *(module for folder in BESIDES for module in tree.beside(folder)),
    ]
    sizes = ((len(module.source.splitlines()), module.where) for module in modules)
    return [
        f"{where}: {size} lines" for size, where in sorted(sizes, reverse=True) if size > MAX_LINES
    ]


def packages(tree: Tree) -> list[str]:
    """Return the packages of `terradask`, and the modules beside them, in their order; what has no
    place comes last.
    """
    names = {_package(module.name) for module in tree.below("terradask")}
    return sorted(
        names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)
    )


@dataclass(frozen=True)
class ClassName:
    """A class of the tree, by its module and its name there."""

    module: str
    qualified: str

    def __str__(self) -> str:
        return f"{self.module}.{self.qualified}"


def own_classes(tree: Tree) -> list[ClassName]:
    """Return every class of the tree."""
    return [
        ClassName(name, qualified)
        for name, module in tree.modules.items()
        for qualified in module.classes
    ]


def lineage(tree: Tree, name: ClassName) -> list[ClassName]:
    """Return a class and the longest line of own ones above it; nothing for errors and pydantic
    models.
    """
    lines = []
    for base in _bases(tree, name):
        if isinstance(base, str):
            if base in _MODELS or _is_exception(base):
                return []
        else:
            lines.append(lineage(tree, base))
    return [] if [] in lines else [name, *max(lines, key=len, default=[])]


def _bases(tree: Tree, name: ClassName) -> Iterator[ClassName | str]:
    module = tree.modules[name.module]
    for node in module.classes[name.qualified].bases:
        if (base := dotted(node)) is not None:
            yield _resolve(tree, module, name.qualified, base)


def _resolve(tree: Tree, module: Module, scope: str, base: str) -> ClassName | str:
    """Return the class that a name stands for, seen from within `scope`: followed through modules,
    where it is ours.
    """
    scopes = scope.split(".")[:-1]
    for end in range(len(scopes), -1, -1):
        inner = ".".join([*scopes[:end], base])
        if inner in module.classes and inner != scope:
            return ClassName(module.name, inner)
    head, _, rest = base.partition(".")
    full = ".".join(filter(None, [module.names.get(head, head), rest]))
    found = tree.split(full) if head in module.names else None
    if found is None or (found[0] is module and found[1] == base):
        return full
    return _resolve(tree, found[0], "", found[1])


def _is_exception(name: str) -> bool:
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, BaseException)


def _root_may_import(package: str, module: Module, one: Import) -> bool:
    allowed = {package} | MAY_IMPORT[package]
    if module.where.startswith(BEHIND_THE_COMMAND):
        allowed |= {"terradask_simulator"}
    if module.where.startswith(DEMO):
        allowed |= {"terradask", "terradask_modules"}
    shared = package in SHARED and f"{one.dotted}.".startswith(SHARED[package])
    return one.top in allowed or shared


def _imports_within_terradask(tree: Tree) -> Iterator[tuple[Module, Import, str]]:
    for module in tree.below("terradask"):
        for one in module.imports:
            target = tree.target(one)
            if target is not None and target.partition(".")[0] == "terradask":
                yield module, one, target


def _assigned(module: Module) -> Iterator[str]:
    for node in module.syntax.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _package(name: str) -> str:
    """Return the package inside `terradask` that a module belongs to."""
    return [*name.split("."), "__init__"][1]


def _imported(tree: Tree, module: Module) -> set[str]:
    return {target for one in module.imports if (target := tree.target(one)) is not None}


def _reach(graph: dict[str, set[str]], start: str) -> set[str]:
    found, left = set[str](), [start]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left += new
    return found


def _way_back(graph: dict[str, set[str]], start: str) -> list[str]:
    """Return the shortest way from a file to itself."""
    ways, seen = [[start]], set[str]()
    for way in ways:
        for name in sorted(graph[way[-1]]):
            if name == start:
                return [*way, start]
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    raise ValueError(f"{start} is on no circle")


def _describe(module: Module, one: Import) -> str:
    return f"{module.where}:{one.line} imports {one.dotted}"
