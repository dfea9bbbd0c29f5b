#!/bin/sh
# Makes .venv from requirements.lock. Called by make when the lock or pyproject.toml has changed.
# PYTHON=/path/to/python chooses the interpreter, VENV=folder another place.
set -eu
cd "$(dirname "$0")/.."

venv=${VENV:-.venv}

say() { printf '%s\n' "$*"; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

can_make_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# Sets `python`, or ends with the one thing to do.
choose_python() {
    without_venv=
    for python in ${PYTHON:-python3.13 python3.12 python3.11 python3 python3.14}; do
        is_new_enough "$python" || continue
        if can_make_venv "$python"; then return; fi
        without_venv=${without_venv:-$python}
    done
    if [ -n "$without_venv" ]; then
        version=$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        say "$without_venv cannot create virtual environments: its venv package is missing."
        say "On Debian and Ubuntu: apt-get install -y python$version-venv"
    else
        say "No Python 3.11 or newer was found (looked for: ${PYTHON:-python3.13, 3.12, 3.11, python3, 3.14})."
        say "On Debian and Ubuntu: apt-get install -y python3 python3-venv; or: make PYTHON=/path/to/python"
    fi >&2
    exit 1
}

# Runs pip and shows one line that moves on a terminal, nothing elsewhere; all of it is in the log.
pip_install() {
    if { PYTHONUNBUFFERED=1 $venv/bin/python -m pip install --disable-pip-version-check --progress-bar off \
        --no-build-isolation --use-pep517 "$@" 2>&1 || echo "pip failed"; } | tee -a "$log" | follow; then return; fi
    say "could not install $*; the end of $log:" >&2
    tail -n 15 "$log" >&2
    exit 1
}

follow() {
    awk -v total="$packages" -v terminal="$terminal" '
        function show(text) { if (terminal) { printf "\r\033[K  %s", text; fflush() } }
        /^pip failed$/ { failed = 1 }
        /^Collecting/ { n += 1; split($2, name, /[^A-Za-z0-9._-]/); show(n "/" total " " name[1]) }
        /^Building wheels/ { show("building " $NF) }
        /^Installing collected/ { show("installing") }
        END { if (terminal) printf "\r\033[K"; exit failed }'
}

if [ ! -x $venv/bin/python ] || ! is_new_enough $venv/bin/python; then
    choose_python
    say "· creating $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

log=$venv/install.log
packages=$(grep -c '==' requirements.lock)
terminal=
if [ -t 1 ]; then terminal=1; fi
: >"$log"

say "· installing $packages packages from requirements.lock (the first time takes a minute or two)"
# Spark comes as source: what builds it has to be there first, in the locked version as well.
pip_install "$(grep '^setuptools==' requirements.lock)"
pip_install --no-deps -r requirements.lock
pip_install --no-deps --editable .
touch $venv/.ready
say "· ready"
