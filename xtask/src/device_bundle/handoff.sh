#!/bin/sh
# Hands imports over between processes by NIXL, on a machine with one or two NVIDIA GPUs, and writes handoff.md beside itself.
#
#   ./handoff.sh [PART ...]     all parts, or these: probe, small, large, load
#
# All of it takes longer than a machine may be had for. So what handoff.md has of the same commit, GPUs and day is not run again, but for
# what failed; remove the file to begin anew.
#
# P's pools are in the memory of GPU 0, D's pages in that of the last GPU, D's host pools pinned. Of two ranks the second has it the
# other way round.
cd "$(dirname "$0")" || exit 1
failed=0
line() { printf '%s\n' "$1" | tee -a handoff.md; }

# known CELLS: whether this has been run.
known() { grep -qF "$1" handoff.md; }

for part in "$@"; do
    case $part in
        probe | small | large | load) ;;
        *)
            echo "there is no part '$part': probe, small, large, load" >&2
            exit 2
            ;;
    esac
done
if ! nvidia-smi > /dev/null 2>&1; then
    echo "skipped: nvidia-smi finds no GPU here"
    exit 0
fi
PAGELIFT_NIXL=$(find "$PWD/nixl" -name libnixl_capi.so | head -1)
export PAGELIFT_NIXL
# UCX's part for GPUs wants the runtime library, and its modules are beside it.
LD_LIBRARY_PATH="$(dirname "$PAGELIFT_NIXL"):$(echo "$PWD"/nixl/*.libs)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
XDG_RUNTIME_DIR="$PWD/run" XDG_CACHE_HOME="$PWD/cache"
export XDG_RUNTIME_DIR XDG_CACHE_HOME
mkdir -p "$XDG_RUNTIME_DIR"
last=$(($(nvidia-smi --list-gpus | wc -l) - 1))
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
today="$(date --utc +%Y-%m-%d), $((last + 1)) of $gpu, commit $(cat commit). Written by \`handoff.sh\` of \`cargo xtask device-bundle --nixl\`."
if grep -qxF "$today" handoff.md 2> /dev/null; then
    grep -v "| FAILED: " handoff.md > handoff.new
    mv handoff.new handoff.md
else
    rm -f handoff.md
    line "# Hand-offs"
    line ""
    line "$today"
    line ""
    line "| P | D | import | result |"
    line "|---|---|---|---|"
fi

# hand WORDS P-BACKEND D-BACKEND MANIFEST RANKS POLICY: one import, and a line of what came of it.
hand() {
    words=$1 from=$2 to=$3 manifest=$4 ranks=$5 policy=$6
    name=$(basename "$manifest" .json)
    p_gpu=0 d_gpu=$last
    [ "$ranks" -gt 1 ] && p_gpu=0,$last d_gpu=$last,0
    cells="| $from $p_gpu | $to $d_gpu | $name, $policy, $ranks ranks ($words) |"
    known "$cells" && return
    rm -f ready prefill.log decode.log
    # What takes longer than this hangs: nothing here is to stay.
    timeout 240 ./pagelift prefill "$manifest" --backend "$from" --gpu $p_gpu --tp "$ranks" --ready ready --json \
        --policy "$policy" --timeout 120 > prefill.json 2> prefill.log &
    producer=$!
    waited=0
    while [ ! -e ready ] && [ $waited -lt 1200 ] && kill -0 $producer 2> /dev/null; do
        sleep 0.1
        waited=$((waited + 1))
    done
    if [ -e ready ]; then
        timeout 240 ./pagelift decode "$manifest" --backend "$to" --gpu "$d_gpu" --tp "$ranks" --from "$(cat ready)" --json \
            --policy "$policy" --timeout 120 --generate 20 > decode.json 2> decode.log
        decoded=$?
    else
        decoded=none
    fi
    # P has nothing to wait for where D has failed.
    [ "$decoded" = 0 ] || kill $producer 2> /dev/null
    wait $producer
    prefilled=$?
    if [ "$decoded" = 0 ] && [ $prefilled = 0 ]; then
        said=$(tr -d ' ,\n"' < decode.json | sed 's/[{}\[\]]//g' | grep -o 'bytes_read:[0-9]*' | head -1)
        time=$(grep -o '"read_seconds": [0-9.e-]*' decode.json | head -1)
        said="verified; $said, $time"
    else
        failed=1
        said="FAILED: P $prefilled ($(tail -1 prefill.log)), D $decoded ($(tail -1 decode.log 2> /dev/null))"
        for file in prefill.log decode.log; do
            [ -e $file ] && cp $file "failed-$name-$from-$to-$ranks-$policy-$file"
        done
    fi
    line "$cells $said |"
}

probe() {
    ./pagelift doctor > doctor.txt 2>&1
    # What UCX says of its transports, once: in probe.log.
    UCX_LOG_LEVEL=info UCX_PROTO_INFO=y NIXL_LOG_LEVEL=INFO
    export UCX_LOG_LEVEL UCX_PROTO_INFO NIXL_LOG_LEVEL
    : > probe.log
    for from in cpu cuda; do
        for to in cpu cuda; do
            hand "with a log" $from $to manifests/small/hybrid.json 1 lift
            { echo "== P $from, D $to"; cat prefill.log decode.log; } >> probe.log
        done
    done
    hand "with a log" cuda cuda manifests/small/hybrid.json 1 direct
    { echo "== P cuda, D cuda, direct"; cat prefill.log decode.log; } >> probe.log
    unset UCX_LOG_LEVEL UCX_PROTO_INFO NIXL_LOG_LEVEL
}

# every MANIFEST...: each policy, on one rank and on two.
every() {
    for manifest in "$@"; do
        for policy in lift round-down direct; do
            for ranks in 1 2; do
                hand "20 tokens" cuda cuda "$manifest" $ranks $policy
            done
        done
    done
}

small() { every manifests/small/*.json; }
large() { every manifests/*.json; }

# Imports beside one large read, and many at a time, for each policy: load-*.md, .json and .svg. LOAD_SECONDS are those of each.
load() {
    seconds=${LOAD_SECONDS:-60}
    for how in host,host device:0,lift:$last device:0,device:$last "device:0,lift:$last,--round-down"; do
        from=${how%%,*}
        rest=${how#*,}
        into=${rest%%,*}
        down=
        [ "$rest" = "$into" ] || down=${rest#*,}
        cells="| $from | $into $down | 64 imports in flight for $seconds s |"
        known "$cells" && continue
        name=load-$(echo "$from-$into$down" | tr -d ':')
        # shellcheck disable=SC2086
        if timeout 600 ./pagelift load --from "$from" --into "$into" $down --pairs 2 --seconds "$seconds" --aborts 10 --out "$name" \
            > "$name.log" 2>&1; then
            said=$(grep -E 'landed|held at the end' "$name.log" | sed 's/[│┆]//g; s/  */ /g' | tr '\n' ';')
        else
            failed=1
            said="FAILED: $(tail -1 "$name.log")"
        fi
        line "$cells $said |"
    done
}

for part in "${@:-probe small large load}"; do
    # Without arguments there is one word of all parts.
    for one in $part; do $one; done
done
rm -f ready prefill.json decode.json
[ $failed = 0 ] && echo "all passed" || echo "something failed: see handoff.md and failed-*"
exit $failed
