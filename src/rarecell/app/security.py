"""Who may talk to the app?

One browser of one person on this computer. The app listens only on the loopback address, but other pages in the same
browser and other programs on the same machine can also reach it. Every request must therefore name the right host, come
from the app's own pages, and carry the cookie for which the one-time link was exchanged. The cookie is bound to a random
path, because browsers send cookies to every port of a host.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rarecell.errors import BadInput
from rarecell.report.page import content_hash

COOKIE = "rarecell"
"""Prefix of the name of the cookie."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Only the package's own script and style sheet; no inline code of any kind."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not "no-referrer": browsers would then hide the origin of the app's own forms, and it could not be checked.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

LARGEST_FORM = 8_000_000
"""Most bytes in a form; the app takes choices, never files. A file with 5,000 columns has a choice for each of them."""

MOST_FIELDS = 50_000
"""Most fields in a form."""


@dataclass
class Gate:
    """The secrets of one launch of the app.

    Attributes
    ----------
    port : int
        Port on which the app listens.
    base : str
        Random first part of every path.
    token : str or None
        Exchanged once for the cookie; None afterwards.
    session : str
        The value of the cookie.
    """

    port: int
    base: str = field(default_factory=lambda: "/" + secrets.token_urlsafe(9))
    token: str | None = field(default_factory=lambda: secrets.token_urlsafe(32))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """The one-time address for the browser."""
        return f"{self.origin}{self.base}/enter?token={self.token}"

    def take(self, given: str) -> bool:
        """Exchange the token for the session, once."""
        if self.token is None or not secrets.compare_digest(given.encode(), self.token.encode()):
            return False
        self.token = None
        return True

    def admit(self, response: Response) -> None:
        """Admit the browser that receives this response."""
        response.set_cookie(self.cookie, self.session, path=self.base, httponly=True, samesite="strict")

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers send cookies to every port of a host, so each launch has its own.

        It has no domain, so that only this host gets it. The prefix ``__Host-``, with which browsers would enforce that, requires
        an encrypted connection and a cookie for all paths.
        """
        return f"{COOKIE}-{self.port}"

    def refusal(self, scope: Scope) -> str | None:
        """Why a request is refused, or None if it is not."""
        headers = Headers(scope=scope)
        if headers.get("host") != f"127.0.0.1:{self.port}":
            return "This address is not served here."
        is_entry = scope["path"] == f"{self.base}/enter"
        # Browsers say where a request comes from; only the one-time link may be opened from elsewhere.
        if not is_entry and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "Requests from other pages are not answered."
        if scope["method"] not in ("GET", "HEAD"):
            if scope["method"] != "POST" or headers.get("origin") != self.origin:
                return "Only the app's own pages may change anything."
            if headers.get("content-type", "").split(";")[0].strip() != "application/x-www-form-urlencoded":
                return "The app takes no files."
        if not is_entry and not self._has_session(headers):
            return "Open the app with the link that 'rarecell app' prints. A link works once; start the app again for a new one."
        return None

    def _has_session(self, headers: Headers) -> bool:
        """Whether any cookie of our name has the session's value: other programs on this host may have set more of that name."""
        for line in headers.getlist("cookie"):
            for pair in line.split(";"):
                name, _, value = pair.strip().partition("=")
                if name == self.cookie and secrets.compare_digest(value.strip('"').encode(), self.session.encode()):
                    return True
        return False


class Guard:
    """Refuses what the gate does not admit, and adds the security headers to every response."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self.app = app
        self.gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        why = self.gate.refusal(scope)
        if why is not None:
            await PlainTextResponse(why, status_code=403)(scope, receive, send_guarded)
            return
        await self.app(scope, receive, send_guarded)


async def read_form(request: Request) -> dict[str, list[str]]:
    """Read the fields of a form of limited size."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_FORM:
            raise BadInput("The form is larger than any the app has sent out.")
    try:
        return parse_qs(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS, strict_parsing=False, errors="strict"
        )
    except (UnicodeDecodeError, ValueError):
        raise BadInput("The form could not be read.") from None


def shown_report(place: Path) -> Response:
    """Send a report as it lies in its folder: sandboxed, with its own style sheet and nothing else."""
    page = place.read_text(encoding="utf-8", errors="replace")
    style = re.search(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    allowed = f"'{content_hash(style.group(1))}'" if style else "'none'"
    policy = f"default-src 'none'; style-src {allowed}; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})
