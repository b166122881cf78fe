#!/usr/bin/env bash
# From a fresh clone to a validated, timed, plotted ladder; `./run_all.sh --help` says how.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'END'
Usage: ./run_all.sh [STEP ...] [OPTION ...] [-- ARGUMENT-OF-LADDER-RUN ...]

Without a step: setup, build, data, run and draw, in that order. A second run repeats only what changed, and the run.
Without a GPU the first chapters come first: built, validated and drawn within minutes, then all the rest.

  setup   install missing packages of the distribution (Debian 12, Ubuntu 24.04; says so before it uses sudo),
          and the pinned Python packages into .venv
  build   configure and build into build/ (GPU code where nvcc and a GPU are found, or with --device cuda)
  data    find, fetch, check and convert the data sets into datasets/cache/
  run     validate and time the variants on what this machine has, into results/latest/record.json
  draw    check and draw results/latest/record.json, and print its short table
  test    setup; build the default and the asan preset; run all tests (GoogleTest, pytest, ruff)

  --workloads LIST   names or globs with commas   (default: chosen by the devices found)
  --variants LIST    names or globs with commas   (default: *)
  --device NAME      auto, cuda, simt, cpu or all (default: auto)
  --jobs N           compilers and tests at a time (default: the number of cores)
  --all              test: also what takes minutes more and seldom finds something new. With sanitizers: every
                     variant on awkward sizes, right and wrong variants, what plans and prints
  --ci               test: with the presets ci and asan-ci. Warnings in variants are errors; without a GPU here, GPU
                     code is only checked. With sanitizers rungs are compiled for floats alone
  --architectures    test: no test, but all GPU code compiled for every kind of GPU that students have, from 7.5 (T4) to
                     12.0 (RTX 50): needs nvcc 13 and no GPU; seven machine codes of each file take long
  --no-install       install no packages: say what is missing and go on
  --which-python     print the Python that all of this would use now, and do nothing
  --help             this text

LADDER_WORKLOADS, LADDER_VARIANTS and LADDER_DEVICE set the same defaults. LADDER_DATA names folders (separated by ':')
that hold data sets; PYTHON names the interpreter (3.11 or later) to use.
Exit status: 0 all is well; 1 something failed, named at the end; 2 bad usage.
END
}

# ------------------------------------------------------------------------------------------------------------ reporting

problems=()  # what failed but did not stop the rest
left_out=()  # what this machine cannot do

step() { printf '\n== [%3d s] %s\n' "$SECONDS" "$*"; }
say() { printf '   %s\n' "$*"; }
problem() {
  local earlier
  for earlier in "${problems[@]}"; do
    [[ $earlier != "$*" ]] || return 0
  done
  problems+=("$*")
  say "$*"
}
leave_out() {
  left_out+=("$*")
  say "left out: $*"
}
stop() {
  printf '\nrun_all.sh: %s\n' "$*" >&2
  exit 1
}

# logged LOG COMMAND...: runs it with all its output in LOG, and shows the end of that where it fails.
logged() {
  local log=$1 status=0
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if ((status)); then
    say "failed with status $status: $*"
    say "the end of $log:"
    tail -n 12 "$log" | sed 's/^/   | /'
  fi
  return "$status"
}

