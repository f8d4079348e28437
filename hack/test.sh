#!/bin/sh
# Runs the tests and shows what a person wants to see: a line for each package, the lines that tests print for people
# (they begin with »), the whole output of what failed, and the numbers at the end.
set -eu
cd "$(dirname "$0")/.."

out=$(mktemp)
trap 'rm -f "$out"' EXIT
status=0
# The tests that start a control plane share two cores with each other; more at once only makes all of them slow.
{ go test -p "${ROTATION_TEST_PACKAGES:-2}" -json "$@" "${ROTATION_TEST_ONLY:-./...}" 2>&1 || echo "exit $?" >"$out.status"; } | tee "$out" | go run ./hack/testlines || status=1
if [ -e "$out.status" ]; then
	rm -f "$out.status"
	status=1
fi
exit $status
