#!/bin/sh
# Makes sure that there is a Chromium for the browser tests; installs Debian's when we may.
set -eu

for name in "${FOREBAY_CHROMIUM:-}" chromium chromium-browser google-chrome; do
    [ -n "$name" ] && command -v "$name" >/dev/null 2>&1 && exit 0
done
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "test: installing chromium"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
    exit 0
fi
echo "The browser tests need Chromium: install it (apt-get install chromium), or name one in FOREBAY_CHROMIUM." >&2
exit 1
