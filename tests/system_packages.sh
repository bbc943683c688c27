#!/bin/sh
# Install a browser, a Java runtime, a PostgreSQL server and R for the tests, where they are missing and this user may install packages.
have() { command -v "$1" >/dev/null 2>&1; }

wanted=""
have chromium || have chromium-browser || have google-chrome || wanted="chromium"
have java || wanted="$wanted default-jre-headless"
# Debian keeps the programs of the server out of the path.
have postgres || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || wanted="$wanted postgresql"
have Rscript || wanted="$wanted r-base-core r-cran-reticulate r-cran-knitr"
[ -n "$wanted" ] || exit 0

if ! have apt-get; then
    echo "Missing and not installable here:$wanted. The tests that need them will be skipped." >&2
    exit 0
fi
run=""
[ "$(id -u)" = 0 ] || run="sudo -n"
$run apt-get update -qq || true
# One by one, so that a package that cannot be had does not take the others with it.
for package in $wanted; do
    case $package in r-*) only=--no-install-recommends ;; *) only= ;; esac
    if DEBIAN_FRONTEND=noninteractive $run apt-get install -y -qq $only "$package" >/dev/null; then
        echo "Installed $package."
    else
        echo "Could not install $package. The tests that need it will be skipped." >&2
    fi
done
