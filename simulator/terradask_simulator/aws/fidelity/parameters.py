"""Answer to calls about parameters of Systems Manager under the names that were asked for.

AWS (recorded): Systems Manager names a parameter as the request did, with or without a slash before
it, and refuses paths with empty parts. tests/records/data/ssm.json

moto answers with the name at creation and the bare name of a secret, calls any path unknown, and
fails where one of several secrets doesn't exist.
"""

from __future__ import annotations

from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install"]

_REFERENCED = "/aws/reference/secretsmanager/"


def install() -> None:
    """Replace moto's answers."""
    from moto.ssm.exceptions import ParameterNotFound
    from moto.ssm.models import SimpleSystemManagerBackend
    from moto.ssm.responses import SimpleSystemManagerResponse

    @around(SimpleSystemManagerResponse, "get_parameter")
    def get_parameter(get: Any, response: Any) -> Any:
        name = response._get_param("Name")
        _check_path(name)
        answer = get(response)
        _rename([answer.result["Parameter"]], [name])
        return answer

    @around(SimpleSystemManagerResponse, "get_parameters")
    def get_parameters(get: Any, response: Any) -> Any:
        answer = get(response)
        _rename(answer.result["Parameters"], response._get_param("Names"))
        return answer

    @around(SimpleSystemManagerBackend, "get_parameters")
    def there(get: Any, backend: Any, names: list[str]) -> Any:
        def exists(name: str) -> bool:
            try:
                return name in backend._parameters
            except ParameterNotFound:
                return False

        return get(
            backend, [one for one in names if not one.startswith(_REFERENCED) or exists(one)]
        )


def _check_path(name: str) -> None:
    from moto.ssm.exceptions import ValidationException

    path = "" if name.startswith("arn:") else name.split(":", maxsplit=1)[0]
    if "//" in path or ("/" in path and not path.startswith("/")):
        raise ValidationException(
            'Parameter name: can\'t be prefixed with "ssm" (case-insensitive). '
            "If formed as a path, it can consist of sub-paths divided by slash symbol; each "
            "sub-path can be formed as a mix of letters, numbers and the following 3 symbols .-_"
        )


def _rename(parameters: list[dict[str, Any]], asked: list[str]) -> None:
    names = {_bare(name): name.split(":")[0] for name in asked if not name.startswith("arn:")}
    for one in parameters:
        one["Name"] = names.get(_bare(one["Name"]), one["Name"])


def _bare(name: str) -> str:
    return name.split(":", maxsplit=1)[0].removeprefix(_REFERENCED).removeprefix("/")
