"""Delegate a class's attributes, methods and docstrings to its parts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

from terradask_modules.short_errors import shown_shortly

_Given = ParamSpec("_Given")
_Arguments = TypeVar("_Arguments")
_Documented = TypeVar("_Documented")
_Returned = TypeVar("_Returned")


def kept_by(part: str, name: str) -> Any:
    """Return an attribute whose value a part holds; its annotation is its type."""
    find = attrgetter(part)
    return _Attribute(
        attrgetter(f"{part}.{name}"), lambda owner, value: setattr(find(owner), name, value)
    )


def derived(find: Callable[[Any], Any]) -> Any:
    """Return an attribute that is computed at each read; a base class's assignments do nothing."""
    return _Attribute(find, lambda owner, value: None)


class _Attribute:
    """Unlike a property, it isn't there without an object."""

    def __init__(self, find: Callable[[Any], Any], store: Callable[[Any, Any], None]) -> None:
        self._find = find
        self._store = store

    def __get__(self, owner_object: Any, owner: type) -> Any:
        return self._find(owner_object)

    def __set__(self, owner_object: Any, value: Any) -> None:
        self._store(owner_object, value)


def documented_by(source: Any) -> Callable[[_Documented], _Documented]:
    """Copy the docstring of `source`, for `help` and ``docs/python.md``."""

    def document(target: _Documented) -> _Documented:
        target.__doc__ = source.__doc__
        return target

    return document


def passed_on(
    method: Callable[Concatenate[Any, _Given], Any], part: str, *, reads: bool = False
) -> Callable[Concatenate[Any, _Given], Any]:
    """Return a method that calls a part's method, with its signature and docstring.

    A coroutine runs on the owner's loop, while the owner is usable. With `reads`, the call blocks,
    and works after the end too.
    """
    name, find, shown = method.__name__, attrgetter(part), inspect.signature(method)

    def pass_on(self: Any, /, *args: _Given.args, **kwargs: _Given.kwargs) -> Any:
        shown.bind(self, *args, **kwargs)
        if reads:
            return self._read(partial(getattr(find(self), name), *args, **kwargs))
        self._health.check()
        return self._wait(getattr(find(self), name), *args, **kwargs)

    pass_on.__signature__ = shown.replace(return_annotation="Any")  # type: ignore[attr-defined]
    pass_on.__name__, pass_on.__doc__ = name, method.__doc__
    return pass_on


def in_place_of_base(method: _Documented) -> Callable[[Callable[..., Any]], _Documented]:
    """Return `method` for a stub of its name: an assignment would get the base class's type."""
    return lambda stub: method


def shown_as(
    source: Callable[Concatenate[Any, Any, _Given], Any],
) -> Callable[[Callable[..., _Returned]], Callable[Concatenate[Any, _Given], _Returned]]:
    """Copy docstring and signature of `source`, without its first two parameters."""
    shown = list(inspect.signature(source).parameters.values())[2:]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def show(method: Callable[..., _Returned]) -> Callable[Concatenate[Any, _Given], _Returned]:
        signature = inspect.signature(method).replace(parameters=[own, *shown])

        def checked(self: Any, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Returned:
            signature.bind(self, *args, **kwargs)
            return method(self, *args, **kwargs)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        checked.__name__, checked.__doc__ = method.__name__, source.__doc__
        return checked

    return show


class _Headed(inspect.Parameter):
    """A parameter that IPython shows below the lines of its `heading`, with its type unquoted."""

    heading: tuple[str, ...] = ()

    def __str__(self) -> str:
        kind = "" if self.annotation is self.empty else f": {self.annotation}"
        return "\n    ".join([*self.heading, f"{self.name}{kind} = {self.default!r}"])


def _with_headings(parameters: Iterable[inspect.Parameter], doc: str | None) -> Iterator[_Headed]:
    """Yield parameters, each below the heading that a docstring's list of them has."""
    headings = {
        name: topic for topic, name in re.findall(r"^ *\*\*(.+)\*\*\n\n *(\w+)", doc or "", re.M)
    }
    for each in parameters:
        shown = _Headed(each.name, each.kind, default=each.default, annotation=each.annotation)
        if each.name in headings:
            shown.heading = (f"# {headings[each.name]}",)
        yield shown


class _InLines(inspect.Signature):
    """A signature that `help` shows with a line for each parameter."""

    def __str__(self) -> str:
        return self.format()

    def format(self, **_: Any) -> str:
        """Return the signature as text; from Python 3.13 on, `help` calls this with a width."""
        lines: list[str] = []
        for each in self.parameters.values():
            if each.kind is each.KEYWORD_ONLY and "    *," not in lines:
                lines.append("    *,")
            kind = "" if each.annotation is each.empty else f": {each.annotation}"
            default = "" if each.default is each.empty else f" = {each.default!r}"
            lines.append(f"    {each.name}{kind}{default},")
        return "\n".join(["(", *lines, ")"])


def takes(
    arguments: Callable[_Given, Any], *, examples: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, _Given], None]]:
    """Give a constructor the signature of a dataclass, of which `taken` makes an instance.

    IPython shows the examples first.
    """
    shown = inspect.signature(arguments)

    def decorate(constructor: Callable[..., None]) -> Callable[Concatenate[Any, _Given], None]:
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        headed = [*_with_headings(shown.parameters.values(), arguments.__doc__)]
        headed[0].heading = (*(f"# {each}" for each in examples), *headed[0].heading)
        constructor.__signature__ = _InLines([own, *headed])  # type: ignore[attr-defined]
        return constructor

    return decorate


