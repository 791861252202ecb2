"""Where the network's state lies, and its move when the settings say another place.

The copy is ours, byte for byte, and not ``terraform init -migrate-state -force-copy``: that one
overwrites whatever the other side has, and needs a folder that was initialised for the old place.
It takes the locks that Terraform takes, and writes on condition.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from terradask._common.json_text import read_object
from terradask._common.progress import Message, Progress, Warned
from terradask._terraform.state.backend import FoundState, LockWait
from terradask._terraform.state.bucket import check_state_bucket
from terradask._terraform.state.key_owner import check_state_key
from terradask._terraform.state.local import LocalBackend
from terradask._terraform.state.s3 import S3Backend, StateBackend, encrypted_with
from terradask.errors import StateConflict, TerraformError
from terradask_modules.names import TAG_WORKSPACE
from terradask_stacks.files import write_whole
from terradask_stacks.loading import STATE_DIR_VARIABLE
from terradask_stacks.lock import read_lock
from terradask_stacks.settings.state import network_state_key

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._terraform.folder_lock import FolderLock
    from terradask._terraform.state.lock_info import LockInfo
    from terradask_stacks.loading import LoadedSettings

Step = Literal["nothing", "copy", "set aside"]


class NetworkState:
    """The state of a workspace's network: the place that the settings name, and those where it lay
    before.

    A machine remembers an S3 place in ``state/network.place.json`` of its state folder; without
    that, nothing shows where a state was before the settings changed to another one.
    """

    def __init__(
        self,
        loaded: LoadedSettings,
        aws: Aws,
        *,
        progress: Progress,
        on_unlock: Callable[[S3Backend, LockInfo, str], None],
    ) -> None:
        self._loaded = loaded
        self._settings = loaded.settings
        self._aws = aws
        self._progress = progress
        self._on_unlock = on_unlock
        self._local = _local_place(loaded)
        self._note = loaded.state_dir / "state" / "network.place.json"

    def place(self, account: str | None = None) -> StateBackend:
        """Return the place that the settings name."""
        state, workspace = self._settings.state, self._settings.workspace
        if state.backend == "local":
            return self._local
        account = account or self._aws.account_id
        return S3Backend(
            self._aws,
            state.bucket_for(account, workspace.region),
            network_state_key(workspace.name),
            owner=state.owner_for(account),
            encryption=encrypted_with(state.kms_key_arn),
        )

    def settle(self, folder_lock: FolderLock, *, folder: Path) -> None:
        """Move the state to where the settings say, where it lies elsewhere; interrupted at any
        point, the next call goes on.

        Raises `StateConflict`, `StateLocked`, `BackendMissing`, `AccessDenied`, `InvalidInput`.
        """
        place = self.place()
        if isinstance(place, S3Backend):
            check_state_key(self._loaded, self._aws.account_id)
            check_state_bucket(
                self._aws,
                place.bucket,
                own_name=self._settings.state.bucket is None,
                warn=lambda text: self._progress(Warned(text)),
            )
        self._refuse_foreign(place, place.read())
        waiting = LockWait(
            folder,
            folder_lock.killed,
            self._settings.state.lock_timeout_seconds,
            self._message,
            self._on_unlock,
        )
        sources = (
            list(self._elsewhere(place, self._aws.account_id)) if self._may_be_elsewhere else []
        )
        for source in sources:
            if isinstance(source, S3Backend):
                check_state_bucket(self._aws, source.bucket, own_name=False, warn=lambda text: None)
        for each in [place, *sources]:
            if isinstance(each, S3Backend) and waiting.killed:
                # A move that was killed after its work was done, and before it gave its locks back.
                each.release_killed(waiting)
        for source in sources:
            found = source.read()
            if found is not None:
                self._refuse_foreign(source, found)
                with folder_lock.holding("the move of the state"):
                    self._move(source, place, waiting)
        self._remember(place, lambda: self._aws.account_id)

    def refuse_unmoved(self) -> None:
        """Refuse to go on while a state lies elsewhere than set. Raises `StateConflict`."""
        if not self._may_be_elsewhere:
            return
        # As the configuration is made from: the app runs without credentials, too.
        locked = read_lock(self._loaded.lock_path).network
        account = self._aws.account_id if locked is None else locked.account
        place = self.place(account)
        for source in self._elsewhere(place, account):
            found = source.read()
            if found is not None and found.info.ids:
                raise StateConflict(
                    f"the network's state is in {source.name}, but the settings name {place.name}",
                    given=f"{len(found.info.ids)} resources, serial {found.info.serial}",
                    advice="move it first: terradask plan network; or restore the former [state]",
                )
        self._remember(place, lambda: account)

    def _message(self, text: str) -> None:
        self._progress(Message(text))

    # ---- inside ----------------------------------------------------------------------------------

    @property
    def _may_be_elsewhere(self) -> bool:
        # A local state, and never one in S3: AWS isn't asked.
        return self._settings.state.backend != "local" or self._note.exists()

    def _elsewhere(self, place: StateBackend, account: str) -> Iterator[StateBackend]:
        """Return where else the state of this network may lie."""
        if place is not self._local:
            yield self._local
        key = network_state_key(self._settings.workspace.name)
        note = read_object(self._note)
        bucket = note.get("bucket")
        # The place of another workspace, account or region isn't where this network's state was.
        if (note.get("account"), note.get("region"), note.get("key")) == (
            account,
            self._aws.region,
            key,
        ) and (isinstance(bucket, str) and bucket != getattr(place, "bucket", None)):
            yield S3Backend(
                self._aws,
                bucket,
                key,
                owner=self._owner_of(note),
                encryption=encrypted_with(self._settings.state.kms_key_arn),
            )

    def _owner_of(self, note: Mapping[str, Any]) -> str:
        """Return the account that must have a bucket of which a note says whose it was. A
        repository can bring such a note along.
        """
        mine = self._aws.account_id
        trusted = self._settings.state.bucket_owner
        return trusted if trusted is not None and note.get("owner") == trusted else mine

    def _remember(self, place: StateBackend, account: Callable[[], str]) -> None:
        if not isinstance(place, S3Backend):
            if read_object(self._note).get("key") == network_state_key(
                self._settings.workspace.name
            ):
                self._note.unlink()
            return
        note = {
            "account": account(),
            "region": self._aws.region,
            "bucket": place.bucket,
            "owner": self._settings.state.owner_for(account()),
            "key": place.key,
        }
        if read_object(self._note) == note:
            return
        text = json.dumps(note)
        self._note.parent.mkdir(parents=True, exist_ok=True)
        # In one step: a half note would be none.
        write_whole(self._note, text, mode=0o644)

    def _move(self, source: StateBackend, target: StateBackend, waiting: LockWait) -> None:
        with source.held(waiting), target.held(waiting):
            found, present = source.read(), target.read()
            step = next_step(found, present, source=source.name, target=target.name)
            if found is None or step == "nothing":
                return
            if step == "copy":
                self._message(
                    f"moving the network's state (serial {found.info.serial}) from {source.name} "
                    f"to {target.name}"
                )
                target.write(found.content, over=present)
                _check_copy(found, target)
            aside = source.set_aside()
            self._message(
                f"the network's state is now in {target.name}; what was in {source.name} is kept "
                f"as {aside}"
            )

    def _refuse_foreign(self, place: StateBackend, found: FoundState | None) -> None:
        """Refuse another network's state: a shared bucket, or a setting changed by mistake."""
        if found is None or not found.info.ids:
            return
        mine = {
            "account": self._aws.account_id,
            "region": self._aws.region,
            "workspace": self._settings.workspace.name,
        }
        theirs = owners_of(json.loads(found.content))
        wrong = [what for what, names in theirs.items() if names and mine[what] not in names]
        if wrong:
            raise StateConflict(
                f"{place.name} is the state of another network",
                given="; ".join(
                    (
                        f"its resources are of {what} {', '.join(sorted(theirs[what]))}, this is "
                        f"{mine[what]}"
                    )
                    for what in wrong
                ),
                advice=_advice(place),
            )


