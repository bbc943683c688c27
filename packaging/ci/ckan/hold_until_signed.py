"""A data portal assesses what is uploaded, and holds it until somebody signs.

CKAN-style: a resource that is created is checked against a release profile, its data set stays private, and the answer is kept beside it. A
file that may go is published when a person signs for it; one that may not is refused whatever is signed, unless a reason is given,
which is kept. :class:`Desk` is all of it without CKAN; the plugin below, which needs CKAN, only passes uploads on.

    desk = Desk(Path("/var/lib/portal/checks"), profile="public")
    desk.uploaded("resource-17", Path("people.csv"), keys=["age", "sex"], population=3_000_000)
    desk.sign("resource-17", by="A. Steward")
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rarecell as rc

HELD, SIGNED, REFUSED = "held", "signed", "refused"


@dataclass(frozen=True)
class Desk:
    """Where answers are kept, and the profile that uploads are held against."""

    folder: Path
    profile: str = "public"

    def uploaded(self, resource: str, file: Path, **options: Any) -> dict[str, Any]:
        """Check a file that has just come in. Whatever the answer is, it is not public yet."""
        check = rc.check(str(file), profile=self.profile, **options)
        state = REFUSED if check.verdict == "do not release" else HELD
        return self._keep(resource, {"state": state, "check": check.to_dict()})

    def sign(self, resource: str, *, by: str, reason: str = "") -> dict[str, Any]:
        """Somebody takes responsibility; only then may the file be shown."""
        note = self.note(resource)
        if not by.strip():
            raise ValueError("A signature is a name.")
        if note["state"] == REFUSED and not reason.strip():
            raise PermissionError(
                f"The profile says: {note['check']['verdict']}. Protect the file, or give a reason, which is kept."
            )
        return self._keep(resource, {**note, "state": SIGNED, "signed_by": by, "reason": reason})

    def may_be_shown(self, resource: str) -> bool:
        return self._path(resource).exists() and self.note(resource)["state"] == SIGNED

    def note(self, resource: str) -> dict[str, Any]:
        note: dict[str, Any] = json.loads(self._path(resource).read_text(encoding="utf-8"))
        return note

    def _path(self, resource: str) -> Path:
        if not resource or not all(letter.isalnum() or letter == "-" for letter in resource):
            raise ValueError("The name of a resource has letters, digits and hyphens.")
        return self.folder / f"{resource}.json"

    def _keep(self, resource: str, note: dict[str, Any]) -> dict[str, Any]:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(resource)
        descriptor = os.open(path.with_suffix(".new"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(note, file, indent=1)
        path.with_suffix(".new").replace(path)
        return note


try:
    from ckan import plugins
    from ckan.plugins import toolkit
except ImportError:  # CKAN is not here: the desk works without it
    pass
else:

    class HoldUntilSigned(plugins.SingletonPlugin):  # type: ignore[misc]
        """Checks uploads that say what their keys are (`rarecell_keys`, `rarecell_population`), and keeps their data sets private."""

        plugins.implements(plugins.IResourceController, inherit=True)

        def after_resource_create(self, context: dict[str, Any], resource: dict[str, Any]) -> None:
            from ckan.lib import uploader

            keys, population = resource.get("rarecell_keys"), resource.get("rarecell_population")
            if not keys or not population:
                return
            desk = Desk(Path(toolkit.config["rarecell.folder"]), toolkit.config.get("rarecell.profile", "public"))
            path = Path(uploader.get_resource_uploader(resource).get_path(resource["id"]))
            desk.uploaded(resource["id"], path, keys=keys.split(","), population=int(population))
            toolkit.get_action("package_patch")(context, {"id": resource["package_id"], "private": True})
