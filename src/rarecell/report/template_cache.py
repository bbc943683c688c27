"""Where are compiled templates kept?

Compiling the templates of a page to Python takes longer than rendering them. The result is kept beside them, as Python keeps
the bytecode of modules; if that folder is not writable, they are compiled again.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket


class TemplateCache(jinja2.FileSystemBytecodeCache):
    """A cache in a folder that need not exist or be writable; jinja2 knows by a hash when a template has changed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder), "template-%s.cache")

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)
