"""Every protection of the app, attacked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rarecell.app.folder import ChosenFolder, OutsideFolder
from rarecell.app.security import LARGEST_FORM, Gate
from tests.app_client import PORT, Browser, write_run
from tests.summaries import census_summary, protected_summary

RUN_TOML = 'input = "census.csv"\nkeys = ["age"]\npopulation = 1000\n'


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A chosen folder beside things that are none of the app's business."""
    (tmp_path / "secret.csv").write_text("name,diagnosis\nAda,flu\n", encoding="utf-8")
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    (chosen / "census.csv").write_text("age,sex\n1,0\n2,1\n", encoding="utf-8")
    (chosen / "link.csv").symlink_to(tmp_path / "secret.csv")
    (chosen / "up").symlink_to(tmp_path)
    (chosen / ".hidden.csv").write_text("a\n1\n", encoding="utf-8")
    return chosen


# ---------------------------------------------------------------------- who may come in


def test_without_the_cookie_nothing_is_shown(house: Path) -> None:
    browser = Browser(house, enters=False)
    for path in ("/", "/data", "/runs", "/keys?file=census.csv", "/static/app.js", "/files/x/report.html", "/nowhere"):
        answer = browser.get(path)
        assert answer.status_code == 403, path
        assert "census" not in answer.text


def test_the_link_works_once(house: Path) -> None:
    browser = Browser(house, enters=False)
    address = browser.gate.address
    assert browser.client.get(address).status_code == 200
    browser.client.cookies.clear()
    again = browser.client.get(address)
    assert again.status_code == 403
    assert "set-cookie" not in again.headers


@pytest.mark.parametrize("token", ["", "x", "None", "0" * 43])
def test_a_wrong_token_opens_nothing_and_leaves_the_right_one_usable(house: Path, token: str) -> None:
    browser = Browser(house, enters=False)
    wrong = browser.get(f"/enter?token={token}")
    assert wrong.status_code == 403
    assert "set-cookie" not in wrong.headers
    assert browser.client.get(browser.gate.address).status_code == 200


def test_a_taken_token_does_not_match_its_absence(house: Path) -> None:
    browser = Browser(house)
    browser.client.cookies.clear()
    assert browser.get("/enter").status_code == 403
    assert browser.get("/enter?token=None").status_code == 403


def test_the_cookie_is_strict_hidden_from_scripts_and_bound_to_the_random_path(house: Path) -> None:
    browser = Browser(house, enters=False)
    cookie = browser.client.get(browser.gate.address).headers["set-cookie"].lower()
    assert "samesite=strict" in cookie
    assert "httponly" in cookie
    assert f"path={browser.gate.base.lower()}" in cookie
    assert "domain=" not in cookie
    assert browser.gate.base != "/"


@pytest.mark.parametrize("value", ["", "x", "é", '"', "a" * 43])
def test_a_forged_cookie_is_refused(house: Path, value: str) -> None:
    browser = Browser(house, enters=False)
    answer = browser.client.get(browser.gate.base + "/data", headers={"cookie": f"{browser.gate.cookie}={value}".encode()})
    assert answer.status_code == 403


def test_two_starts_share_no_secret() -> None:
    first, second = Gate(port=1), Gate(port=1)
    assert len({first.base, second.base}) == len({first.token, second.token}) == len({first.session, second.session}) == 2
    assert len(first.session) >= 40


# ---------------------------------------------------------------------- from where


@pytest.mark.parametrize(
    "host",
    ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"localhost:{PORT}", f"127.0.0.1.nip.io:{PORT}", ""],
)
def test_another_host_name_is_refused_even_with_the_cookie(house: Path, host: str) -> None:
    answer = Browser(house).get("/data", host=host)
    assert answer.status_code == 403
    assert "census" not in answer.text


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", f"http://localhost:{PORT}", f"https://127.0.0.1:{PORT}", ""]
)
def test_a_form_from_another_page_changes_nothing(house: Path, origin: str) -> None:
    browser = Browser(house)
    assert browser.post("/sample", origin=origin).status_code == 403
    assert not (house / "census_sample.csv.gz").exists()


def test_a_form_without_an_origin_changes_nothing(house: Path) -> None:
    browser = Browser(house)
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert browser.client.post(browser.gate.base + "/sample", headers=headers).status_code == 403
    assert not (house / "census_sample.csv.gz").exists()


def test_the_same_form_from_the_app_itself_works(house: Path) -> None:
    assert Browser(house).post("/sample").status_code == 303
    assert (house / "census_sample.csv.gz").exists()


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_that_other_pages_start_are_refused(house: Path, site: str) -> None:
    # Other programs on this computer are the "same site" for a browser: it looks at the host, not the port.
    assert Browser(house).get("/data", **{"sec-fetch-site": site}).status_code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(house: Path, method: str) -> None:
    browser = Browser(house)
    answer = browser.client.request(method, browser.gate.base + "/data", headers={"origin": browser.gate.origin})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


