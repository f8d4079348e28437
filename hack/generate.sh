#!/bin/sh
# Writes what is generated: the deep copies of the API types and their CustomResourceDefinitions.
set -eu
cd "$(dirname "$0")/.."

go tool -modfile=hack/tools/go.mod controller-gen \
    object crd paths=./api/... output:crd:dir=config/crd
