#!/bin/sh
# Builds kube-apiserver, etcd and kubectl from the Go modules that go.mod here pins, into a cache outside the checkout,
# and prints the directory. What is there already is not built again.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
say() { echo "controlplane: $*" >&2; }
fail() { say "$*"; exit 1; }

command -v go >/dev/null || fail "Go is missing; install Go 1.26 or newer"
want=1.26
have=$(go env GOVERSION | sed 's/^go//')
[ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" = "$want" ] || fail "Go $have is too old; install Go $want or newer"

cache=${ROTATION_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rotation-operator}
# Modules do not know their version, and kubectl complains of a server that has none.
version=$(cd "$here" && go list -m -f '{{.Version}}' k8s.io/kubernetes) || fail "k8s.io/kubernetes is not pinned in hack/controlplane/go.mod, or cannot be had"
minor=${version#v1.}
pkg=k8s.io/component-base/version
flags="-s -w -X $pkg.gitVersion=$version -X $pkg.gitMajor=1 -X $pkg.gitMinor=${minor%%.*}"
key=$({ cat "$here/go.mod" "$here/go.sum" && echo "$flags"; } | cksum | cut -d ' ' -f 1)-go$have
target=$cache/controlplane/$key
if [ -x "$target/kube-apiserver" ] && [ -x "$target/etcd" ] && [ -x "$target/kubectl" ]; then
	echo "$target"
	exit 0
fi

mkdir -p "$cache/controlplane" || fail "cannot write to $cache; set ROTATION_CACHE to a directory that can be written"
# One build at a time: the directory is the lock, and whoever dies leaves it with a stale process ID.
lock=$cache/controlplane/$key.lock
while ! mkdir "$lock" 2>/dev/null; do
	owner=$(cat "$lock/pid" 2>/dev/null || true)
	if [ -n "$owner" ] && ! kill -0 "$owner" 2>/dev/null; then
		rm -rf "$lock"
		continue
	fi
	say "another build is under way (process ${owner:-unknown}); waiting"
	sleep 5
	if [ -x "$target/kubectl" ]; then echo "$target"; exit 0; fi
done
echo $$ >"$lock/pid"
build=$(mktemp -d "$cache/controlplane/build.XXXXXX")
trap 'rm -rf "$build" "$lock"' EXIT
trap 'exit 130' INT TERM

say "building kube-apiserver, etcd and kubectl; the first time this takes four to ten minutes"
cd "$here"
started=$(date +%s)
go build -v -trimpath -ldflags "$flags" -o "$build/" \
	k8s.io/kubernetes/cmd/kube-apiserver go.etcd.io/etcd/server/v3 k8s.io/kubernetes/cmd/kubectl 2>"$build/log" &
pid=$!
while kill -0 "$pid" 2>/dev/null; do
	sleep 1
	elapsed=$(($(date +%s) - started))
	if [ $((elapsed % 20)) -eq 0 ]; then
		say "$(grep -c . "$build/log" || true) packages built, ${elapsed}s; now $(tail -n 1 "$build/log" 2>/dev/null)"
	fi
done
wait "$pid" || { tail -n 20 "$build/log" >&2; fail "the build failed; the lines above say why (no module registry, no disk space?)"; }
rm -f "$build/log"
mv "$build/server" "$build/etcd"
mkdir -p "$target"
mv "$build"/* "$target/"
say "built in $(($(date +%s) - started))s"
echo "$target"
