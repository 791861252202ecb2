"""The parts of an archive: each reads one thing of a cluster. None writes to AWS."""

from __future__ import annotations

import datetime
import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib import metadata
from itertools import islice
from typing import TYPE_CHECKING, Any

from terradask._aws.s3 import ObjectStore
from terradask._clusters.deployment import Deployment
from terradask._common.masking import masked_text
from terradask._observe.events import without_repeats
from terradask._observe.store import CLOSING, DESCRIPTOR, ENVIRONMENT, RUN, SCHEDULER, SOFTWARE
from terradask._synthesis.framework_environment import FrameworkEnvironment
from terradask._terraform.binary import find_terraform
from terradask._workspace.states import StackStates
from terradask.errors import AccessDenied, ClusterNotFound, SetupError, TerradaskError
from terradask_host.documents import plain_lines, plain_text
from terradask_modules.names import NETWORK_STACK, SCHEDULER_GROUP, cluster_key

if TYPE_CHECKING:
    from terradask._workspace.context import WorkspaceContext
    from terradask._workspace.workspace import Workspace

#: File of the status, which has the verdict.
STATUS = "status.json"
#: Most lines of a log's end, and most characters of a line.
_LINES = {SCHEDULER_GROUP: 500, "workers": 1000}
_LINE_CHARACTERS = 2000
#: Most characters of a line in which secrets are looked for before it is cut.
_SEEN_CHARACTERS = 2**14
_MOST_OBJECTS = 2000
_HISTORY = datetime.timedelta(days=30)
_MOST_ENTRIES = 200


@dataclass(frozen=True)
class Part:
    """One file of the archive."""

    file: str
    #: One line for the index.
    title: str
    #: Returns a JSON document or a text; None if there is nothing.
    read: Callable[[], Any]
    #: Whether the end counts, and not the beginning, if it is too long.
    is_log: bool = False
    #: Whether it is about this machine, and needs no AWS.
    is_here: bool = False


def parts_here() -> list[Part]:
    """Return the parts that need no workspace."""
    title = "Versions, packages and variables of this machine"
    return [Part("versions.json", title, _versions, is_here=True)]


def parts_of(workspace: Workspace, name: str) -> list[Part]:
    """Return the parts about a cluster."""
    # At the first use, since the bucket's name needs a call to AWS.
    context, deployment = workspace._context, cache(partial(workspace.deployment, name))
    documents = {
        DESCRIPTOR: "The cluster's structure",
        RUN: "The last run, as hosts read it",
        SCHEDULER: "The scheduler's last report",
        ENVIRONMENT: "The hosts' packages, as resolved",
        CLOSING: "The mark of a destruction that began",
    }
    return [
        Part("settings.json", "Settings that aren't the defaults", partial(_settings, context)),
        Part(STATUS, "Status: state, problems, groups, hosts", partial(_status, workspace, name)),
        Part("events.txt", "Events of the cluster and its hosts", partial(_events, deployment)),
        *(
            Part(f"logs/{hosts}.txt", f"The end of the log: {hosts}", read, is_log=True)
            for hosts, read in _logs(deployment)
        ),
        *(
            Part(f"documents/{file}", title, partial(_document, deployment, file))
            for file, title in documents.items()
        ),
        Part(
            "documents/software.lock.txt",
            "The hosts' packages, as a lock",
            partial(_text, deployment, SOFTWARE),
        ),
        Part("objects.json", "Objects in the bucket", partial(_objects, context, name)),
        Part("history.json", "Applies of 30 days", partial(_history, context, name)),
        *(
            Part(
                f"states/{stack}.json",
                f"Terraform's state of {stack}: addresses, types, ids, lock",
                partial(_state, context, stack),
            )
            for stack in (NETWORK_STACK, name)
        ),
    ]


def plan_part(workspace: Workspace, name: str, seconds: float) -> Part:
    """Return the part that runs Terraform, for the main thread: Ctrl-C then ends Terraform."""

    def read() -> str:
        from terradask._plans.render_markdown import to_markdown

        if FrameworkEnvironment(os.environ).kind == "not made":
            raise SetupError(
                "The first plan on this machine makes an environment for CDKTF.",
                advice=f"terradask plan {name} makes it",
            )
        limit = threading.Timer(seconds, workspace.cancel)
        limit.daemon = True
        limit.start()
        try:
            plans = workspace.plan([name])
        finally:
            limit.cancel()
        try:
            return to_markdown(plans.report, can_be_applied=False)
        finally:
            for plan in plans.plans:
                plan.remove()

    return Part("plan.md", "What terradask plan shows now", read)


