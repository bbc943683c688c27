"""The local web app: the same runs as the command line, in a browser.

On this computer only, for one person: see :mod:`rarecell.app.security`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rarecell.engine.places import redacted
from rarecell.errors import BadInput, MissingExtra

if TYPE_CHECKING:
    from rarecell.app.pages import Pages
    from rarecell.app.security import Gate

__all__ = ["create_app", "serve"]


def create_app(folder: str | Path, gate: Gate, *, file: str | None = None) -> tuple[Any, Pages]:
    """Create the ASGI application behind its gate, and its pages.

    Parameters
    ----------
    folder : str or Path
        The only folder whose files it reads and writes.
    gate : Gate
        Port and secrets.
    file : str, optional
        A file inside the folder to begin with.

    Returns
    -------
    tuple of ASGI application and Pages
        The application, and the pages it serves.
    """
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from rarecell.app.folder import ChosenFolder
    from rarecell.app.pages import Pages
    from rarecell.app.security import Guard

    pages = Pages(ChosenFolder.at(folder), gate, file)

    async def not_found(request: Request, problem: Exception) -> Response:
        return pages.render("problem.html", status=404, problem="There is no such page.", step=None)

    async def failed(request: Request, problem: Exception) -> Response:
        return pages.render("problem.html", status=500, problem="The app failed here; the terminal says where.", step=None)

    inner = Starlette(routes=pages.routes(), exception_handlers={404: not_found, 405: not_found, 500: failed})
    return Guard(inner, gate), pages


def serve(folder: str | Path = ".", *, file: str | Path | None = None, open_browser: bool = True) -> None:
    """Serve the app on the loopback address until it is interrupted.

    Parameters
    ----------
    folder : str or Path
        The only folder that the app reads and writes.
    file : str or Path, optional
        A data file to begin with; it must lie in the folder.
    open_browser : bool
        Open the one-time link in the browser; otherwise it is printed.
    """
    try:
        import uvicorn

        from rarecell.app.security import Gate
    except ImportError:
        raise MissingExtra.needed("The app", "app") from None
    from rarecell.app.folder import ChosenFolder, OutsideFolder

    chosen = ChosenFolder.at(folder)
    name = None
    if file is not None:
        place = Path(file).resolve()
        if not place.is_file():
            raise BadInput(f"There is no file {redacted(str(file))}.")
        if chosen.root not in place.parents:
            raise OutsideFolder.named(str(file))
        name = chosen.relative(place)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    # Whoever has the address may connect at once; requests wait until the server is up.
    listener.listen(64)
    gate = Gate(port=listener.getsockname()[1])
    application, pages = create_app(chosen.root, gate, file=name)
    settings = uvicorn.Config(
        application, log_level="error", access_log=False, server_header=False, date_header=False, lifespan="off"
    )
    print(f"rarecell works in {chosen.root} and answers this computer only. Press Ctrl-C to end it.", file=sys.stderr)
    for message in pages.killed:
        print(f"rarecell: {message}", file=sys.stderr)
    with contextlib.ExitStack() as ended:
        ended.callback(listener.close)
        ended.callback(pages.close)
        pages.jobs.keep_ready()
        if open_browser:
            _open(gate, ended)
        else:
            print(gate.address, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run(sockets=[listener])


def _open(gate: Gate, ended: contextlib.ExitStack) -> None:
    """Open the browser through a page in a private file: command lines of processes are public and must not contain the link."""
    handle, path = tempfile.mkstemp(prefix="rarecell-", suffix=".html")
    ended.callback(lambda: Path(path).unlink(missing_ok=True))
    with os.fdopen(handle, "w", encoding="utf-8") as page:
        page.write(
            f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>rarecell</title>'
            f'<meta http-equiv="refresh" content="0; url={gate.address}"><a href="{gate.address}">Open rarecell</a></html>'
        )
    if not webbrowser.open(Path(path).as_uri()):
        print(gate.address, flush=True)
