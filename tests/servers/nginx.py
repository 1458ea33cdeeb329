"""A private nginx in front of a page."""

import signal
from pathlib import Path
from typing import Self

from tests.servers.authority import Pair
from tests.servers.process import ServerMissing, ServerProcess, accepts_connections, find_program, free_port

CONFIGURATION = """\
daemon off;
master_process off;
pid nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port}{ssl};
        {certificate}
        {location}
    }}
}}
"""


def find_nginx() -> Path:
    """Return where the program is."""
    program = find_program("nginx", Path("/usr/sbin"), Path("/usr/local/sbin"))
    if program is None:
        raise ServerMissing("no nginx: install it (Debian: apt-get install nginx)")
    return program


class Nginx:
    """An nginx on a free loopback port, with one location; by TLS if it has a certificate."""

    def __init__(self, location: str, tls: Pair | None = None) -> None:
        self._program = find_nginx()
        self.port = free_port()
        self._process = ServerProcess("nginx", end_signal=signal.SIGKILL)
        certificate = ""
        if tls is not None:
            own = [
                self._process.write(name, Path(file).read_text())
                for name, file in zip(("cert", "key"), tls, strict=True)
            ]
            certificate = f"ssl_certificate {own[0]}; ssl_certificate_key {own[1]};"
        self._configuration = self._process.write(
            "nginx.conf",
            CONFIGURATION.format(port=self.port, ssl=" ssl" if tls else "", certificate=certificate, location=location),
        )
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        folder = self._process.directory
        command: list[str | Path] = [self._program, "-p", folder, "-c", self._configuration, "-e", folder / "errors"]
        self._process.start(command, ready=lambda: accepts_connections(self.port))
        return self

    def __exit__(self, *error: object) -> None:
        self._process.close()
