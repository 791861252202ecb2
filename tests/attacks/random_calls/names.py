"""Names of resources by kind: those of the account, and those that a policy's resources match."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

#: Where the name stands in an ARN, by kind of resource.
_ARNS = (
    ("object", re.compile(r"arn:aws:s3:::([^/]+/.+)")),
    ("bucket", re.compile(r"arn:aws:s3:::([^/]+)")),
    ("secret", re.compile(r"arn:aws:secretsmanager:[^:]*:[^:]*:secret:(.+?)(?:-\?{6})?")),
    ("group", re.compile(r"arn:aws:autoscaling:.+:autoScalingGroupName/(.+)")),
    ("log stream", re.compile(r"arn:aws:logs:.+:log-group:[^:]+:log-stream:(.+)")),
    ("log group", re.compile(r"arn:aws:logs:.+:log-group:([^:]+)(?::\*)?")),
    ("role", re.compile(r"arn:aws:iam::\d*:role/(.+)")),
    ("instance-profile", re.compile(r"arn:aws:iam::\d*:instance-profile/(.+)")),
    ("policy", re.compile(r"arn:aws:iam::\d*:policy/(.+)")),
    ("key", re.compile(r"arn:aws:kms:.+:key/(.+)")),
    ("parameter", re.compile(r"arn:aws:ssm:.+:parameter(/.+)")),
    ("session document", re.compile(r"arn:aws:ssm:.+:document/(.+)")),
    ("session", re.compile(r"arn:aws:ssm:.+:session/(.+)")),
    ("resource group", re.compile(r"arn:aws:resource-groups:.+:group/(.+)")),
    ("quota", re.compile(r"arn:aws:servicequotas:.+:(\w+)/\*")),
    # Last: EC2's kinds are those of its ARNs.
    ("", re.compile(r"arn:aws:ec2:[^:]*:[^:]*:([a-z-]+)/(.+)")),
)

CLUSTERS = ("etl", "ml", "vault", "mine")
DOCUMENTS = (
    "cluster.json",
    "run.json",
    "scheduler.json",
    "closing.json",
    "environment.json",
    "software.lock",
    "terraform.tfstate",
    "terraform.tfstate.tflock",
    "hosts/i-0123456789abcdef0.json",
    "events/20261120T051500Z-1f3a9c.json",
)
_NEW = {
    "group": [f"{one}-{group}" for one in CLUSTERS for group in ("workers", "scheduler", "gpu")]
    + ["two-etl-workers"],
    "secret": [*CLUSTERS, "etl-x", "../prod"],
    "object": ["i-0123456789abcdef0.json", "../cluster.json", "etl.json", "network.json", "x"],
    "log stream": [f"{one}/i-0123456789abcdef0" for one in CLUSTERS],
    "instance": ["i-0123456789abcdef0"],
    "launch-template": ["lt-0123456789abcdef0"],
    "network-interface": ["eni-0123456789abcdef0"],
    "placement-group id": ["pg-0123456789abcdef0"],
    "resource group": ["reserved"],
    "security-group": ["sg-0123456789abcdef0"],
    "security-group-rule": ["sgr-0123456789abcdef0"],
    "subnet": ["subnet-0123456789abcdef0"],
    "volume": ["vol-0123456789abcdef0"],
    "vpc": ["vpc-0123456789abcdef0"],
}


def kind_of(arn: str) -> tuple[str, str]:
    """Return the kind of the resources that a pattern of a policy matches, and their names' own
    pattern; of ``*`` nothing.

    Raises
    ------
    LookupError
        If it is of a kind without a generator of names: add it to the table above.
    """
    if arn == "*":
        return "", ""
    for kind, pattern in _ARNS:
        found = pattern.fullmatch(arn)
        if found:
            return (kind, found[1]) if kind else (found[1], found[2])
    raise LookupError(arn)


@dataclass(frozen=True)
class Names:
    """What there is in the account, its own and foreign things alike, by kind; and the cluster that
    is attacked.
    """

    there: Mapping[str, Sequence[str]]
    cluster: str = ""

    def drawn(self, kind: str, patterns: Sequence[str], draws: random.Random) -> str:
        """Return one name: of what is there, or one that a right's resources of this kind match."""
        fitting = [name for of, name in map(kind_of, patterns) if of == kind]
        there = list(self.there.get(kind, ()))
        if fitting and (not there or draws.random() < 0.7):
            pattern = draws.choice(fitting)
            matching = [name for name in there if fnmatchcase(name, pattern)]
            return (
                self._one_of(matching, draws)
                if matching and draws.random() < 0.7
                else self._new(kind, pattern, draws)
            )
        return self._one_of(there, draws) if there else self._new(kind, "*", draws)

    def _one_of(self, names: Sequence[str], draws: random.Random) -> str:
        """Return one name: half of the time of the attacked cluster, if it has any."""
        own = [name for name in names if self.cluster in re.split(r"[/.:-]", name)]
        return draws.choice(own if own and draws.random() < 0.5 else names)

    def _new(self, kind: str, pattern: str, draws: random.Random) -> str:
        words = _NEW.get(kind, ["mine", "etl-scheduler", "etl-worker"])

        def word(found: re.Match[str]) -> str:
            before = pattern[: found.start()]
            if kind == "object" and before.endswith("/clusters/"):
                of = draws.choice(CLUSTERS)
                rest = pattern[found.end() :]
                return of if rest else f"{of}/{draws.choice(DOCUMENTS)}"
            return draws.choice(words)

        filled = re.sub(r"\*", word, pattern)
        filled = re.sub(r"\$\{[^}]*\}", "AROAEXAMPLE:etl", filled)
        return re.sub(r"\?", lambda _: draws.choice(string.ascii_letters), filled)
