"""A second attempt of an AWS SDK's call is told what the first was told."""

from __future__ import annotations

from terradask_simulator.aws.endpoint.answers import Answer, Replays

DONE = Answer("200 OK", (("Content-Type", "text/xml"),), b"<done/>")


def call(name: str, attempt: int, method: str = "POST") -> dict[str, str]:
    return {
        "REQUEST_METHOD": method,
        "PATH_INFO": "/",
        "HTTP_AMZ_SDK_INVOCATION_ID": name,
        "HTTP_AMZ_SDK_REQUEST": f"ttl=20261120T080000Z; attempt={attempt}; max=25",
    }


def test_a_second_attempt_gets_the_answer_of_the_first() -> None:
    replays = Replays()

    assert replays.missed(call("a", 1)) is None
    replays.note(call("a", 1), DONE)

    assert replays.missed(call("a", 2)) == DONE
    assert replays.missed(call("b", 2)) is None


def test_a_first_attempt_is_never_answered_from_memory() -> None:
    replays = Replays()
    replays.note(call("a", 1), DONE)

    assert replays.missed(call("a", 1)) is None


def test_failures_and_questions_are_asked_anew() -> None:
    replays = Replays()
    replays.note(call("refused", 1), Answer("503 Slow Down", (), b""))
    replays.note(call("read", 1, "GET"), DONE)
    replays.note({"REQUEST_METHOD": "POST"}, DONE)

    assert replays.missed(call("refused", 2)) is None
    assert replays.missed(call("read", 2, "GET")) is None
    assert replays.missed({"REQUEST_METHOD": "POST", "HTTP_AMZ_SDK_REQUEST": "attempt=2"}) is None


def test_old_answers_are_forgotten() -> None:
    replays = Replays()
    for number in range(1000):
        replays.note(call(str(number), 1), DONE)

    assert replays.missed(call("0", 2)) is None
    assert replays.missed(call("999", 2)) == DONE
