"""What a signature of a request covers."""

import pytest

from terradask_simulator.aws.endpoint.signatures import _encoded


# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html: each
# name and value is encoded, but for unreserved characters.
@pytest.mark.parametrize(
    ("sent", "signed"),
    [
        ("delimiter=/", "delimiter=%2F"),
        ("delimiter=%2F", "delimiter=%2F"),
        ("prefix=", "prefix="),
        ("acl", "acl="),
        ("prefix=a%20b~c-d_e.f", "prefix=a%20b~c-d_e.f"),
        ("key=a=b", "key=a%3Db"),
        ("prefix=%C3%A9", "prefix=%C3%A9"),
    ],
)
def test_parameters_are_signed_encoded_however_they_are_sent(sent, signed):
    assert _encoded(sent) == signed
