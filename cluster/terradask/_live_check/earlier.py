"""What checks have left that were killed: found by their records and by tag, and removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from terradask._aws.listing import listed_zones
from terradask._common.progress import Progress
from terradask._live_check.place import SmokeWorkspace, base_folder
from terradask._live_check.removal import Removal, left_by_tag
from terradask._live_check.smoke_settings import smoke_settings
from terradask._live_check.steps import Notes, Step
from terradask_stacks.settings.hardware import DEFAULT_INSTANCE_TYPES

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace


@dataclass(frozen=True)
class EarlierChecks:
    """Removes them before anything else: they may stand in the way, as VPCs do of a quota."""

    workspace: Workspace
    progress: Progress

    def step(self) -> Step:
        """Return the step."""
        return Step("earlier", "what earlier checks have left is removed", self._remove)

    def _remove(self, notes: Notes) -> str | None:
        aws, base = self.workspace.aws, base_folder()
        here = (aws.account_id, aws.region)
        found = [*SmokeWorkspace.left(base), *left_by_tag(aws, base)]
        mine = [one for one in found if (one.record.account, one.record.region) == here]
        if not mine:
            return "nothing is left"
        notes.facts["removed"] = [one.name for one in mine]
        for place in mine:
            if not place.has_settings:
                self._write_settings(place)
            taken = place.taken_over()
            with taken.alone():
                loaded = type(self.workspace).load(taken.folder, progress=self.progress)
                for step in Removal(taken, loaded).steps():
                    step.run(notes)
        return None

    def _write_settings(self, place: SmokeWorkspace) -> None:
        """Write settings with which all of it is found, of a check on another machine."""
        zones = listed_zones(self.workspace.aws.client("ec2"))
        settings = smoke_settings(
            self.workspace.settings,
            place.name,
            until=place.record.until,
            zone=zones[0],
            # Types and disks are those of hosts to come.
            types=list(DEFAULT_INSTANCE_TYPES),
        )
        place.write_settings(settings)
