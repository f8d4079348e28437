#!/bin/sh
# Builds golangci-lint, as hack/golangci/go.mod pins it, into the cache and runs it.
set -eu
cd "$(dirname "$0")/.."

cache=${ROTATION_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rotation-operator}/golangci
key=$(cat hack/golangci/go.mod hack/golangci/go.sum | cksum | cut -d ' ' -f 1)-$(go env GOVERSION)
if [ ! -x "$cache/$key" ]; then
	echo "lint: building golangci-lint; the first time this takes a few minutes" >&2
	mkdir -p "$cache"
	(cd hack/golangci && go build -o "$cache/$key.new" github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
	mv "$cache/$key.new" "$cache/$key"
fi
"$cache/$key" run ./...
go run ./hack/sizes
