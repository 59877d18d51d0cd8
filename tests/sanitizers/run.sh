#!/usr/bin/env bash
# Builds the engines with a sanitizer in a copy of the tree and runs something there.
#   tests/sanitizers/run.sh address|thread [COMMAND...]
#   tests/sanitizers/run.sh leaks [TEST FILES]     LeakSanitizer, which needs no build of its own
# COMMAND runs with the copy as current folder; without one: the tests that fit the sanitizer. See README.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD kind=${1:?address, thread or leaks}
shift
[ "$kind" != leaks ] || exec "$root/.venv/bin/python" -m tests.sanitizers.leaks "$@"
tree=$root/out/$kind
python=$root/.venv/bin/python
mkdir -p "$tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 tar c --ignore-failed-read | tar x -C "$tree"
ln -sfn "$root/../shared" "$root/out/shared"
ln -sfn "$root/.venv" "$tree/.venv"
cd "$tree"
case $kind in
address) VCS_SANITIZE=1 "$python" setup.py -q build_ext --inplace ;;
thread) VCS_SANITIZE=thread "$python" setup.py -q build_ext --inplace ;;
*) echo "unknown sanitizer $kind: use address, thread or leaks" >&2; exit 2 ;;
esac
stdcxx=$(g++ -print-file-name=libstdc++.so)
if [ "$kind" = address ]; then
    # leaks are for leaks.py, which tells ours from those of CPython and NumPy. PYTHONMALLOC: an overrun of an
    # object must not hide in an arena.
    export LD_PRELOAD="$(gcc -print-file-name=libasan.so) $stdcxx" PYTHONMALLOC=malloc
    export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    [ $# -gt 0 ] || set -- "$python" -m pytest -m "not slow" -p no:cacheprovider tests
else
    export LD_PRELOAD="$(gcc -print-file-name=libtsan.so) $stdcxx" OPENBLAS_NUM_THREADS=1
    export TSAN_OPTIONS="suppressions=$tree/tests/sanitizers/tsan.supp:history_size=7:exitcode=66"
    [ $# -gt 0 ] || set -- "$python" -m pytest -p no:cacheprovider tests/test_vector.py
fi
exec "$@"
