"""Certificates for TLS, made without its programs: an authority, and whom it vouches for."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALID = datetime.timedelta(days=2)
PKCS8 = serialization.PrivateFormat.PKCS8
PEM = serialization.Encoding.PEM


class Authority:
    """A certificate authority in a directory. ``certificate``: the file with its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("authority of the test")
        own = _certificate(self._name, self._name, self._key.public_key(), ca=True)
        self.certificate = directory / "ca.pem"
        self.certificate.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(PEM))

    def issue(self, name: str, passphrase: str | None = None) -> tuple[Path, Path]:
        """Files with a certificate of ``name``, valid at localhost, and with its private key."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(_named(name), self._name, key.public_key(), ca=False)
        certificate = self._directory / f"{name}.pem"
        certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(PEM))
        lock = (
            serialization.NoEncryption()
            if passphrase is None
            else serialization.BestAvailableEncryption(passphrase.encode())
        )
        private = self._directory / f"{name}.key"
        private.write_bytes(key.private_bytes(PEM, PKCS8, lock))
        return certificate, private


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, ca: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
    )
