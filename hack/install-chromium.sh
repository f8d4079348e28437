#!/bin/sh
# Installs Chromium where it is missing, if that can be done: as root on Debian. Otherwise says what is missing.
# With "optional" it is no failure if it cannot.
set -eu

if command -v chromium >/dev/null; then
	exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "chromium: installing Debian's chromium" >&2
	export DEBIAN_FRONTEND=noninteractive
	if apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core >&2 || { apt-get update -q >&2 && apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core >&2; }; then
		exit 0
	fi
fi
echo "chromium: chromium is missing; install it (as root on Debian: apt-get install chromium)" >&2
[ "${1:-}" = optional ]
