#!/bin/sh
# Installs RabbitMQ where it is missing, if that can be done: as root on Debian. Otherwise says what is missing. The tests
# start a broker of their own; the system's service is not wanted.
# With "optional" it is no failure if it cannot.
set -eu

if [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ]; then
	exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "rabbitmq: installing Debian's rabbitmq-server" >&2
	export DEBIAN_FRONTEND=noninteractive
	if apt-get install -y -q --no-install-recommends rabbitmq-server >&2 || { apt-get update -q >&2 && apt-get install -y -q --no-install-recommends rabbitmq-server >&2; }; then
		if [ -d /run/systemd/system ]; then
			systemctl disable --now rabbitmq-server >&2 || echo "rabbitmq: the package's service could not be turned off" >&2
		fi
		exit 0
	fi
fi
echo "rabbitmq: rabbitmq-server is missing; install it (as root on Debian: apt-get install rabbitmq-server)" >&2
[ "${1:-}" = optional ]