def _advice(place: StateBackend) -> str:
    if isinstance(place, S3Backend):
        return (
            "check workspace.name, workspace.region, state.bucket and the AWS account; workspaces "
            "that share a bucket need different names"
        )
    shared = (
        f"{STATE_DIR_VARIABLE}, which `terradask sim start` sets too, is the folder of one "
        "workspace: unset it, or set another for each further one"
        if os.environ.get(STATE_DIR_VARIABLE)
        else "a folder of settings is one workspace's: make another for each further one"
    )
    return (
        "check workspace.name, workspace.region and the AWS account: as they were, `terradask "
        f"destroy network` removes the other network. {shared}"
    )


def lies_here(loaded: LoadedSettings) -> bool:
    """Return whether the state of a deployed network lies on this machine."""
    found = _local_place(loaded).read()
    return found is not None and bool(found.info.ids)


def _local_place(loaded: LoadedSettings) -> LocalBackend:
    return LocalBackend(loaded.state_dir / "state" / "network.tfstate")


def next_step(
    found: FoundState | None, present: FoundState | None, *, source: str, target: str
) -> Step:
    """Return what is to be done with a state that lies elsewhere. Raises `StateConflict`."""
    if found is None:
        return "nothing"
    if present is None:
        return "copy"
    old, new = found.info, present.info
    if found.content == present.content or not old.ids:
        return "set aside"
    if old.lineage == new.lineage and old.serial > new.serial:
        return "copy"
    if old.lineage != new.lineage and not new.ids:
        return "copy"
    if old.lineage != new.lineage:
        problem = "this network has two states of different lineages"
    elif old.serial == new.serial:
        problem = "this network has two states of the same serial, and they differ"
    else:
        problem = "the network's state at its new place is newer than the one at its old place"
    raise StateConflict(
        problem,
        given=f"{source}: serial {old.serial}, lineage {old.lineage}, {len(old.ids)} resources; "
        f"{target}: serial {new.serial}, lineage {new.lineage}, {len(new.ids)} resources",
        advice=(
            "nothing was changed. Find out which one is right and set the other aside: rename "
            f"{source} to keep {target}, or the reverse"
        ),
    )


def owners_of(document: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return a state's ``account``, ``region`` and ``workspace``, as its resources name them."""
    owners: dict[str, set[str]] = {"account": set(), "region": set(), "workspace": set()}
    for resource in document.get("resources", ()):
        for instance in resource.get("instances", ()) if resource.get("mode") == "managed" else ():
            attributes = instance.get("attributes") or {}
            # arn:partition:service:region:account:…, without what is global.
            arn = [*str(attributes.get("arn") or "").split(":"), *[""] * 5]
            owners["region"] |= {arn[3]} - {""}
            owners["account"] |= {arn[4]} - {""}
            owners["workspace"] |= {
                str((attributes.get("tags") or {}).get(TAG_WORKSPACE) or "")
            } - {""}
    return owners


def _check_copy(found: FoundState, target: StateBackend) -> None:
    written = target.read()
    if written is None or written.content != found.content:
        raise TerraformError(
            ("the state was copied, but the copy differs; the state at its old place is unchanged"),
            verb="state",
            given=target.name,
            advice="run the command again",
        )
