"""Evaluate a team's own rules in Rego, ``deny`` and ``warn`` as in Conftest, on the plan."""

from __future__ import annotations

import base64
import importlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terradask._policy.findings import PolicyFinding, Severity
from terradask._policy.scrubbing import Scrubber
from terradask.errors import RegoMissing, RuleError

_PACKAGE = re.compile(
    r"^\s*package\s+([A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\"[^\"\]]+\"\])*)", re.MULTILINE
)
_RULE = re.compile(r"^(deny|violation|warn)(_\w+)?$")
_ANY_RULE = re.compile(r"^\s*(deny|violation|warn)(_\w+)?\b", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n\"`]*$", re.MULTILINE)
#: Returns this process's environment, with its credentials; rules over a plan don't need it.
_RUNTIME = re.compile(r"\bopa\s*\.\s*runtime\b")
_SEVERITIES: dict[str, Severity] = {"deny": "error", "violation": "error", "warn": "warning"}
_PARTS = ("msg", "address", "id", "advice")

_EXPORT_PACKAGE = "terradask_export"
#: regopy returns strings with quotes as invalid JSON; base64 avoids that.
_EXPORT = f"""package {_EXPORT_PACKAGE}
import rego.v1
text(value) := base64.encode(value) if is_string(value)
text(value) := base64.encode(sprintf("%v", [value])) if not is_string(value)
shape(value) := {{"msg": text(value)}} if not is_object(value)
parts := ["{'", "'.join(_PARTS)}"]
shape(value) := {{part: text(value[part]) | some part in parts; value[part]}} if is_object(value)
"""
_ERROR = re.compile(
    r"\(error\s+(?:\d+:(?P<file>[^|()]+)\|(?P<offset>\d+)\|\d+)?\s*\(errormsg "
    r"\d+:(?P<text>.*?)\)\n",
    re.DOTALL,
)


@dataclass(frozen=True)
class _Module:
    name: str
    text: str
    package: str


def rego_findings(document: Mapping[str, Any], folder: Path) -> tuple[PolicyFinding, ...]:
    """Return the violations of a team's rules. Raises `RegoMissing`, `RuleError`."""
    modules = _modules(folder)
    rules = _Rules(modules, document)
    found = []
    for package in sorted({module.package for module in modules}):
        for rule in rules.names(package):
            found += [_finding(package, rule, entry) for entry in rules.entries(package, rule)]
    return tuple(found)


# ---- the folder ----------------------------------------------------------------------------------


def _modules(folder: Path) -> list[_Module]:
    if not folder.is_dir():
        raise RuleError(
            "the folder with Rego rules doesn't exist",
            given=str(folder),
            advice="create it, or correct policy.rego_folder",
        )
    paths = sorted(path for path in folder.rglob("*.rego") if not path.name.endswith("_test.rego"))
    modules = [_module(path, path.relative_to(folder).as_posix()) for path in paths]
    if not any(_ANY_RULE.search(module.text) for module in modules):
        raise RuleError(
            "the folder has no Rego rules"
            if not modules
            else "no rule in the folder is named deny or warn",
            given=str(folder),
            allowed="files named *.rego with rules such as: deny contains msg if { … }",
            advice="add rules, or leave policy.rego_folder out",
        )
    return modules


def _module(path: Path, name: str) -> _Module:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(
            "the file can't be read as UTF-8 text", file=str(path), given=type(error).__name__
        ) from error
    bare = _COMMENT.sub("", text)
    package = _PACKAGE.search(bare)
    if package is None:
        raise RuleError(
            "the file names no package",
            file=str(path),
            allowed="a first line such as: package main",
        )
    runtime = _RUNTIME.search(text)
    if runtime is not None:
        raise RuleError(
            "rules may not read this machine's environment (opa.runtime)",
            file=str(path),
            line=_line(text, runtime.start()),
            allowed="rules over input, the plan",
        )
    return _Module(name=name, text=text, package=package.group(1))


# ---- their evaluation ----------------------------------------------------------------------------