def taken(
    owner: object,
    arguments: Callable[..., _Arguments],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> _Arguments:
    """Return an instance of the arguments of `owner`'s constructor. Raises `TypeError`."""
    name, shown = type(owner).__name__, inspect.signature(arguments)
    check_known(name, kwargs, shown.parameters)
    try:
        shown.bind(*args, **kwargs)
    except TypeError as error:
        raise shown_shortly(TypeError(f"{name}(): {error}")) from error
    return arguments(*args, **kwargs)


def typed_as(
    arguments: Callable[_Given, Any],
) -> Callable[[Callable[..., _Returned]], Callable[Concatenate[Any, _Given], _Returned]]:
    """Give a method the arguments of a dataclass, for type checkers alone."""
    return lambda method: method


def check_known(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise `TypeError` for an unknown argument of `owner`, with the equivalent or nearest name."""
    from terradask_stacks.findings import nearest

    for name in given:
        if name not in known:
            equivalent, near = _EQUIVALENTS.get(name), nearest(name, known)
            hint = "" if near is None else f"; did you mean {near!r}?"
            hint = hint if equivalent is None else f"; in terradask: {equivalent}"
            text = f"{owner}() got an unexpected keyword argument {name!r}{hint}"
            raise shown_shortly(TypeError(text))


# ---- arguments of other libraries' clusters, and their equivalents -------------------------------


#: Argument -> the equivalent argument, setting or action.
_EQUIVALENTS: Mapping[str, str] = {
    "configuration": "there are no named configurations: give its values as arguments, or declare "
    "the cluster in terradask.toml as [clusters.NAME]",
    "workspace": "the settings name the workspace: workspace.name in terradask.toml, or "
    "TERRADASK_WORKSPACE__NAME",
    "workers": "their number is n_workers, and hosts name them",
    "worker_vm_type": "worker_vm_types",
    "scheduler_vm_type": "scheduler_vm_types",
    "instance_type": "worker_vm_types and scheduler_vm_types",
    "worker_instance_type": "worker_vm_types",
    "scheduler_instance_type": "scheduler_vm_types",
    "cores": "worker_cpu",
    "cpu": "worker_cpu",
    "memory": "worker_memory",
    "gpu": "worker_gpu",
    "minimum": "n_workers=[minimum, maximum], or adapt",
    "maximum": "n_workers=[minimum, maximum], or adapt",
    "docker_image": "container",
    "env_vars": "environ",
    "filesystem_size": "worker_disk_size and scheduler_disk_size",
    "availability_zone": "zone_name",
    "spot": "spot_policy",
    "cluster_timeout": "max_lifetime",
    "package_sync_only": "package_sync, with the list of packages",
    "protocol": "Dask's connections are always by mutual TLS",
    "security": "each run has keys of its own, for mutual TLS",
    "key_name": "allow_ssh opens port 22; network.image may have keys",
    "ami": "the network's image, for all hosts: network.image in terradask.toml",
    "iam_instance_profile": "the network's, for all hosts: network.instance_profiles",
    "vpc": "the network's: network.vpc_id and network.subnets in terradask.toml",
    "subnet_id": "the network's: network.subnets in terradask.toml",
    "security_groups": "the network's: network.security_groups in terradask.toml",
    "host_setup_script": "nothing: name packages in software, or an image as container",
    "extra_bootstrap": "nothing: name packages in software, or an image as container",
    "mount_bucket": "network.mounts in terradask.toml, for all hosts",
}