# ---------------------------------------------------------------------- what comes in


def test_files_cannot_be_uploaded(house: Path) -> None:
    browser = Browser(house)
    answer = browser.client.post(
        browser.gate.base + "/sample", files={"file": ("x.csv", b"a,b\n1,2\n")}, headers={"origin": browser.gate.origin}
    )
    assert answer.status_code == 403
    assert not (house / "x.csv").exists()


def test_a_form_of_any_size_is_not_read(house: Path) -> None:
    answer = Browser(house).post("/assess", {"file": "x" * (LARGEST_FORM + 1)})
    assert answer.status_code == 400
    assert "larger than any" in answer.text


def test_a_form_that_is_not_utf8_is_a_message(house: Path) -> None:
    browser = Browser(house)
    headers = {"origin": browser.gate.origin, "content-type": "application/x-www-form-urlencoded"}
    assert browser.client.post(browser.gate.base + "/assess", content=b"file=\xff\xfe", headers=headers).status_code == 400


# ---------------------------------------------------------------------- which files

WAYS_OUT = [
    "../secret.csv",
    "up/secret.csv",
    "link.csv",
    "up",
    "/etc/passwd",
    "../../../../etc/passwd",
    "./../secret.csv",
    "census.csv/../../secret.csv",
    "..",
    "a\0b",
    "~/.ssh/id_rsa/../../..//etc/passwd",
]


@pytest.mark.parametrize("name", WAYS_OUT)
def test_no_name_leads_out_of_the_folder(house: Path, name: str) -> None:
    chosen = ChosenFolder.at(house)
    if name.startswith("~"):
        assert house in chosen.resolve(name.replace("/../../..//etc/passwd", ""), must_exist=False).parents
        return
    with pytest.raises(OutsideFolder):
        chosen.resolve(name)


@pytest.mark.parametrize("name", [name for name in WAYS_OUT if "\0" not in name])
@pytest.mark.parametrize(
    "page", ["/keys?file={}", "/data?folder={}", "/data?path={}", "/run?name={}", "/protect?name={}", "/files/{}"]
)
def test_no_page_shows_what_is_outside(house: Path, name: str, page: str) -> None:
    from urllib.parse import quote

    # Dots are written as codes, because the client would take them out of the path before it sends it.
    answer = Browser(house).get(page.format(quote(name, safe="").replace("..", "%2E%2E")))
    assert answer.status_code in (400, 404)
    for leak in ("diagnosis", "Ada", "root:"):
        assert leak not in answer.text


def test_what_leads_outside_is_not_listed(house: Path) -> None:
    listed = [entry.name for entry in ChosenFolder.at(house).listing()]
    assert listed == ["census.csv"]


def test_a_run_cannot_be_written_outside(house: Path) -> None:
    browser = Browser(house)
    for name in ("../out", "up/out", "/tmp/rarecell-out", ".", ".hidden"):
        fields = {"file": "census.csv", "role:age": "key", "population": "100", "run_name": name}
        assert browser.post("/assess", fields).status_code == 400, name
    assert browser.pages.jobs.running is None
    assert sorted(path.name for path in house.parent.iterdir()) == ["chosen", "secret.csv"]


@pytest.mark.parametrize(
    "run_toml",
    [
        'input = "{outside}"\nkeys = ["name"]\npopulation = 1000\n',
        'input = "../secret.csv"\nkeys = ["name"]\npopulation = 1000\n',
        'input = "link.csv"\nkeys = ["name"]\npopulation = 1000\n',
        'input = "census.csv"\nkeys = ["age"]\npopulation = 1000\nhierarchies = {{ age = "{outside}" }}\n',
        'input = "census.csv"\nkeys = ["age"]\npopulation = 1000\nzeros = "{outside}"\n',
        'input = ""\nsql = "select * from \'{outside}\'"\nkeys = ["name"]\npopulation = 1000\n',
    ],
)
def test_a_run_folder_from_elsewhere_cannot_make_the_app_read_other_files(house: Path, run_toml: str) -> None:
    text = run_toml.format(outside=house.parent / "secret.csv")
    write_run(house / "gift", census_summary(), run_toml=text)
    browser = Browser(house)
    answer = browser.post("/protect?name=gift", {"way": "top", "top": "1"})
    assert answer.status_code == 400
    assert browser.pages.jobs.running is None


