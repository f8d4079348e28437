#!/bin/sh
# Installs ansible-core where it is missing, if that can be done: as root on Debian. Otherwise says what is missing.
# With "optional" it is no failure if it cannot.
set -eu

if command -v ansible-playbook >/dev/null; then
	exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "ansible: installing Debian's ansible-core" >&2
	export DEBIAN_FRONTEND=noninteractive
	if apt-get install -y -q --no-install-recommends ansible-core >&2 || { apt-get update -q >&2 && apt-get install -y -q --no-install-recommends ansible-core >&2; }; then
		exit 0
	fi
fi
echo "ansible: ansible-playbook is missing; install ansible-core (as root on Debian: apt-get install ansible-core)" >&2
[ "${1:-}" = optional ]
