"""The keys of a run: one authority, a bundle for each role, what each may do, and that nothing
shows them.
"""

import datetime
import json
import socket
import ssl
import threading

import dask
import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from terradask._clusters.certificates import make_keys
from terradask._common.clock import utc_text
from terradask._observe.keys import KeySet
from terradask_host.documents import LifetimePolicy
from terradask_host.rules.lifetime import ends_at, lifetime_end_reason


@pytest.fixture(scope="module")
def keys():
    return make_keys("etl", "20261120T051500Z-abc123")


def _certificate(pem):
    return x509.load_pem_x509_certificate(pem.encode())


def _context(purpose, keys, bundle, folder):
    (folder / "cert").write_text(bundle.cert)
    (folder / "key").write_text(bundle.key)
    context = ssl.create_default_context(purpose, cadata=keys.ca)
    context.load_cert_chain(folder / "cert", folder / "key")
    context.verify_mode = ssl.CERT_REQUIRED
    context.check_hostname = False
    return context


def _handshake(server, client):
    """Shake hands over a socket pair; return the client's error, if any."""
    ours, theirs = socket.socketpair()
    failures = []

    def serve():
        try:
            with server.wrap_socket(theirs, server_side=True) as tls:
                tls.sendall(tls.recv(1))
        except OSError as error:
            failures.append(error)
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours) as tls:
            tls.sendall(b"x")
            tls.settimeout(2)
            tls.recv(1)
    except OSError as error:
        failures.append(error)
    thread.join()
    return failures


@pytest.mark.parametrize("role", ["client", "worker"])
def test_every_role_may_connect_to_the_scheduler(keys, role, tmp_path):
    server = _context(ssl.Purpose.CLIENT_AUTH, keys, keys.scheduler, tmp_path)
    client = _context(ssl.Purpose.SERVER_AUTH, keys, getattr(keys, role), tmp_path)
    assert _handshake(server, client) == []


def test_a_client_can_not_pose_as_a_server(keys, tmp_path):
    server = _context(ssl.Purpose.CLIENT_AUTH, keys, keys.client, tmp_path)
    client = _context(ssl.Purpose.SERVER_AUTH, keys, keys.worker, tmp_path)
    assert _handshake(server, client)


def test_keys_of_another_start_are_refused(keys, tmp_path):
    other = make_keys("etl", "20261120T061500Z-def456")
    server = _context(ssl.Purpose.CLIENT_AUTH, keys, keys.scheduler, tmp_path)
    client = _context(ssl.Purpose.SERVER_AUTH, other, other.client, tmp_path)
    assert _handshake(server, client)


def test_the_authoritys_key_is_nowhere(keys):
    authority = _certificate(keys.ca)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    document = json.dumps(keys.to_document())
    assert document.count("PRIVATE KEY-----\\n") == 2 * 4
    for bundle in (keys.scheduler, keys.worker, keys.client):
        certificate = _certificate(bundle.cert)
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        certificate.verify_directly_issued_by(authority)
        assert certificate.public_key() != authority.public_key()


def test_dasks_ports_refuse_the_certificate_for_metrics(keys, tmp_path):
    server = _context(ssl.Purpose.CLIENT_AUTH, keys, keys.scheduler, tmp_path)
    client = _context(ssl.Purpose.SERVER_AUTH, keys, keys.metrics, tmp_path)
    assert _handshake(server, client)
    basic = _certificate(keys.metrics.cert).extensions.get_extension_for_class(
        x509.BasicConstraints
    )
    assert not basic.value.ca


def test_keys_of_an_older_start_have_none_for_metrics(keys):
    document = keys.to_document()
    del document["metrics"]
    assert KeySet.from_document(document).metrics is None


def test_certificates_live_thirty_days_and_tolerate_clock_skew(keys):
    certificate = _certificate(keys.worker.cert)
    now = datetime.datetime.now(datetime.UTC)
    assert certificate.not_valid_before_utc < now - datetime.timedelta(minutes=4)
    life = certificate.not_valid_after_utc - now
    assert datetime.timedelta(days=29) < life <= datetime.timedelta(days=30)


def test_usages_by_role(keys):
    def usages(bundle):
        return set(
            _certificate(bundle.cert)
            .extensions.get_extension_for_class(x509.ExtendedKeyUsage)
            .value
        )

    both = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert usages(keys.scheduler) == usages(keys.worker) == both
    assert usages(keys.client) == {ExtendedKeyUsageOID.CLIENT_AUTH}


def test_a_document_comes_back_whole_and_a_repr_shows_nothing(keys):
    assert KeySet.from_document(keys.to_document()) == keys
    assert "BEGIN" not in f"{keys!r} {keys.client!r}"


def test_the_clients_security_demands_encryption_and_tls_1_3(keys):
    with dask.config.set(
        {"distributed.comm.tls.max-version": 1.2, "distributed.comm.require-encryption": False}
    ):
        security = keys.client_security()
    assert security.require_encryption
    context = security.get_connection_args("client")["ssl_context"]
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert context.maximum_version == ssl.TLSVersion.MAXIMUM_SUPPORTED


def test_certificates_live_as_long_as_the_run_and_no_longer():
    keys = make_keys("etl", "run", lifetime_days=1 / 24)
    certificates = (each.cert for each in (keys.scheduler, keys.worker, keys.client, keys.metrics))
    for pem in (keys.ca, *certificates):
        left = _certificate(pem).not_valid_after_utc - datetime.datetime.now(datetime.UTC)
        assert datetime.timedelta(minutes=59) < left <= datetime.timedelta(hours=1)


@pytest.mark.parametrize("ahead_seconds", [600, -600, 86_400])
def test_certificates_are_valid_by_awss_clock_too(ahead_seconds):
    keys = make_keys("etl", "run", lifetime_days=1 / 24, clock_ahead_seconds=ahead_seconds)
    here = datetime.datetime.now(datetime.UTC)
    at_aws = here - datetime.timedelta(seconds=ahead_seconds)
    for pem in (keys.ca, keys.scheduler.cert, keys.client.cert, keys.metrics.cert):
        made = _certificate(pem)
        assert made.not_valid_before_utc < min(here, at_aws)
        assert max(here, at_aws) < made.not_valid_after_utc


def test_a_long_name_still_gets_certificates():
    assert _certificate(make_keys("c" * 80, "run").ca)


@pytest.mark.parametrize("lifetime_seconds", [5400, 60 * 86_400])
def test_a_run_is_over_before_its_certificates_are_and_after_thirty_days_at_most(lifetime_seconds):
    started = datetime.datetime.now(datetime.UTC)
    ends = ends_at(LifetimePolicy(max_lifetime_seconds=lifetime_seconds), utc_text(started))
    keys = make_keys("etl", "run", lifetime_days=lifetime_seconds / 86_400)
    certificates = (each.cert for each in (keys.scheduler, keys.worker, keys.client, keys.metrics))
    for pem in (keys.ca, *certificates):
        assert (
            ends
            <= _certificate(pem).not_valid_after_utc
            <= started + datetime.timedelta(days=30, minutes=1)
        )
    assert lifetime_end_reason(ends, _certificate(keys.ca).not_valid_after_utc) is not None