def test_only_results_of_runs_can_be_downloaded(house: Path) -> None:
    run = write_run(house / "run", census_summary(), run_toml=RUN_TOML)
    (run / "tables" / "notes.txt").write_text("private", encoding="utf-8")
    (run / "other.csv").write_text("private", encoding="utf-8")
    (run / "tables" / "leak.csv").symlink_to(house.parent / "secret.csv")
    browser = Browser(house)
    assert browser.get("/files/run/summary.json").status_code == 200
    assert browser.get("/files/run/tables/keys.csv").status_code == 200
    for path in (
        "census.csv",
        "run/other.csv",
        "run/tables/notes.txt",
        "run/tables/leak.csv",
        "run/tables",
        "run",
        "run/.rarecell.lock",
    ):
        answer = browser.get(f"/files/{path}")
        assert answer.status_code == 400, path
        assert "private" not in answer.text


def test_static_files_are_three_and_no_path(house: Path) -> None:
    browser = Browser(house)
    for name in ("app.js", "app.css", "report.css"):
        assert browser.get(f"/static/{name}").status_code == 200
    for name in ("..%2f__init__.py", "%2e%2e/security.py", "layout.html"):
        assert browser.get(f"/static/{name}").status_code == 404


def test_the_worker_does_not_load_modules_from_the_data_folder(house: Path) -> None:
    (house / "numpy.py").write_text("raise SystemExit('taken over')\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "rarecell.app.worker"],
        input="not json\n",
        capture_output=True,
        text=True,
        cwd=house,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert "taken over" not in done.stderr
    browser = Browser(house)
    source = Path(str(sys.modules[type(browser.pages.jobs).__module__].__file__)).read_text(encoding="utf-8")
    assert '"-P", "-m", "rarecell.app.worker"' in source


# ---------------------------------------------------------------------- what goes out


@pytest.mark.parametrize("path", ["/data", "/runs", "/keys?file=census.csv", "/nowhere", "/static/app.js", "/keys?file=gone.csv", "/run?name=run", "/files/run/report.html", "/files/run/run.toml"])  # fmt: skip
def test_every_answer_has_the_protecting_headers(house: Path, path: str) -> None:
    write_run(house / "run", census_summary(), run_toml=RUN_TOML)
    headers = Browser(house).get(path).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_refusals_have_them_too(house: Path) -> None:
    headers = Browser(house, enters=False).get("/data").headers
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    "path", ["/data", "/keys?file=census.csv", "/runs", "/run?name=run", "/run?name=swapped", "/protect?name=run"]
)
def test_pages_have_no_inline_code(house: Path, path: str) -> None:
    from tests.test_report import Elements

    write_run(house / "run", census_summary(), run_toml=RUN_TOML)
    write_run(house / "swapped", protected_summary(), run_toml=RUN_TOML)
    answer = Browser(house).get(path)
    assert answer.status_code == 200
    elements = Elements(answer.text)
    assert not elements.every("style")
    for attributes in elements.every("script"):
        assert str(attributes.get("src", "")).endswith("/static/app.js") or attributes.get("type") == "application/json"
    for _, attributes in elements.found:
        assert not any(name.startswith("on") or name == "style" for name in attributes)


def test_an_evil_report_is_shown_boxed_in(house: Path) -> None:
    run = write_run(house / "run", census_summary(), run_toml=RUN_TOML)
    (run / "report.html").write_text("<script>alert(1)</script><style>p{}</style>", encoding="utf-8")
    policy = Browser(house).get("/files/run/report.html").headers["content-security-policy"]
    assert "sandbox" in policy
    assert "script-src" not in policy


def test_names_in_files_are_escaped(house: Path) -> None:
    nasty = "<script>alert(1)</script>"
    (house / f"{nasty.replace('/', '')}.csv").write_text(f"{nasty},b\n1,2\n3,4\n", encoding="utf-8")
    summary = census_summary()
    summary["keys"][0]["name"] = nasty
    write_run(house / "run", summary, run_toml=RUN_TOML)
    browser = Browser(house)
    name = "%3Cscript%3Ealert(1)%3Cscript%3E.csv"
    for path in ("/data", f"/keys?file={name}", "/run?name=run", "/protect?name=run", "/keys?file=%3Cscript%3E"):
        assert "<script>alert" not in browser.get(path).text, path


def test_only_the_loopback_address_is_listened_on(house: Path) -> None:
    import re
    import socket

    process = subprocess.Popen(
        [sys.executable, "-c", "from rarecell.cli.commands import main; main()", "app", "--folder", str(house), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\S+/enter\?token=\S+\n", process.stdout.readline())
        assert found is not None
        port = int(found.group(1))
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            pass
        for family, address in ((socket.AF_INET, _own_address()), (socket.AF_INET6, "::1")):
            with socket.socket(family, socket.SOCK_STREAM) as other:
                other.settimeout(2)
                with pytest.raises(OSError):
                    other.connect((address, port))
    finally:
        process.terminate()
        process.wait(10)


def _own_address() -> str:
    """An address of this machine other than 127.0.0.1."""
    import socket

    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    except OSError:
        addresses = set()
    return str(next((a for a in sorted(map(str, addresses)) if not a.startswith("127.")), "127.0.0.2"))