def _versions() -> dict[str, Any]:
    try:
        terraform = str(find_terraform(os.environ))
    except TerradaskError as error:
        terraform = error.problem
    packages = {each.name: each.version for each in metadata.distributions() if each.name}
    names = ("AWS_", "CDKTF_", "DASK_", "TERRADASK_", "TERRAFORM_", "TF_", "UV_")
    return {
        "terradask": metadata.version("terradask"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "terraform": terraform,
        "packages": dict(sorted(packages.items())),
        # Names alone: no value of a variable is in the archive.
        "variables_set": sorted(name for name in os.environ if name.startswith(names)),
    }


def _settings(context: WorkspaceContext) -> dict[str, Any]:
    return {
        "file": None if context.loaded.path is None else str(context.loaded.path),
        "settings": context.settings.model_dump(mode="json", exclude_defaults=True),
    }


def _status(workspace: Workspace, name: str) -> dict[str, Any]:
    try:
        found = workspace.overview(name)
    except ClusterNotFound:
        # It may be deployed in part.
        found = [one for one in workspace.overview() if one.name == name]
        if not found:
            raise
    return found[0].as_dict()


def _events(deployment: Callable[[], Deployment]) -> str:
    return "".join(
        f"{plain_lines(str(event))}\n" for event in without_repeats(deployment().events())
    )


def _logs(deployment: Callable[[], Deployment]) -> Iterator[tuple[str, Callable[[], str]]]:
    def read(hosts: str) -> str:
        return "".join(
            f"{replace(line, text=cut_line(line.text))}\n"
            for line in deployment().iter_logs(hosts, tail=_LINES[hosts])
        )

    for hosts in _LINES:
        yield hosts, partial(read, hosts)


def cut_line(text: str) -> str:
    """Return a log's line cut to a length, but not within a secret: its beginning is no less
    secret, and without its end masking doesn't know it. It may have a megabyte.
    """
    if len(text) <= _LINE_CHARACTERS:
        return text.rstrip()
    kept = masked_text(text[:_SEEN_CHARACTERS])[:_LINE_CHARACTERS]
    words, space, _ = kept.rpartition(" ")
    return f"{words if space else kept} …"


def _document(deployment: Callable[[], Deployment], name: str) -> dict[str, Any] | None:
    return deployment().objects.read(name)


def _text(deployment: Callable[[], Deployment], name: str) -> str | None:
    found = deployment().objects.read_bytes(name)
    return None if found is None else str(plain_text(found.decode(errors="replace")))


def _objects(context: WorkspaceContext, name: str) -> list[dict[str, Any]]:
    store = ObjectStore(context.aws, context.bucket, cluster_key(name, ""))
    return [
        {"key": key, "bytes": entry["Size"], "written_at": str(entry["LastModified"])}
        for key, entry in islice(store.entries(), _MOST_OBJECTS)
    ]


def _history(context: WorkspaceContext, name: str) -> list[dict[str, Any]]:
    since = datetime.datetime.now(datetime.UTC) - _HISTORY
    found = StackStates(context).history.read(since)
    wanted = [one.as_dict() for one in found if one.stack in (NETWORK_STACK, name)]
    return wanted[-_MOST_ENTRIES:]


def _state(context: WorkspaceContext, stack: str) -> dict[str, Any] | None:
    place = StackStates(context).place(stack)
    try:
        document, lock = place.document(), place.lock()
    except AccessDenied as error:
        if stack != NETWORK_STACK:
            raise
        raise TerradaskError("it is for those who apply the network") from error
    if document is None and lock is None:
        return None
    return {
        "place": place.name,
        "lock": None if lock is None else asdict(lock),
        "state": None if document is None else state_facts(document),
    }


def state_facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state's addresses, types, ids and conditions, and none of its other values."""
    return {
        **{key: document.get(key) for key in ("serial", "lineage", "terraform_version")},
        "outputs": sorted(document.get("outputs") or {}),
        "resources": [
            {
                "address": _address(resource, instance),
                "id": (instance.get("attributes") or {}).get("id"),
                **{key: instance[key] for key in ("status", "deposed") if key in instance},
            }
            for resource in document.get("resources") or ()
            for instance in resource.get("instances") or ()
        ],
    }


def _address(resource: Mapping[str, Any], instance: Mapping[str, Any]) -> str:
    data = "data" if resource.get("mode") == "data" else None
    named = (resource.get("module"), data, resource.get("type"), resource.get("name"))
    key = instance.get("index_key")
    index = "" if key is None else f"[{key!r}]"
    return ".".join(str(each) for each in named if each) + index
