"""Certificates of an authority of the tests' own, made with openssl, as PEM files."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_LIMIT_S = 60.0
_CONFIG = """[ca]
default_ca = own
[own]
dir = {folder}
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
policy = any
copy_extensions = none
unique_subject = no
[any]
commonName = supplied
"""


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate and its key."""

    certificate: Path
    key: Path

    def in_one(self) -> Path:
        """Both in one file, as Kafka's brokers want them."""
        path = self.certificate.with_suffix(".pem")
        path.write_text(self.key.read_text() + self.certificate.read_text())
        return path


class Authority:
    """Signs certificates; `certificate` is its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder, self.certificate = folder, folder / "ca.crt"
        self._key, self._config = folder / "ca.key", folder / "ca.conf"
        (folder / "index").touch()
        (folder / "serial").write_text("01\n")
        self._config.write_text(_CONFIG.format(folder=folder))
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(self._key)]
        # From Python 3.13 on, clients verify strictly: this is the one extension that openssl does not add by itself.
        usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
        self._openssl(
            "req", "-x509", *key, *usage, "-out", str(self.certificate), "-subj", "/CN=authority", "-days", "30"
        )

    def sign(self, name: str, subject: str = "IP:127.0.0.1,DNS:localhost", *, expired: bool = False) -> Signed:
        """A certificate of `name`, for servers at `subject` and for clients."""
        made = Signed(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={subject}\nextendedKeyUsage=serverAuth,clientAuth\n")
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(made.key)]
        self._openssl("req", *key, "-out", str(request), "-subj", f"/CN={name}")
        dates = ("20200101000000Z", "20200201000000Z") if expired else ("20200101000000Z", "20991231000000Z")
        self._openssl(
            *("ca", "-batch", "-notext", "-config", str(self._config), "-cert", str(self.certificate)),
            *("-keyfile", str(self._key), "-in", str(request), "-out", str(made.certificate)),
            *("-extfile", str(extensions), "-startdate", dates[0], "-enddate", dates[1]),
        )
        return made

    @staticmethod
    def _openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=_LIMIT_S)
