"""``Stack``: run Terraform in a synthesised stack's folder (init, plan, apply, destroy)."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from terradask._common.clock import utc_text
from terradask._common.masking import masked_text
from terradask._common.progress import Message, phase
from terradask._plans.basis import (
    PLAN_LIFETIME,
    PlanArchive,
    PlanBasis,
    configuration_sha256,
    provider_version,
)
from terradask._plans.saved import Plan
from terradask._plans.summary import PlanSummary, summarise
from terradask._terraform.events import PlanFile, ResourceProgress
from terradask._terraform.folder_contents import IMPORTS
from terradask._terraform.terraform import Terraform
from terradask.errors import StalePlan, StateConflict, TerraformError
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.version import terradask_version

if TYPE_CHECKING:
    from terradask._workspace.context import WorkspaceContext
    from terradask._workspace.states import StackStates

#: Most attempts at a plan that starts from the existing state.
_ATTEMPTS = 6


class Stack:
    """A synthesised stack in its folder."""

    def __init__(self, name: str, context: WorkspaceContext, states: StackStates) -> None:
        self.name = name
        self.folder = context.folder(name)
        self._context = context
        self._progress = context.progress
        self._states = states
        self._check = None if name == NETWORK_STACK else states.check(name)
        self.terraform = Terraform(
            self.folder,
            credentials=context.aws.variables,
            before_init=self.check_state,
            on_event=ResourceProgress(context.progress, name),
            on_wait=context.message,
            break_lock=partial(states.break_lock, name),
            find_lock=partial(states.find_lock, name),
            give_back=partial(states.give_back, name),
            state_lock_seconds=context.settings.state.lock_timeout_seconds,
        )

    def init(self) -> None:
        """Check the state, and initialise the folder if necessary. Raises `ForeignResources`."""
        with phase(self._progress, "init", self.name), _without_secrets():
            if not self.terraform.init():
                self.check_state()

    def check_state(self) -> None:
        """Refuse a state with resources of others. Raises `ForeignResources`."""
        if self._check is not None:
            self._check.stored(self.terraform.program)

    def ids(self) -> Mapping[str, str]:
        """Return the ids in the state: address -> id."""
        state = self._states.state(self.name)
        return {} if state is None else state.ids

    def plan(
        self,
        *,
        destroy: bool,
        out: str | os.PathLike[str] | None = None,
        imports: Mapping[str, str] = MappingProxyType({}),
        expected: bytes | None = None,
    ) -> Plan:
        """Plan, and keep the plan's file until its apply, at most for a day. ``expected`` is the
        synthesised configuration.
        """
        self._remove_old_plans()
        with phase(self._progress, "plan", self.name), self._importing(imports), _without_secrets():
            plan_file = self._planned(destroy=destroy)
        plan = Plan(
            folder=self.folder,
            plan_file=plan_file,
            basis=self._basis(plan_file, destroy=destroy),
            show=self.show,
            expected=expected,
        )
        if out is not None:
            plan.save(out)
        return plan

    def drift(self) -> PlanSummary:
        """Return the changes outside Terraform: a summary with ``drift`` only."""
        self._remove_old_plans()
        file = self._new_file()
        try:
            with (
                phase(self._progress, "refresh", self.name),
                self._importing({}),
                _without_secrets(),
            ):
                plan_file = self.terraform.plan(file, refresh_only=True)
            return summarise(self.show(plan_file), stack=self.name, plan_hash=plan_file.sha256)
        finally:
            file.unlink(missing_ok=True)

    def apply(self, plan: Plan) -> None:
        """Apply exactly this plan, then remove its file."""
        with (
            phase(self._progress, "destroy" if plan.destroy else "apply", self.name),
            _without_secrets(),
        ):
            if self._missed_state(plan.plan_file.path):
                raise StalePlan(
                    "the state has changed since this plan was made",
                    verb="apply",
                    folder=str(self.folder),
                    advice="plan again, review the new plan, and apply it",
                )
            self._check_planned(plan.plan_file.path)
            self._apply(plan.plan_file)
        plan.remove()

    def destroy(self, *, refresh: bool) -> None:
        """Destroy everything in the state."""
        with phase(self._progress, "destroy", self.name), self._importing({}), _without_secrets():
            if self._check is None:
                self.terraform.destroy(refresh=refresh)
            else:
                self._destroy_checked(refresh=refresh)

    def _destroy_checked(self, *, refresh: bool) -> None:
        """Destroy by a checked plan: the state may be rewritten at any moment."""
        plan_file = self._planned(destroy=True, refresh=refresh)
        try:
            self._apply(plan_file)
        finally:
            plan_file.path.unlink(missing_ok=True)

    def _apply(self, plan_file: PlanFile) -> None:
        """Apply a plan; retry if Terraform calls it stale because it has missed the state."""
        for left in reversed(range(_ATTEMPTS)):
            try:
                self.terraform.apply(plan_file)
                return
            except StalePlan:
                planned = PlanArchive.read(plan_file.path).state
                if not left or not planned.lineage or self._states.version(self.name) != planned:
                    raise
                self._progress(Message("Terraform found no state, though one exists: trying again"))

    def _planned(self, **options: bool) -> PlanFile:
        """Plan from the state, and check the plan; retry if Terraform has missed the state."""
        for left in reversed(range(_ATTEMPTS)):
            plan_file = self.terraform.plan(self._new_file(), **options)
            try:
                if not self._missed_state(plan_file.path):
                    self._check_planned(plan_file.path)
                    return plan_file
            except BaseException:
                plan_file.path.unlink(missing_ok=True)
                raise
            plan_file.path.unlink(missing_ok=True)
            if left:
                self._progress(Message("Terraform found no state, though one exists: trying again"))
        raise StateConflict(
            f"Terraform found no state of {self.name}, though there is one: nothing was changed",
            verb="plan",
            folder=str(self.folder),
            advice="try again: S3 may miss objects for 15 minutes after their bucket was made",
        )

    def _missed_state(self, path: Path) -> bool:
        """Return whether a plan starts without the existing state: S3 may miss objects of a young
        bucket, which Terraform takes for absence.
        """
        if PlanArchive.read(path).state.lineage:
            return False
        return bool(self._states.version(self.name).lineage)

    def _check_planned(self, path: Path) -> None:
        if self._check is not None:
            self._check.planned(path, self.terraform.program)

    def remove(self) -> None:
        """Remove the folder and its obsolete plans."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for path in self._context.plans.glob(f"{self.name}--*"):
            path.unlink(missing_ok=True)

    def show(self, plan_file: PlanFile) -> dict[str, Any]:
        """Return a plan's JSON, secrets included."""
        # A folder from another machine may not be initialised, and lack the provider's schema.
        self.terraform.init()
        with phase(self._progress, "show", self.name):
            return self.terraform.show(plan_file)

    def _basis(self, plan_file: PlanFile, *, destroy: bool) -> PlanBasis:
        where, written = self._context.network.where, PlanArchive.read(plan_file.path)
        return PlanBasis(
            stack=self.name,
            destroy=destroy,
            workspace=where.workspace,
            account=where.account,
            region=where.region,
            terradask_version=terradask_version(),
            terraform_version=written.terraform_version,
            provider_version=provider_version(self.folder),
            configuration_sha256=configuration_sha256(self.folder),
            serial=written.state.serial,
            lineage=written.state.lineage,
            planned_at=utc_text(),
            program=self.terraform.program.name,
        )

    @contextlib.contextmanager
    def _importing(self, imports: Mapping[str, str]) -> Iterator[None]:
        """Write these imports for Terraform, and remove those of an interrupted plan."""
        file = self.folder / IMPORTS
        file.unlink(missing_ok=True)
        try:
            if imports:
                blocks = [{"to": address, "id": identity} for address, identity in imports.items()]
                file.write_text(json.dumps({"import": blocks}, indent=1), encoding="utf-8")
            yield
        finally:
            # The plan's file contains them; the configuration must be as synthesised.
            file.unlink(missing_ok=True)

    def _remove_old_plans(self) -> None:
        """Remove expired plans: they contain secrets."""
        oldest = time.time() - PLAN_LIFETIME.total_seconds()
        for path in self._context.plans.glob(f"{self.name}--*"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def _new_file(self) -> Path:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        return self._context.plans / f"{self.name}--{now}-{secrets.token_hex(3)}.tfplan"


@contextlib.contextmanager
def _without_secrets() -> Iterator[None]:
    """Mask secrets in Terraform's errors: AWS's answers repeat the request."""
    try:
        yield
    except TerraformError as error:
        error.problem = masked_text(error.problem)
        error.args = (error.problem, *error.args[1:])
        if isinstance(error.given, str):
            error.given = masked_text(error.given)
        error.diagnostics = tuple(
            replace(d, summary=masked_text(d.summary), detail=masked_text(d.detail))
            for d in error.diagnostics
        )
        raise
