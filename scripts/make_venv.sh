#!/usr/bin/env bash
# Makes an environment with Python 3.11 or newer, by default .venv. Debian's Python lacks venv until
# python3-venv is installed: root gets it installed, others are told the command.
# Usage: make_venv.sh PYTHON [FOLDER]
set -euo pipefail
python=$1
folder=${2:-.venv}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Python 3.11 or newer is needed, got $("$python" --version 2>&1). Try: make PYTHON=python3.12" >&2
  exit 1
}
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
  else
    echo "This Python cannot make environments. Run: sudo apt-get install python3-venv" >&2
    exit 1
  fi
fi
"$python" -m venv "$folder" || { rm -rf "$folder"; exit 1; }
