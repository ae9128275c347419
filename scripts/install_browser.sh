#!/usr/bin/env bash
# Makes sure that the browser tests find a Chromium: one on the machine, Debian's, or Playwright's.
# Usage: install_browser.sh PYTHON
set -euo pipefail
python=$1

if [ -n "${CHROMIUM:-}" ] || command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null \
  && command -v chromium >/dev/null; then
  exit 0
fi
"$python" -m playwright install chromium
