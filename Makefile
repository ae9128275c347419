# One command a task. `make book` and `make test` need nothing but Python 3.11 or newer, git and
# make: each sets up what it uses, once.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
HTML := _build/html
PORT ?= 8000
# A worker for each core, with one thread of torch each: so all cores are busy.
WORKERS ?= $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
THREADS ?= 1
# What is marked slow is left out; `make test-all` runs everything, and so does `make unit SLOW=`.
SLOW ?= and not slow
PYTEST := $(BIN)/python -m pytest
NOTEBOOKS := $(sort $(wildcard book/[0-9]*.ipynb))

export TQDM_DISABLE = 1
export MPLBACKEND = module://matplotlib_inline.backend_inline
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# matplotlib keeps its list of fonts there and not in the home, which may be read-only, and whose
# settings would be drawn into the figures.
export MPLCONFIGDIR = $(abspath $(VENV))/matplotlib

.PHONY: help book pdf epub release serve reader lab grade test test-all check lint format hooks gpu unit notebooks site answers portable colab setup setup-test engine \
  setup-python lock audit chapter form house refresh checkpoint train translate show export package bench weigh engines fuzz kills mutants clean

help: ## list the tasks
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | sort | awk -F'\t' '{printf "make %-12s %s\n", $$1, $$2}'

# --- set-up -----------------------------------------------------------------------------------

$(BIN)/python:
	@bash scripts/make_venv.sh $(PYTHON) $(VENV)

# A lock reads the one that it adds to: what testing needs holds what building needs.
LOCKS := requirements/locks
LOCKED := $(BIN)/python scripts/install_locked.py

$(VENV)/book.stamp: $(LOCKS)/book.txt | $(BIN)/python
	$(LOCKED) book
	@touch $@

$(VENV)/test.stamp: $(patsubst %,$(LOCKS)/%.txt,book pdf test cpu cuda) | $(BIN)/python
	$(LOCKED) test
	@$(BIN)/python -c "import matplotlib.font_manager"  # lists the fonts now: it warns if that is slow
	@touch $@ $(VENV)/book.stamp

$(VENV)/browser.stamp: $(VENV)/test.stamp scripts/install_browser.sh
	@bash scripts/install_browser.sh $(BIN)/python
	@touch $@

# What checks the scripts. Node is the one thing here that pip cannot install.
$(VENV)/js.stamp: requirements/js/package-lock.json requirements/js/.npmrc | $(BIN)/python
	@command -v npm > /dev/null || { echo "make lint checks the scripts with node 20.19 or newer: install it (Debian's packages nodejs and npm)"; exit 1; }
	cd requirements/js && npm ci --ignore-scripts --no-progress --loglevel=error
	@touch $@

$(VENV)/pdf.stamp: $(LOCKS)/book.txt $(LOCKS)/pdf.txt scripts/install_browser.sh | $(BIN)/python
	$(LOCKED) pdf
	@bash scripts/install_browser.sh $(BIN)/python
	@touch $@

# Apart from the tests' environment, of which a reader needs nothing.
.venv-lab/lab.stamp: $(patsubst %,$(LOCKS)/%.txt,book lab cpu cuda)
	@echo "Once, and for some minutes: making .venv-lab, an environment of about 1.7 GB"
	@test -x .venv-lab/bin/python || bash scripts/make_venv.sh $(PYTHON) .venv-lab
	@.venv-lab/bin/python scripts/install_locked.py lab
	@touch $@

# Apart from the book's environment: what writes the locks, looks them up, and builds the engine.
.venv-tools/tools.stamp: $(LOCKS)/tools.txt
	$(PYTHON) -m venv --clear .venv-tools
	.venv-tools/bin/python -m pip install --quiet --require-hashes -r $(LOCKS)/tools.txt
	@touch $@

.venv-colab/colab.stamp: tests/colab/requirements.txt
	$(PYTHON) -m venv --clear .venv-colab
	.venv-colab/bin/python -m pip install --quiet -r tests/colab/requirements.txt
	@touch $@

setup: $(VENV)/book.stamp ## install what building needs

setup-test: $(VENV)/browser.stamp ## install what testing needs, a browser included

setup-python: $(VENV)/test.stamp