background=  # the process, and its group, of what runs beside the rest
# beside LOG COMMAND...: runs a function of this script beside what follows, with all that it says in LOG. One at a time.
beside() {
  local log=$1 known=${#problems[@]}
  shift
  mkdir -p "$(dirname "$log")"
  set -m  # a group of its own, so that it can be ended with all that it started
  (
    "$@"
    printf '%s\n' "${problems[@]:known}" >"$log.problems"
  ) >"$log" 2>&1 </dev/null &
  background=$!
  set +m
}
# join LOG WHAT: waits for it, and shows what it said.
join() {
  local log=$1 what=$2 status=0 line
  wait "$background" || status=$?
  background=
  cat "$log"
  if ((status)); then problem "$what ended with status $status (see $log)"; fi
  while read -r line; do
    if [[ -n $line ]]; then problem "$line"; fi
  done < <(cat "$log.problems" 2>/dev/null)
  rm -f "$log.problems"
}
trap 'if [[ -n $background ]]; then kill -- "-$background" 2>/dev/null; fi' EXIT

# ------------------------------------------------------------------------------------------ packages of the distribution

# at_least VERSION MINIMUM
at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

have_package() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true) == installed ]]
}
have_header() {
  printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" | g++ -x c++ -E - >/dev/null 2>&1
}
have_library() {
  [[ $(g++ -print-file-name="lib$1.so") == /* || $(g++ -print-file-name="lib$1.a") == /* ]]
}

# Prints the packages that are missing. One that came another way counts as there: its headers and library do.
missing_packages() {
  { command -v g++ && command -v make; } >/dev/null || echo build-essential
  command -v cmake >/dev/null || echo cmake
  command -v ninja >/dev/null || echo ninja-build
  command -v git >/dev/null || echo git
  [[ -e /etc/ssl/certs/ca-certificates.crt ]] || echo ca-certificates
  local package header library
  while read -r package header library; do
    have_package "$package" && continue
    if command -v g++ >/dev/null && have_header "$header" && { [[ -z $library ]] || have_library "$library"; }; then
      continue
    fi
    echo "$package"
  done <<'END'
nlohmann-json3-dev nlohmann/json.hpp
libcli11-dev CLI/CLI.hpp
libfmt-dev fmt/core.h fmt
libbenchmark-dev benchmark/benchmark.h benchmark
libgtest-dev gtest/gtest.h gtest
libboost-context-dev boost/context/fiber.hpp boost_context
libboost-dev boost/multiprecision/cpp_int.hpp
libopenblas-dev cblas.h openblas
END
  if [[ -z $(find_python 'import venv, ensurepip') ]]; then
    printf '%s\n' python3 python3-venv
  fi
  if [[ " ${steps[*]} " == *" test "* ]]; then
    command -v ccache >/dev/null || echo ccache
    { command -v mpirun || command -v mpiexec; } >/dev/null || echo openmpi-bin  # starts the ranks of some tests
    # Opens the explorer in tests. Ubuntu has it as a snap alone, which does not run in a container.
    if grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then
      command -v chromium >/dev/null || echo chromium
    fi
  fi
}

setup_packages() {
  step "Packages of the distribution"
  local missing as_root=()
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} == 0)); then
    say "nothing is missing"
  elif ((no_install)); then
    say "missing, and not installed because of --no-install: ${missing[*]}"
  elif ! command -v apt-get >/dev/null; then
    stop "missing: ${missing[*]} (the Debian names). There is no apt-get here: install them, then start again."
  else
    if ((EUID != 0)); then
      command -v sudo >/dev/null ||
        stop "missing: ${missing[*]}. Neither root nor sudo: have them installed with apt-get, then start again."
      as_root=(sudo)
      say "uses sudo to install: ${missing[*]}"
      sudo true || stop "missing: ${missing[*]}. sudo refused: have them installed with apt-get, then start again."
    else
      say "installs: ${missing[*]}"
    fi
    # A stale list of packages names files that are gone, so it is brought up to date; without network that fails.
    logged build/log/apt-update.log "${as_root[@]}" apt-get update || say "goes on with the package lists of before"
    logged build/log/apt-install.log "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends "${missing[@]}" || true
    mapfile -t missing < <(missing_packages)
    # Python without venv is enough where it has the packages itself: setup_python sees to that. ccache only saves time,
    # and tests of ranks under MPI's launcher, and of the explorer in a browser, are skipped where there is none.
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep -vE '^(python3|python3-venv|ccache|openmpi-bin|chromium)?$' || true)
    if ((${#missing[@]})); then
      stop "still missing: ${missing[*]}. With network: apt-get install ${missing[*]}; then start again."
    fi
  fi
  require_versions
}

require_versions() {
  local found
  if command -v cmake >/dev/null; then
    found=$(cmake --version | sed -n '1s/[^0-9]*//p')
    at_least "$found" 3.25 || stop "cmake is $found; the build needs 3.25 or later (Debian 12, Ubuntu 24.04)."
  fi
  if command -v g++ >/dev/null; then
    found=$(g++ -dumpfullversion)
    at_least "$found" 12 || stop "g++ is $found; the build needs 12 or later (Debian 12, Ubuntu 24.04)."
  fi
}

# --------------------------------------------------------------------------------------------------------------- Python

# find_python CODE: prints the first interpreter from 3.11 on that runs CODE without an error, or nothing.
find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c "import sys; assert sys.version_info >= (3, 11); $1" >/dev/null 2>&1; then
      command -v "$candidate"
      return
    fi
  done
}

have_module() { [[ -n $python ]] && "$python" -c "import $1" >/dev/null 2>&1; }

# Sets $python: .venv's where it is whole, otherwise an interpreter of the system's.
choose_python() {
  python=
  if [[ $(cat .venv/ready 2>/dev/null) == "$(venv_stamp)" ]] && .venv/bin/python -c '' 2>/dev/null; then
    python=.venv/bin/python
  else
    python=$(find_python 'import numpy, matplotlib')
    [[ -n $python ]] || python=$(find_python 'import numpy')
    [[ -n $python ]] || python=$(find_python '')
  fi
}

# Says what .venv was made from: it is whole only while its file `ready` says the same.
venv_stamp() { printf '%s %s' "$PWD" "$(sha256sum <requirements.txt)"; }

make_venv() {
  local maker
  maker=$(find_python 'import venv, ensurepip')
  if [[ -z $maker ]]; then
    say "no Python from 3.11 on that can make a virtual environment (Debian: python3-venv)"
    return 1
  fi
  rm -rf .venv
  say "makes .venv with $maker"
  logged build/log/venv.log "$maker" -m venv .venv || return 1
  logged build/log/pip.log .venv/bin/python -m pip install --disable-pip-version-check --retries 1 --timeout 15 \
    -r requirements.txt || return 1
  venv_stamp >.venv/ready
}

setup_python() {
  step "Python packages"
  choose_python
  if [[ $python == .venv/bin/python ]]; then
    say ".venv is up to date"
    return
  fi
  if make_venv; then
    choose_python
    return
  fi
  rm -rf .venv
  choose_python
  if [[ -z $python ]]; then
    say "there is no Python from 3.11 on: what needs it is left out below"
    return
  fi
  local module missing=()
  for module in numpy scipy sklearn PIL matplotlib bokeh jsonschema_rs pytest ruff; do
    have_module "$module" || missing+=("$module")
  done
  say "uses $python as it is; it lacks: ${missing[*]:-nothing}"
  if ((${#missing[@]})); then
    say "what needs those is left out below; with network, ./run_all.sh setup installs them into .venv"
  fi
}

# ---------------------------------------------------------------------------------------------------------------- build

# What is compiled here serves clones and later builds: all paths below the checkout are relative to it.
use_compiler_cache() {
  command -v ccache >/dev/null || return 0
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
  export CCACHE_DIR=${CCACHE_DIR:-$PWD/build/ccache} CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  # Without these a unit with a precompiled header is compiled anew, and so is all that Python builds, which sets LC_CTYPE.
  export CCACHE_SLOPPINESS=pch_defines,time_macros,locale
}

sees_gpu() { [[ $(nvidia-smi -L 2>/dev/null || true) == *"GPU 0"* ]]; }

# The files of the variants whose compilation or linking failed, from ninja's log.
broken_variants() {
  local id
  sed -nE -e 's,^FAILED:.*/(simt|cuda|cpu)_([A-Za-z0-9_]+)\.dir/.*,\2,p' \
    -e 's,^FAILED:.*/(simt|cuda|cpu)/([A-Za-z0-9_]+)\.(so|json)( .*)?$,\2,p' "$1" | sort -u |
    while read -r id; do
      find variants tests/fixtures -name "$id.cu" -o -name "$id.cpp" 2>/dev/null || true
    done
}

# The folder that a preset was configured into.
binary_dir_of() { sed -n 's/^-- Build files have been written to: //p' "build/log/configure-$1.log"; }

# build_preset NAME [TARGET]: configures and builds, by default everything; sets $binary_dir. A file that does not
# compile stops no other.
build_preset() {
  local preset=$1 target=${2:-all} log=build/log/build-$1.log file broken options=()
  step "Build, preset $preset${2:+, $2}"
  use_compiler_cache
  if [[ $target != all && $device != cuda ]] && ! sees_gpu; then
    options=(-D LADDER_CUDA=OFF)
    say "no GPU is found: no GPU code is compiled (./run_all.sh build --device cuda does so all the same)"
  fi
  if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
    export PATH=$PATH:/usr/local/cuda/bin
  fi
  logged "build/log/configure-$preset.log" cmake --preset "$preset" "${options[@]}" ||
    stop "the preset $preset cannot be configured."
  binary_dir=$(binary_dir_of "$preset")
  say "compiles with $jobs jobs; follow it in $log"
  logged "$log" cmake --build --preset "$preset" --target "$target" -j "$jobs" -- -k 0 && return
  mapfile -t broken < <(broken_variants "$log")
  for file in "${broken[@]}"; do
    problem "$file does not compile (see $log)"
    # Its module of before must not be run under the name of the file as it is now.
    find "$binary_dir" -name "*$(basename "${file%.*}").so" -delete
  done
  if ((${#broken[@]} == 0)); then
    problem "the build of preset $preset failed (see $log)"
  fi
}

# What `ladder count` compiles for a rung of the first chapters when it is first asked, so that it answers at once.
compile_counted() {
  local rungs=() file id
  for file in variants/[123]_*/*.cu; do
    id=$(basename "${file%.cu}")
    if [[ -e build/variants/simt/$id.so ]]; then rungs+=("$id"); fi
  done
  if ((${#rungs[@]} == 0)); then return; fi
  step "Build: what counts the loads, sectors and operations of chapters 1 to 3 (ladder count)"
  say "follow it in build/log/counted.log"
  printf '%s\n' "${rungs[@]}" | xargs -P "$jobs" -n 1 build/ladder count --build-only >build/log/counted.log 2>&1 ||
    leave_out "some modules to be counted (see build/log/counted.log): ladder count compiles them when it is asked"
}

# ---------------------------------------------------------------------------------------------------- data, run and draw

prepare_data() {
  step "Data sets"
  if have_module numpy; then
    "$python" datasets/prepare.py || problem "the data sets could not be prepared"
  else
    leave_out "the real data sets (${python:-python3} lacks numpy)"
  fi
}

has_gpu() {
  [[ -n $python ]] && build/ladder list --json | "$python" -c '
import json, sys
devices = json.load(sys.stdin)["devices"]
sys.exit(not any(device.get("kind") == "cuda" and device.get("available", True) for device in devices))'
}

# measured OPTION...: one `ladder run` into the record, beside what it holds already.
measured() {
  local status=0
  build/ladder run "$@" --out results/latest/record.json --dump results/latest/dump \
    "${ladder_arguments[@]}" >results/latest/table.txt || status=$?  # progress goes to the standard error
  case $status in
    0) ;;
    1) problem "some rows are invalid or failed: the table and results/latest/record.json say why" ;;
    *) stop "ladder run ended with status $status." ;;
  esac
}

brief=(--time-limit 60 --min-time 0.02 --max-time 0.2)  # many small problems: ten samples of each are enough
# The CPU device shows that the GPU's rungs are right: a few steps of each are enough, as its times mean nothing, and of
# small problems those that differ in kind. Globs: one whose data are missing is left out, which is no mistake here.
few_steps=(--scopes "initialise,assign,update,iteration" --time-limit 60 --min-time 0 --max-time 0.05)
small_problems='[abkw]*_tiny,[p]oints2d_tiny,[s]parse_tiny'
first_chapters=(1_memory 2_reuse cpu)

begin_results() {
  [[ -x build/ladder ]] || stop "build/ladder was not built: ./run_all.sh build shows why."
  mkdir -p results/latest
  find results/latest -mindepth 1 -delete
}

# The variants of the first chapters that have been built, with commas between them.
first_variants() {
  local chapter file id found=()
  for chapter in "${first_chapters[@]}"; do
    for file in variants/"$chapter"/*.{cu,cpp}; do
      id=$(basename "${file%.*}")
      if [[ -e build/variants/simt/$id.so || -e build/variants/cpu/$id.so ]]; then found+=("$id"); fi
    done
  done
  (IFS=, && printf '%s' "${found[*]}")
}

# Without a GPU: the first chapters built, validated on one workload and drawn, before the rest is compiled.
show_first_chapters() {
  local began=$SECONDS built ran
  build_preset default first_rungs
  built=$SECONDS
  begin_results
  step "Run: are the first chapters right? Step by step on kmcuda_tiny"
  measured --variants "$(first_variants)" --device auto --workloads kmcuda_tiny "${few_steps[@]}"
  ran=$SECONDS
  if ! have_module matplotlib; then
    leave_out "the first picture (${python:-python3} lacks matplotlib)"
  elif logged results/latest/log/first.log "$python" -m plots.draw results/latest/record.json --committed \
    --only overview --out results/latest; then
    step "First picture"
    printf '\nLook at results/latest/index.html: the first chapters, validated on this machine.\n'
  else
    problem "the first picture could not be drawn (see results/latest/log/first.log)"
  fi
  # From what the first chapters took; the factors are those of an idle machine with 2 cores.
  local seconds=$(((built - began) * 3 / 2 + (ran - built) * 45 + 120))
  say "now all other rungs, on all small workloads: about $(((seconds + 59) / 60)) more minutes"
  first_shown=1
}

run_ladder() {
  ((first_shown)) || begin_results
  if [[ $device != simt && $device != cpu ]] && has_gpu; then
    workloads=${workloads:-wine_k*,photo_k*,kmcuda,blobs30_00,blobs30_01}
    step "Run: variants $variants on $workloads, device $device"
    measured --variants "$variants" --device "$device" --workloads "$workloads" --time-limit 100 --min-time 0.3 \
      --max-time 1.5 --validation-budget 2e10
  elif [[ -n $workloads ]] || ((${#ladder_arguments[@]})); then
    step "Run: variants $variants on ${workloads:=*_tiny}, device $device"
    measured --variants "$variants" --device "$device" --workloads "$workloads" "${brief[@]}"
  else
    local resumed=()
    ((first_shown)) && resumed=(--resume)  # the first chapters have been run already
    step "Run: are they right? Variants $variants, step by step, on small problems, device $device"
    measured --variants "$variants" --device "$device" --workloads "$small_problems" "${few_steps[@]}" "${resumed[@]}"
    [[ $device == simt ]] && return
    step "Run: how fast is this CPU? Variants $variants that are its own, on larger points"
    # As a glob: left out where its data are missing, which is no mistake here.
    measured --variants "$variants" --device cpu --workloads 'kmcuda_tiny,points2d_tiny,[w]ine_k16,[p]hoto_k16' \
      "${brief[@]}" --resume
  fi
}

draw() {
  [[ -f results/latest/record.json ]] || stop "there is no results/latest/record.json: ./run_all.sh run makes it."
  step "Check and draw the record"
  if have_module numpy && have_module jsonschema_rs; then
    logged results/latest/log/check.log "$python" -m plots.check results/latest/record.json ||
      problem "the record does not keep to its schema (see results/latest/log/check.log)"
  else
    leave_out "the check of the record against its schema (${python:-python3} lacks numpy or jsonschema_rs)"
  fi
  if have_module matplotlib; then
    # The sources' figures from this machine's own record where it has a GPU, else from the committed ones.
    local of=()
    if has_gpu; then of=(results/latest/record.json); fi
    logged results/latest/log/seeds.log "$python" -m plots.seeds_page "${of[@]}" --out results/latest/seeds ||
      problem "the figures of the sources could not be drawn (see results/latest/log/seeds.log)"
    if have_module bokeh; then
      logged results/latest/log/report.log "$python" -m plots.explorer.page results/latest/record.json \
        --out results/latest/report.html || problem "the explorer failed (see results/latest/log/report.log)"
    else
      leave_out "the explorer, results/latest/report.html ($python lacks bokeh); docs/explorer.html is the committed one"
    fi
    if [[ -f docs/course/week1.md ]]; then
      logged results/latest/log/slides.log "$python" -m plots.slides --out results/latest/slides ||
        problem "the slides could not be made (see results/latest/log/slides.log)"
    fi
    logged results/latest/log/draw.log "$python" -m plots.draw results/latest/record.json --committed \
      --out results/latest || problem "the drawing failed (see results/latest/log/draw.log)"
  else
    leave_out "the pictures (${python:-python3} lacks matplotlib)"
  fi
  step "Result"
  build/ladder show --brief results/latest/record.json || problem "the record could not be shown"
  if [[ -f results/latest/report.html ]]; then
    printf '\nLook at results/latest/report.html: two rungs side by side, their code, times and counters.\n'
  fi
  if [[ -f results/latest/index.html ]]; then
    printf '\nLook at results/latest/index.html: what a GPU shows, and what this machine found.\n'
  fi
  printf '\nresults/latest/ also holds record.json with every sample, dump/ with the labels, each picture (.png, .svg), and\n'
  printf 'slides/ with a deck (.pdf, .png) for each week of the course.\n'
}

# ----------------------------------------------------------------------------------------------------------------- test

# All rungs and parts, those that others build upon included, to machine code for each of these. Files with a line
# `// for cuda: 90a` are compiled for that one alone.
architectures=(75 80 86 89 90 100 120)
check_architectures() {
  local log=build/log/architectures.log broken file
  step "GPU code for compute capabilities ${architectures[*]}"
  use_compiler_cache
  if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then
    export PATH=$PATH:/usr/local/cuda/bin
  fi
  command -v nvcc >/dev/null || stop "no nvcc is found: --architectures needs the CUDA toolkit 13."
  local list
  list=$(printf '%s-real;' "${architectures[@]}")
  logged build/log/configure-architectures.log cmake --preset ci -B build/architectures -D LADDER_CUDA=ON \
    -D LADDER_TESTS=OFF -D CMAKE_CUDA_ARCHITECTURES="${list%;}" || stop "the build cannot be configured."
  say "compiles with $jobs jobs; follow it in $log"
  logged "$log" cmake --build build/architectures --target gpu_code -j "$jobs" -- -k 0 && return
  mapfile -t broken < <(broken_variants "$log")
  for file in "${broken[@]}"; do problem "$file does not compile for all of them (see $log)"; done
  ((${#broken[@]})) || problem "not all GPU code compiles for all of them (see $log)"
}

# The CPU seconds of each part of the tests, in lines `SECONDS PART`; tests/seconds.txt holds their budget.
seconds_taken=$PWD/build/log/seconds.txt
# Sets $children_ms to the CPU time of this shell's children that have ended.
look_at_children() {
  local file=$seconds_taken.$BASHPID time seconds
  times >"$file"
  children_ms=0
  for time in $(tail -n 1 "$file"); do  # of user and system: 1m2.345s 0m6.789s
    time=${time%s}
    seconds=${time#*m}
    children_ms=$((children_ms + 60000 * ${time%m*} + 10#${seconds//[.,]/}))
  done
  rm -f "$file"
}
# timed PART COMMAND...: runs it, and adds the CPU seconds that its processes took.
timed() {
  local part=$1 status=0 before
  shift
  look_at_children
  before=$children_ms
  "$@" || status=$?
  look_at_children
  echo "$(((children_ms - before) / 1000)) $part" >>"$seconds_taken"
  return "$status"
}

# test_sanitized PRESET PATTERN: its GoogleTests but those whose names match.
test_sanitized() {
  local dir
  dir=$(binary_dir_of "$1")
  step "GoogleTest, preset $1"
  timed "GoogleTest $1" ctest --test-dir "$dir" --output-on-failure -j "$jobs" -E "$2" ||
    problem "ctest failed in $dir"
}

run_tests() {
  local first=default sanitized=asan
  if ((ci)); then
    first=ci
    sanitized=asan-ci
  elif ((all)); then
    sanitized=asan-all
    export LADDER_TEST_ALL=1  # tests of rungs that are tried through others, too
  fi
  mkdir -p build/log
  : >"$seconds_taken"
  beside build/log/setup_python.log setup_python  # most of it waits for the network and the disk
  timed "build $first" build_preset "$first"
  join build/log/setup_python.log "the setup of Python"
  choose_python
  local first_dir=$binary_dir
  # What --all alone runs with sanitizers, beside what the CMakeLists.txt of harness/ and tests/ leave out: tests that
  # take long and check numbers or counts rather than memory. tests/cli/test_run_all.py checks that each name exists, and
  # that ctest can read them: it takes nine pairs of parentheses in all.
  local -a only_all=(
    'awkward_sizes'                                                      # the default build runs these
    '^Right[.]'                                                          # right variants: special points check memory
    '^Loops_' 'StepsAndASolveOfItsOwn'                                   # loops that repeat such variants
    '^EagerAssignment[.](Is(Not|Of|TheBases|TheFirst)|Has|Outlives)'     # equal bits and equal counts
    '^ActiveSet[.](Is|Gives|Finds)' 'DirtyClustersOf.*DoesNotTouch' '^Prunes_' '^Pilot' 'DirectionsNeedNotBe'
    'SameBitsIterationByIteration' 'RoundedOperands[.]WhatTheyGive' '[.]BoundsHold'
    '[.]p_.*_f64_'                                                       # the second type of each peer
    '^Arrival[.](Leaves|OfFewer|SumsAnew|Keeps|Solves|Multiplies|Refuses)'  # equal bits: others try the same memory
    '^Chunks[.](AreThose|WithAn|StayWithin)' '^Upload[.](InPieces|Halves|WaitsFor|HasTheWidth)'
    'Widths[.](WherePoints|OnePoint)'
    'SeveralDevices[.](GiveTheBitsOfOneInDouble|AreTimed)'               # floats go the same ways, untimed
    'SeveralDevices[.]NameARowThatIsNotFinite.*v44a' 'DirtyClustersOf[.].*<double>' 'MovedSumsOf[.].*<double>'
  )
  # Special points of these take 20 s and more with sanitizers, and others take the same ways through memory.
  local slow_points='(i3_afkmc2|v13a_warp_centric|v24_certified|v32[cde]_.*|v33b_.*|v38a_.*|v44a_.*|v46[ac]_.*|v52_.*)'
  slow_points+='_f32_special_points$'
  local long
  long=$(IFS='|' && printf '%s' "${only_all[*]}|$slow_points")
  if ((all)); then long='^$'; fi
  prepare_data
  # Neither compilers nor tests keep all cores busy alone.
  say "the preset $sanitized is built beside the tests: build/log/beside.log"
  beside build/log/beside.log timed "build $sanitized" build_preset "$sanitized"
  step "GoogleTest, preset $first"
  local -a parts=(-E '^$')
  if ((ci)); then parts=(-E '_f32_special_points$' -R "$slow_points"); fi  # with sanitizers the other ones run below
  local -i part
  for ((part = 0; part < ${#parts[@]}; part += 2)); do
    timed "GoogleTest $first" ctest --test-dir "$first_dir" --output-on-failure -j "$jobs" "${parts[@]:part:2}" ||
      problem "ctest failed in $first_dir"
  done
  join build/log/beside.log "the build of preset $sanitized"
  beside build/log/beside.log test_sanitized "$sanitized" "$long"
  step "pytest"
  if have_module pytest; then
    # Side by side file by file, because the tests of a file may share a build.
    local several=()
    if have_module xdist; then several=(-n "$((jobs < 4 ? jobs : 4))" --dist loadfile --no-loadscope-reorder); fi
    LADDER_TEST_SECONDS=$seconds_taken "$python" -m pytest -q -m "not alone" "${several[@]}" || problem "pytest failed"
  else
    problem "the tests written in Python did not run: ${python:-python3} lacks pytest"
  fi
  join build/log/beside.log "GoogleTest with sanitizers"
  if have_module pytest; then
    step "pytest, tests of what times say"
    LADDER_TEST_SECONDS=$seconds_taken "$python" -m pytest -q -m alone || problem "pytest -m alone failed"
  fi
  if ((ci)) && have_module sys; then
    step "CPU seconds of each part, and its budget (tests/seconds.txt)"
    "$python" tests/tools/budget.py tests/seconds.txt "$seconds_taken" ||
      problem "the CPU seconds of the tests cannot be set beside tests/seconds.txt"
  fi
  step "ruff"
  if have_module ruff; then
    "$python" -m ruff check . || problem "ruff found something to mend"
  else
    leave_out "ruff's checks (it is not installed)"
  fi
}

# ----------------------------------------------------------------------------------------------------------------- main

steps=()
ladder_arguments=()
workloads=${LADDER_WORKLOADS:-}
variants=${LADDER_VARIANTS:-*}
device=${LADDER_DEVICE:-auto}
jobs=$(nproc)
no_install=0
first_shown=0  # 1: the record holds the first chapters already
all=0
ci=0
architectures_alone=0
python=
binary_dir=build

misuse() {
  printf "run_all.sh: %s; ./run_all.sh --help says what there is.\n" "$*" >&2
  exit 2
}

while (($#)); do
  case $1 in
    setup | build | data | run | draw | test) steps+=("$1") ;;
    --workloads | --variants | --device | --jobs)
      (($# > 1)) || misuse "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    --all) all=1 ;;
    --ci) ci=1 ;;
    --architectures) architectures_alone=1 ;;
    --no-install) no_install=1 ;;
    --which-python)  # for `ladder doctor`
      choose_python
      echo "$python"
      exit 0
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    --)
      shift
      ladder_arguments=("$@")
      break
      ;;
    *) misuse "'$1' is neither a step nor an option" ;;
  esac
  shift
done
[[ $jobs =~ ^[1-9][0-9]*$ ]] || misuse "--jobs must be a whole number from 1, not '$jobs'"
((all && ci)) && misuse "--all and --ci exclude each other"
first_chapters_first=0
if ((${#steps[@]} == 0)); then
  steps=(setup build data run draw)
  # What the caller chose is built and run in one go.
  if [[ -z $workloads && $variants == '*' && $device == auto ]] && ((${#ladder_arguments[@]} == 0)) && ! sees_gpu; then
    first_chapters_first=1
  fi
fi

choose_python
for name in "${steps[@]}"; do
  case $name in
    setup)
      setup_packages
      setup_python
      ;;
    build)
      if ((first_chapters_first)); then show_first_chapters; fi
      build_preset default rungs
      sees_gpu || compile_counted
      ;;
    data) prepare_data ;;
    run) run_ladder ;;
    draw) draw ;;
    test)
      if ((architectures_alone)); then
        check_architectures
      else
        setup_packages
        run_tests
      fi
      ;;
  esac
done

if ((${#left_out[@]})); then
  printf '\nLeft out here:\n'
  printf '  %s\n' "${left_out[@]}"
fi
if ((${#problems[@]})); then
  printf '\nrun_all.sh: ended after %d s with problems:\n' "$SECONDS" >&2
  printf '  %s\n' "${problems[@]}" >&2
  exit 1
fi
printf '\nDone after %d s.\n' "$SECONDS"
