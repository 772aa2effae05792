"""Certificates for tests: an authority, and what it has signed for 127.0.0.1."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificates:
    """Files, as Dask's options take them."""

    authority: str
    """The certificate of whoever has signed."""
    certificate: str
    """Signed by it."""
    key: str
    """The key of the certificate."""

    def options(self) -> list[str]:
        """Of `dask scheduler` and `dask worker`."""
        files = ["--tls-ca-file", self.authority, "--tls-cert", self.certificate, "--tls-key", self.key]
        return ["--protocol", "tls", *files]

    def security(self) -> Any:
        from distributed import Security

        return Security(
            tls_ca_file=self.authority,
            tls_client_cert=self.certificate,
            tls_client_key=self.key,
            require_encryption=True,
        )


def make(folder: Path) -> Certificates:
    """A new authority and a certificate of it."""
    folder.mkdir()
    root, root_key = _certificate("tenfold's tests", None, None)
    leaf, leaf_key = _certificate("localhost", root, root_key)
    paths = [folder / name for name in ("authority.pem", "certificate.pem", "key.pem")]
    paths[0].write_bytes(root.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    private = leaf_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths[2].write_bytes(private)
    return Certificates(*map(str, paths))


def _certificate(
    name: str, issuer: x509.Certificate | None, issuer_key: ec.EllipticCurvePrivateKey | None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    signer = issuer_key or key
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
    )
    return built.sign(signer, hashes.SHA256()), key
