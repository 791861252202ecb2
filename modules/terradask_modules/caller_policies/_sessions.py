"""What reaching a scheduler through Session Manager needs."""

from __future__ import annotations

from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.iam import Statement, allow
from terradask_modules.names import SESSION_DOCUMENT, TAG_ROLE, TAG_WORKSPACE


def open_sessions(scope: CallerScope) -> list[Statement]:
    """Return the right to forward ports of this workspace's schedulers, by one document, and to end
    one's own sessions.

    A document is asked for by name, or the default one would give a shell:
    https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-specify-session-document.html.
    A session carries the unique id of who opened it as a tag; its own id begins with a name, which
    several roles' sessions can have:
    https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-restrict-access-examples.html
    """
    if not scope.session_manager:
        return []
    where = scope.where
    schedulers = {
        f"ssm:resourceTag/{TAG_WORKSPACE}": scope.workspace,
        f"ssm:resourceTag/{TAG_ROLE}": "scheduler",
    }
    named = {"BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}}
    document = where.aws_arn("ssm", f"document/{SESSION_DOCUMENT}")
    return [
        allow(
            "OpenSessionsToSchedulers",
            "ssm:StartSession",
            scope.ec2("instance"),
            {"StringEquals": schedulers, **named},
        ),
        allow("ForwardPortsInSessions", "ssm:StartSession", document, named),
        allow(
            "KeepOwnSessions",
            ["ssm:ResumeSession", "ssm:TerminateSession"],
            where.arn("ssm", "session/*"),
            {"StringEquals": {"ssm:resourceTag/aws:ssmmessages:session-id": "${aws:userid}"}},
        ),
    ]