class _Rules:
    """The rules of a folder, ready for evaluation."""

    def __init__(self, modules: Sequence[_Module], document: Mapping[str, Any]) -> None:
        try:
            regopy = importlib.import_module("regopy")
        except ImportError as error:
            raise RegoMissing() from error
        self._error_class = regopy.RegoError
        self._modules = {module.name: module for module in modules}
        self._document = document
        self._interpreter = regopy.Interpreter()
        # Its output would contain the plan's values.
        self._interpreter.log_level = regopy.LogLevel.NONE
        # As JSON text: regopy compares quoted strings only if both sides are parsed.
        self._interpreter.set_input_term(json.dumps(document, ensure_ascii=False))
        self._interpreter.add_module(f"{_EXPORT_PACKAGE}.rego", _EXPORT)
        for module in modules:
            self._guarded(lambda each=module: self._interpreter.add_module(each.name, each.text))

    def names(self, package: str) -> list[str]:
        """Return the names of a package's rules that have results for this plan."""
        keys = self._evaluate(f"[base64.encode(key) | data.{package}[key]]")
        return sorted(name for name in set(map(_decoded, keys)) if _RULE.match(name))

    def entries(self, package: str, rule: str) -> list[dict[str, str]]:
        """Return a rule's results: the parts of each message."""
        where = f"data.{package}.{rule}"
        for query in (
            # A set or list of messages; a map of them, as in older Rego; a single one.
            (
                f"[data.{_EXPORT_PACKAGE}.shape(entry) | some entry in {where}; not "
                f"is_object({where})]"
            ),
            (
                f"[data.{_EXPORT_PACKAGE}.shape(key) | {where}[key]; is_object({where}); not "
                f"{where}.msg]"
            ),
            f"[data.{_EXPORT_PACKAGE}.shape({where}) | is_object({where}); {where}.msg]",
            f"[data.{_EXPORT_PACKAGE}.shape({where}) | is_string({where})]",
            f'[data.{_EXPORT_PACKAGE}.shape("{rule} holds") | {where} == true]',
        ):
            found = self._evaluate(query)
            if found:
                return [{part: _decoded(text) for part, text in entry.items()} for entry in found]
        return []

    def _evaluate(self, query: str) -> list[Any]:
        output = self._guarded(lambda: self._interpreter.query(query))
        if not output.ok():
            raise RuleError(
                "a rule can't be evaluated: two of its definitions contradict each other",
                given=query if _EXPORT_PACKAGE not in query else ", ".join(self._modules),
                advice="write rules as: deny contains msg if { … }",
            )
        expressions = output.results[0].expressions if output.results else []
        return expressions[0] if expressions and isinstance(expressions[0], list) else []

    def _guarded(self, work: Any) -> Any:
        try:
            return work()
        except self._error_class as error:
            raise self._explained(str(error)) from None
        except json.JSONDecodeError as error:
            # regopy returns an evaluation error as a result.
            raise self._explained(error.doc) from None

    def _explained(self, text: str) -> RuleError:
        """Return only the error's message: its context repeats the plan."""
        found = _ERROR.search(text)
        if found is None:
            return RuleError("a rule can't be evaluated", given=", ".join(self._modules))
        module = self._modules.get(found["file"] or "")
        why = Scrubber(self._document).text(found["text"])
        return RuleError(
            f"a rule can't be read: {why}" if module else f"a rule can't be evaluated: {why}",
            file=module.name if module else "",
            line=_line(module.text, int(found["offset"])) if module else None,
            advice="correct the rule; terradask reads Rego as of import rego.v1",
        )


def _finding(package: str, rule: str, entry: Mapping[str, str]) -> PolicyFinding:
    severity = next(severity for name, severity in _SEVERITIES.items() if rule.startswith(name))
    return PolicyFinding(
        check=f"{package}.{entry.get('id') or rule}",
        severity=severity,
        address=entry.get("address", ""),
        message=entry.get("msg") or f"{rule} is violated, without a message",
        advice=entry.get("advice"),
    )


def _decoded(text: str) -> str:
    """Return a string without the JSON escapes that regopy keeps."""
    raw = base64.b64decode(text).decode("utf-8", errors="replace")
    try:
        plain = json.loads(f'"{raw}"', strict=False)
    except ValueError:
        return raw
    return str(plain)


def _line(text: str, offset: int) -> int:
    return text.encode()[:offset].count(b"\n") + 1
