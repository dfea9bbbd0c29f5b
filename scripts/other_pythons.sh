#!/bin/sh
# The quick tests with each other version of Python that is here (3.12, 3.13), in an environment of its own.
set -eu
cd "$(dirname "$0")/.."

ours=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo none)
for version in 3.12 3.13; do
    [ "$version" != "$ours" ] || continue
    for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
        "$python" -c 'import ensurepip, venv' 2>/dev/null || continue
        echo "· Python $version"
        VENV=".venv-$version" PYTHON="$python" scripts/setup.sh
        ANABRANCH_TESTS=quick ".venv-$version/bin/python" -m pytest -n auto -q -m "not spark and not chaos and not slow" "$@"
        continue 2
    done
    echo "· Python $version is not here"
done