# Each by its name: pip-audit does not read the locks that a lock reads. test.txt has cpu.txt's torch.
AUDITED := $(patsubst %,-r %,$(filter-out %/cpu.txt,$(sort $(wildcard $(LOCKS)/*.txt))))

lock: .venv-tools/tools.stamp ## write the lock files after a change of the requirements: make lock [ARGS=--upgrade]
	.venv-tools/bin/python scripts/lock.py $(ARGS)

audit: .venv-tools/tools.stamp ## ask for known vulnerabilities of what is locked
	.venv-tools/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off $(AUDITED)

engine: .venv-tools/tools.stamp ## build the kernels of the page's engine from their source [ARGS=--check]
	@.venv-tools/bin/python scripts/build_engine.py $(ARGS)

# --- the book ---------------------------------------------------------------------------------

book: setup ## build the book into _build/html
	$(BIN)/jupyter-book build . -n -W --keep-going --quiet
	@echo "The book: $(CURDIR)/$(HTML)/index.html (open it, or run: make serve)"

serve: ## read the built book at http://127.0.0.1:8000
	@test -f $(HTML)/index.html || $(MAKE) book
	@echo "Reading at http://127.0.0.1:$(PORT)/ (Ctrl-C stops)"
	@$(PYTHON) -m http.server --bind 127.0.0.1 --directory $(HTML) $(PORT)

reader: setup ## make the chapters as JupyterLab, Colab, VS Code and GitHub show them, in book/_reader
	@$(BIN)/python scripts/reader_notebooks.py $(ARGS)

lab: export MPLCONFIGDIR = $(abspath .venv-lab)/matplotlib
lab: .venv-lab/lab.stamp ## read the chapters, and do the exercises, in JupyterLab
	@.venv-lab/bin/python scripts/reader_notebooks.py
	@echo "Opening JupyterLab in the browser (Ctrl-C here stops it)"
	@env -u TQDM_DISABLE -u MPLBACKEND .venv-lab/bin/jupyter lab $(ARGS) --LabApp.default_url=/lab/tree/_reader book

grade: $(VENV)/test.stamp ## run the exercises of handed-in notebooks: make grade NOTEBOOKS=folder [ARGS="--seconds 60"]
	@PYTHONPATH=book $(BIN)/python -m checks.grading $(if $(findstring command,$(origin NOTEBOOKS)),"$(NOTEBOOKS)") $(ARGS)

pdf: $(VENV)/pdf.stamp book ## print the book into one PDF beside its pages
	$(BIN)/python scripts/make_pdf.py

epub: $(VENV)/pdf.stamp book ## bind the book into one EPUB beside its pages
	$(BIN)/python scripts/make_epub.py

release: pdf epub ## put a release together in _build/release: pages, PDF, EPUB, checksums, notes
	@$(BIN)/python scripts/release.py

# --- tests ------------------------------------------------------------------------------------

test: setup-test lint unit notebooks site ## what CI checks: all but the tests that are marked slow

test-all: SLOW :=
test-all: test ## every test, as each night and before a release (about three quarters of an hour)

check: setup-test $(VENV)/js.stamp ## all of one chapter, in two or three minutes: make check CHAPTER=multi_head
	@PYTHONPATH=book:. $(BIN)/python -m scripts.check_chapter $(CHAPTER)

lint: $(VENV)/test.stamp $(VENV)/js.stamp ## style, types, spelling, workflow files: what .pre-commit-config.yaml lists
	$(BIN)/pre-commit run --all-files

format: $(VENV)/test.stamp ## put the code in form, and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

hooks: $(VENV)/test.stamp $(VENV)/js.stamp ## let git run the same checks before each commit
	$(BIN)/pre-commit install

unit notebooks: export OMP_NUM_THREADS = $(THREADS)

unit: $(VENV)/test.stamp .venv-tools/tools.stamp
	$(PYTEST) tests book/chapters --ignore=tests/browser --ignore-glob="*/tests/browser" \
	  -m "not colab $(SLOW)" -n $(WORKERS) --dist worksteal

notebooks: $(VENV)/test.stamp
	chapters=$$($(BIN)/python scripts/longest_first.py $(NOTEBOOKS)) && $(PYTEST) --nbval --nbval-current-env --nbval-sanitize-with tests/notebooks/nbval.cfg --nbval-cell-timeout=300 \
	  --timeout=600 -n $(WORKERS) --dist loadfile --no-loadscope-reorder -o addopts= -o filterwarnings= \
	  $$chapters

# One worker more than there are cores: each waits now and then for its browser.
site: setup-test book
	$(PYTEST) tests/browser book/chapters/*/tests/browser -m "not colab $(SLOW)" -n $$(($(WORKERS) + 1)) --dist worksteal

answers: $(VENV)/test.stamp ## what the check of each exercise says of right and wrong answers
	@PYTHONPATH=book $(BIN)/python -m tests.notebooks.test_exercises

# A seed gives the same inputs, kills or mutants again; without one, each run draws another.
SEEDED = seed=$(or $(SEED),$$($(BIN)/python -c "import secrets; print(secrets.randbelow(2**32))")); \
  echo "The same again: make $@ SEED=$$seed";

fuzz kills mutants: export OMP_NUM_THREADS = 1

fuzz: $(VENV)/test.stamp ## library, files and command line with 100,000 random inputs: make fuzz [SEED=7]
	@$(SEEDED) $(PYTEST) tests/nightly --ignore=tests/nightly/test_kills.py -n $(WORKERS) --dist worksteal \
	  --hypothesis-profile=nightly --hypothesis-seed=$$seed

kills: $(VENV)/test.stamp ## training runs that are killed, lose their disk or find other files: make kills [SEED=7]
	@$(SEEDED) $(PYTEST) tests/nightly/test_kills.py --hypothesis-seed=$$seed

mutants: $(VENV)/test.stamp ## change lib at random places: do its tests notice? make mutants [SEED=7] [ARGS="--number 300"]
	@$(SEEDED) $(BIN)/python scripts/mutants.py --seed $$seed --workers $(WORKERS) $(ARGS)

portable: $(VENV)/test.stamp ## unit tests and notebooks on other instruction sets, thread counts and Pythons
	$(BIN)/python scripts/portable.py $(ARGS)

gpu: setup-test ## the notebooks and the GPU tests on this machine's GPU
	@$(BIN)/python -c "import sys, torch; torch.cuda.is_available() or sys.exit('expected a CUDA device, found none')"
	$(PYTEST) -m gpu
	$(MAKE) notebooks WORKERS=1

colab: $(VENV)/test.stamp .venv-colab/colab.stamp ## every chapter alone in an empty folder, with Colab's versions
	COLAB_PYTHON=$(CURDIR)/.venv-colab/bin/python $(PYTEST) tests/colab $(if $(CHAPTER),-k "test_colab or $(CHAPTER)")

# --- upkeep -----------------------------------------------------------------------------------

chapter: $(VENV)/test.stamp ## begin a chapter: make chapter NAME=sparse_attention TITLE="Sparse attention" [AFTER=masking]
	@$(BIN)/python scripts/new_chapter.py $(NAME) "$(TITLE)" $(if $(AFTER),--after $(AFTER)) $(if $(NUMBER),--number $(NUMBER))

form: $(VENV)/test.stamp ## what a reader meets on each chapter's built page: words, tests, predictions, code, what scrolls on a phone
	@$(BIN)/python scripts/form.py

house: $(VENV)/test.stamp ## how big the library and each room are, and which chapters use the library
	@$(BIN)/python scripts/house.py

refresh: $(VENV)/test.stamp ## run chapters and store their outputs: make refresh CHAPTER=book/01_seq2seq.ipynb
	$(BIN)/python scripts/refresh.py $(CHAPTER)

checkpoint: $(VENV)/test.stamp ## train the model that comes with the book again, and make again what depends on it (a quarter of an hour)
	$(BIN)/python scripts/publish_model.py $(ARGS)

# NPROC=2 trains in two processes; RESTARTS=3 starts them again, up to three times, if one is killed.
TORCHRUN = -m torch.distributed.run --standalone --nproc-per-node=$(NPROC) --max-restarts=$(or $(RESTARTS),0)

train: $(VENV)/test.stamp ## train a Transformer: make train ARGS="--data DIR --source de --target en" [NPROC=2]
	@env -u TQDM_DISABLE PYTHONPATH=book $(BIN)/python $(if $(NPROC),$(TORCHRUN)) -m train $(ARGS)

translate: $(VENV)/test.stamp ## translate with a trained model: make translate RUN=runs/de-en [ARGS="--in FILE --out FILE"]
	@env -u TQDM_DISABLE PYTHONPATH=book $(BIN)/python -m train.translate $(if $(RUN),"$(RUN)") $(ARGS)

# Two runs are given with a blank between them, so no name of a run may have one.
show: $(VENV)/test.stamp ## make a page of a trained model that opens from a file: make show RUN=runs/de-en [ARGS="--out DIR"]
	@env -u TQDM_DISABLE PYTHONPATH=book $(BIN)/python -m show $(RUN) $(ARGS)

export: $(VENV)/test.stamp ## write a trained model as Hugging Face's transformers read it: make export RUN=runs/de-en [ARGS="--out DIR"]
	@env -u TQDM_DISABLE PYTHONPATH=book $(BIN)/python -m train.export $(if $(RUN),"$(RUN)") $(ARGS)

package: $(VENV)/book.stamp ## build check_model as a package for other projects, in _build/package
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir _build/package ./package
	@ls _build/package/*.whl

# d2l pins packages of 2023 that clash with ours and that no model needs: so without its requirements.
bench: $(VENV)/browser.stamp ## compare the library's speed with its peers', and the page's with torch (about a quarter of an hour)
	$(BIN)/python -m pip install --quiet -r requirements/bench.txt
	$(BIN)/python -m pip install --quiet --no-deps d2l==1.0.3
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/decoding_speed.py
	$(BIN)/python benchmarks/browser_forward.py

weigh: $(VENV)/browser.stamp book ## what each page costs its reader, and what axe-core finds
	$(BIN)/python benchmarks/pages.py

engines: $(VENV)/test.stamp book ## open every page in Firefox and WebKit, where they are installed
	$(BIN)/python scripts/check_engines.py
	$(PYTEST) tests/browser/test_show.py -k firefox_and_webkit

clean: ## remove what the build made
	rm -rf _build
