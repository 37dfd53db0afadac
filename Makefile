# Prints what each target is for; each target first makes the environment it needs.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# By name, because nbgrader too calls programs of its environment by name (alembic, jupyter).
export PATH := $(CURDIR)/.venv/bin:$(PATH)
NOTEBOOKS := source/disaggregation/lesson.ipynb source/disaggregation/beyond.ipynb source/footer.ipynb
ENVIRONMENT := .venv/made
# One more than cores: many tests wait for what they started.
WORKERS = $(shell echo $$(($$(nproc) + 1)))

.PHONY: help
help: ## Print this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile | expand -t 20

.PHONY: demo
demo: $(ENVIRONMENT) ## Show the course and its grading on a sample class
	@python -m tests.demo

.PHONY: lab
lab: $(ENVIRONMENT) ## Open the lesson in JupyterLab, as a learner receives it
	@mkdir -p lab
	@test -e lab/disaggregation || cp -R release/disaggregation lab/
	@cd lab/disaggregation && jupyter-lab $$(test "$$(id -u)" != 0 || echo --allow-root) lesson.ipynb

.PHONY: test
test: $(ENVIRONMENT) ## Check style, types and behaviour
	@.ci/system bubblewrap chromium postgresql
	@ruff check --quiet
	@ruff format --check --quiet
	@mypy --no-error-summary
	@pytest --quiet -m "not root and not hub and not browser" --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
	@pytest --quiet -m browser
	@echo "Not run: make test-root and make test-hub, which need root (the second makes accounts)"

.PHONY: test-root
test-root: $(ENVIRONMENT) ## As root: check that an ordinary user's walls stand as well
	@.ci/system bubblewrap
	@pytest --quiet -m root --numprocesses logical

.PHONY: test-hub
test-hub: $(ENVIRONMENT) ## As root: play a course through on a real JupyterHub (CYCLES=5: five times)
	@.ci/system chromium
	@for cycle in $$(seq $(or $(CYCLES),1)); do pytest --quiet -m hub || exit; done

.PHONY: release
release: release/disaggregation/lesson.ipynb ## Build the notebooks from source/*.py and what learners receive
	@:

.PHONY: bench
bench: $(ENVIRONMENT) ## Measure grading beside stock nbgrader, and redrawing (ARGS=--large: 1,000 submissions too)
	@python -m benchmarks.redraw; redraw=$$?; python -m benchmarks.grading $(ARGS) && exit $$redraw

.PHONY: bench-scale
bench-scale: $(ENVIRONMENT) ## Measure 10,000 submissions, two workers of a cluster, and where the time goes
	@python -m benchmarks.scale; scale=$$?; python -m benchmarks.cluster; cluster=$$?; python -m benchmarks.profile && exit $$((scale | cluster))

.PHONY: bench-otter
bench-otter: .venv-otter/made ## Install otter-grader, apart, so that make bench measures it too
	@:

$(ENVIRONMENT): pyproject.toml requirements.lock .ci/environment
	@.ci/environment

# The lesson's own dependencies are there as well, but no lock: whatever otter-grader is newest.
.venv-otter/made: pyproject.toml | $(ENVIRONMENT)
	@echo "Making an environment for otter-grader in .venv-otter"
	@python -m venv --clear .venv-otter
	@.venv-otter/bin/python -m pip install -qq --disable-pip-version-check 'otter-grader[grading]' --editable .
	@touch $@

source/disaggregation/%.ipynb: source/%.py $(wildcard course/*.py) source/build.py | $(ENVIRONMENT)
	@echo "Building $@"
	@python source/build.py $< $@

source/%.ipynb: source/%.py source/build.py | $(ENVIRONMENT)
	@echo "Building $@"
	@python source/build.py $< $@

# Without a database: building a release must leave no gradebook behind.
release/disaggregation/lesson.ipynb: $(NOTEBOOKS) nbgrader_config.py
	@echo "Building release/disaggregation"
	@rm -rf release/disaggregation
	@nbgrader generate_assignment disaggregation --no-db --log-level=WARN
