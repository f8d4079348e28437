# Everything is built, tested and shown from here: see `make help`.
SHELL := /bin/sh
.DEFAULT_GOAL := help

VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/rotation-operator/rotation-operator/internal/operator.Version=$(VERSION)
# With DEMO=once the demo ends by itself after its last stage.
DEMO ?=
# The tests with a real RabbitMQ run wherever it is there or can be installed.
WITH_RABBITMQ = $(shell hack/install-rabbitmq.sh optional && echo ROTATION_REQUIRE_RABBITMQ=1)
# So do those with a real browser.
WITH_CHROMIUM = $(shell hack/install-chromium.sh optional && echo ROTATION_REQUIRE_CHROMIUM=1)

.PHONY: help demo test test-deep test-rabbitmq test-scenarios lint generate verify build controlplane ansible rabbitmq chromium clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the programs into bin/
	@echo "building bin/" >&2
	@mkdir -p bin
	@go build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

controlplane: ## build kube-apiserver, etcd and kubectl into the cache (minutes, once)
	@hack/controlplane/build.sh

ansible: ## install ansible-core where it is missing (root, Debian)
	@hack/install-ansible.sh

chromium: ## install Chromium where it is missing (root, Debian)
	@hack/install-chromium.sh

rabbitmq: ## install RabbitMQ where it is missing (root, Debian)
	@hack/install-rabbitmq.sh

demo: build controlplane ## play a rotation on a real API server with real Ansible
	@hack/install-ansible.sh optional || echo "demo: goes on with the scripted executor" >&2
	@DEMO=$(DEMO) bin/rotation-lab demo

test: controlplane ansible ## run the tests
	@ROTATION_REQUIRE_ANSIBLE=1 $(WITH_RABBITMQ) $(WITH_CHROMIUM) hack/test.sh -timeout 15m

test-deep: controlplane ansible ## run the tests with many more random cases (an hour)
	@ROTATION_REQUIRE_ANSIBLE=1 ROTATION_DEEP=1 $(WITH_RABBITMQ) $(WITH_CHROMIUM) hack/test.sh -timeout 120m -count 1

test-rabbitmq: controlplane rabbitmq ## play 200 random rotations with a real RabbitMQ (half an hour)
	@ROTATION_REQUIRE_RABBITMQ=1 ROTATION_HISTORIES=$(or $(ROTATION_HISTORIES),200) ROTATION_TEST_ONLY=./test/rabbitmq hack/test.sh -count 1 -timeout 120m

test-scenarios: build controlplane ## play the scenario files on their own
	@bin/rotation-lab scenario test/scenarios/*.yaml

lint: ## run the linters
	@hack/lint.sh

generate: ## write what is generated
	@hack/generate.sh

verify: generate lint ## fail where something generated is out of date, or the linters complain
	@git diff --exit-code -- api config/crd || { echo "verify: commit what make generate writes" >&2; exit 1; }

clean: ## remove what was built here (the cache stays)
	rm -rf bin
