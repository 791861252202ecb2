"""The state of a workspace's network: its place, its bucket, and its owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from terradask._common.progress import Message, Progress, Warned
from terradask._terraform.program import TERRAFORM, Program
from terradask._terraform.state.bucket import (
    check_state_bucket,
    make_state_bucket,
    unversioned,
)
from terradask._terraform.state.model import StateInfo, check_writer
from terradask._terraform.state.s3 import S3Backend, encrypted_with
from terradask.errors import AccessDenied, BackendMissing, InvalidInput, StateConflict
from terradask_modules.names import TAG_WORKSPACE, network_state_key

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_stacks.loading import LoadedSettings


class NetworkState:
    """The state of a workspace's network, in the bucket of the settings."""

    def __init__(self, loaded: LoadedSettings, aws: Aws, *, progress: Progress) -> None:
        self._loaded = loaded
        self._settings = loaded.settings
        self._aws = aws
        self._progress = progress

    def place(self) -> S3Backend:
        """Return its place."""
        state, workspace, account = (
            self._settings.state,
            self._settings.workspace,
            self._aws.account_id,
        )
        return S3Backend(
            self._aws,
            state.bucket_for(account, workspace.region),
            network_state_key(workspace.name),
            owner=state.owner_for(account),
            encryption=encrypted_with(state.kms_key_arn),
        )

    def prepare(self, program: Program = TERRAFORM) -> None:
        """Ensure that the bucket exists, and refuse a state of another network, or one that the
        program can't continue, before the program reads it.

        A missing bucket is created unless the settings name it, since the name may be a mistake.

        Raises `StateConflict`, `BackendMissing`, `AwsError`, `AccessDenied`, `InvalidInput`.
        """
        check_state_key(self._loaded, self._aws.account_id)
        place = self.place()
        self._refuse_file(place)
        self._see_to_bucket(place.bucket)
        self._refuse_foreign(place, program)

    def make_bucket(self) -> bool:
        """Create the bucket, or check its settings (`make_state_bucket`); return whether it was
        created.
        """
        check_state_key(self._loaded, self._aws.account_id)
        return self._make_bucket()

    # ---- inside ----------------------------------------------------------------------------------

    def _make_bucket(self) -> bool:
        state, account = self._settings.state, self._aws.account_id
        return make_state_bucket(
            self._aws,
            state.bucket_for(account, self._aws.region),
            tags=self._settings.workspace.tags,
            kms_key_arn=state.kms_key_arn,
            owner=state.owner_for(account),
            own_name=state.bucket is None,
            warn=self._warn,
        )

    def _warn(self, text: str) -> None:
        self._progress(Warned(text))

    def _see_to_bucket(self, bucket: str) -> None:
        own_name, missing = self._settings.state.bucket is None, None
        try:
            # Versioning is the last step: without it, the creation was interrupted.
            if check_state_bucket(self._aws, bucket, own_name=own_name):
                return
        except BackendMissing as error:
            if not own_name:
                raise
            missing = error
        if own_name:
            try:
                if self._make_bucket():
                    self._progress(Message(f"created bucket {bucket} for the network's state"))
                return
            except AccessDenied as denied:
                if missing is not None:
                    raise missing from denied
        self._warn(unversioned(bucket))

    def _refuse_file(self, place: S3Backend) -> None:
        """Refuse a network's state in a file, which Terraform wouldn't read."""
        path = self._loaded.state_dir / "state" / "network.tfstate"
        if path.exists():
            raise StateConflict(
                "the network's state is in a file, and terradask keeps it in S3",
                given=path,
                allowed=place.name,
                advice=f"if it is this network's: aws s3 cp {path} {place.name}; then, or if it "
                f"isn't: rm {path}",
            )

    def _refuse_foreign(self, place: S3Backend, program: Program) -> None:
        """Refuse a state of another network (a shared bucket, or a wrong setting), or one that the
        program can't continue.
        """
        document = place.document()
        if document is None or not StateInfo.from_json(document).ids:
            return
        check_writer(document, program, place.name, self._warn)
        mine = {
            "account": self._aws.account_id,
            "region": self._aws.region,
            "workspace": self._settings.workspace.name,
        }
        theirs = owners_of(document)
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
                advice="check workspace.name, workspace.region, state.bucket and the AWS account; "
                "workspaces that share a bucket need different names",
            )


def owners_of(document: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the ``account``, ``region`` and ``workspace`` in a state's resources."""
    owners: dict[str, set[str]] = {"account": set(), "region": set(), "workspace": set()}
    for resource in document.get("resources", ()):
        for instance in resource.get("instances", ()) if resource.get("mode") == "managed" else ():
            attributes = instance.get("attributes") or {}
            # arn:partition:service:region:account:…; global parts are left out.
            arn = [*str(attributes.get("arn") or "").split(":"), *[""] * 5]
            owners["region"] |= {arn[3]} - {""}
            owners["account"] |= {arn[4]} - {""}
            owners["workspace"] |= {
                str((attributes.get("tags") or {}).get(TAG_WORKSPACE) or "")
            } - {""}
    return owners


def check_state_key(loaded: LoadedSettings, account: str) -> None:
    """Refuse a key of another account that only the settings file names: the key's owner could make
    the state unreadable. Raises `InvalidInput`.
    """
    state = loaded.settings.state
    if state.kms_key_arn is None or not loaded.is_of_file("state.kms_key_arn"):
        return
    trusted = {account, state.owner_for(account)}
    if state.kms_key_arn.split(":")[4] in trusted:
        return
    raise InvalidInput(
        "the key for the network's state belongs to another AWS account: its owner could make the "
        "state unreadable",
        given=f"state.kms_key_arn, {state.kms_key_arn}",
        allowed=f"a key of account {' or '.join(sorted(trusted))}",
        advice="if you don't know the other account: leave out state.kms_key_arn in "
        "terradask.toml; if it is your team's: set TERRADASK_STATE__KMS_KEY_ARN to this ARN",
    )
