#!/bin/sh
# Runs what needs an NVIDIA GPU, and writes results.md beside itself. No Rust is needed here.
#
#   ./run.sh [PART ...]     all parts, or these: laws, sanitizer, c, restore, bench
#
# `./pagelift bench --only a,d` measures some figures only.
cd "$(dirname "$0")" || exit 1
failed=0
line() { printf '%s\n' "$1" | tee -a results.md; }

for part in "$@"; do
    case $part in
        laws | sanitizer | c | restore | bench) ;;
        *)
            echo "there is no part '$part': laws, sanitizer, c, restore, bench" >&2
            exit 2
            ;;
    esac
done
if ! nvidia-smi > /dev/null 2>&1; then
    echo "skipped: nvidia-smi finds no GPU here"
    exit 0
fi
rm -f results.md
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
line "# On a GPU"
line ""
line "$(date --utc +%Y-%m-%d), $gpu, commit $(cat commit). Written by \`run.sh\` of \`cargo xtask device-bundle\`."
line ""
line "| what | result |"
line "|---|---|"

# A command that must end well, and the words that begin the line of its output which is shown.
step() {
    what=$1 words=$2
    shift 2
    if "$@" > step.log 2>&1; then
        said=$(grep -E "$words" step.log | tail -1 | sed 's/[│┆]//g; s/^=* *//; s/  */ /g; s/ $//')
    else
        failed=1
        said="FAILED: $(tail -1 step.log)"
        cp step.log "failed-$(echo "$what" | tr -c 'a-z0-9\n' '-').log"
    fi
    line "| $what | $said |"
}

# What was measured of the GPU stays here too.
export XDG_CACHE_HOME="$PWD/cache"
export PROPTEST_CASES="${PROPTEST_CASES:-32}"

laws() {
    step "laws on the GPU" "^test result" ./laws --ignored --test-threads 1
}

sanitizer() {
    if ! command -v compute-sanitizer > /dev/null; then
        line "| laws under compute-sanitizer | skipped: it is not installed |"
        return
    fi
    for tool in memcheck racecheck initcheck synccheck; do
        # Those tests make the driver refuse calls, which is no error of ours.
        PROPTEST_CASES=2 step "laws under $tool" "SUMMARY" \
            compute-sanitizer --tool $tool --error-exitcode 1 ./laws --ignored --test-threads 1 --skip that_refuses
    done
}

c() {
    step "the engine in C, replayed from graphs" "verified" ./c_engine --cuda
    step "captures in C" "verified" ./c_captures
    if command -v compute-sanitizer > /dev/null; then
        step "the engine in C under memcheck" "verified" compute-sanitizer --error-exitcode 1 ./c_engine --cuda
    fi
}

restore() {
    for manifest in manifests/*.json manifests/small/*.json; do
        name=$(basename "$manifest" .json)
        for mode in whole exact exact-zeroed; do
            step "restore $name, $mode, 300 tokens" "verified" \
                ./pagelift restore "$manifest" --backend cuda --mode $mode --generate 300
        done
        step "digest $name" "by one launch" ./pagelift digest "$manifest" --backend cuda
        step "gather $name" "launches on" ./pagelift gather "$manifest" --backend cuda
    done
}

bench() {
    step "doctor" "first launch" ./pagelift doctor --backend cuda
    cp step.log doctor.txt
    step "calibrate" "host to GPU" ./pagelift calibrate --force
    cp step.log calibrate.txt
    step "bench" "bars? met" ./pagelift bench --backend cuda --out bench
}

for part in "${@:-laws sanitizer c restore bench}"; do
    # Without arguments there is one word of all parts.
    for one in $part; do $one; done
done
rm -f step.log
[ $failed = 0 ] && echo "all passed" || echo "something failed: see results.md and failed-*.log"
exit $failed
