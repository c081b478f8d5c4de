#!/bin/sh
# Hands imports over between processes by NIXL, on a machine with one or two NVIDIA GPUs, and writes handoff.md beside itself.
#
#   ./handoff.sh [PART ...]     all parts, or these: owners, probe, small, large, memcheck, no-ipc, segments, threads, load
#
# All of it takes longer than a machine may be had for. So what was run of the same commit, GPUs and day is not run again, but for
# what failed: rows.md remembers it. Remove that file to begin anew.
#
# P's pools are in the memory of GPU 0, D's pages in that of the last GPU, D's host pools pinned. Of two ranks the second has it the
# other way round.
cd "$(dirname "$0")" || exit 1
parts="owners probe small large memcheck no-ipc segments threads load"
for part in "$@"; do
    case " $parts " in
        *" $part "*) ;;
        *)
            echo "there is no part '$part': $parts" >&2
            exit 2
            ;;
    esac
done
if ! nvidia-smi > /dev/null 2>&1; then
    echo "skipped: nvidia-smi finds no GPU here"
    exit 0
fi
home=$PWD
PAGELIFT_NIXL=$(find "$home/nixl" -name libnixl_capi.so | head -1)
export PAGELIFT_NIXL
# UCX's part for GPUs wants the runtime library, and its modules are beside it.
LD_LIBRARY_PATH="$(dirname "$PAGELIFT_NIXL"):$(echo "$home"/nixl/*.libs)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
XDG_RUNTIME_DIR="$home/run" XDG_CACHE_HOME="$home/cache"
export XDG_RUNTIME_DIR XDG_CACHE_HOME
mkdir -p "$XDG_RUNTIME_DIR"
last=$(($(nvidia-smi --list-gpus | wc -l) - 1))
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
today="$(date --utc +%Y-%m-%d), $((last + 1)) of $gpu, commit $(cat commit). Written by \`handoff.sh\` of \`cargo xtask device-bundle --nixl\`."
# Its first line is whose rows they are.
if [ "$(head -1 rows.md 2> /dev/null)" = "$today" ]; then
    grep -v "| FAILED: " rows.md > rows.new
    mv rows.new rows.md
else
    rm -f load-* failed-*
    echo "$today" > rows.md
fi

# row WHAT RESULT
row() { printf '| %s | %s |\n' "$1" "$2" | tee -a rows.md; }

# known WHAT: whether this has been run.
known() { grep -qF "| $1 |" rows.md; }

# hand FOLDER WORDS P-BACKEND D-BACKEND MANIFEST RANKS POLICY: one import, in a folder of its own, which has `what` and `result` after it.
# Before D's command stands $before.
hand() {
    folder=$1 words=$2 from=$3 to=$4 manifest=$home/$5 ranks=$6 policy=$7
    p_gpu=0 d_gpu=$last
    [ "$ranks" -gt 1 ] && p_gpu=0,$last d_gpu=$last,0
    what="$(basename "$manifest" .json), $policy, $ranks ranks ($words): $from $p_gpu to $to $d_gpu"
    known "$what" && return
    mkdir -p "$folder" && cd "$folder" || return
    echo "$what" > ./what
    # What takes longer than this hangs: nothing here is to stay.
    timeout 240 "$home/pagelift" prefill "$manifest" --backend "$from" --gpu $p_gpu --tp "$ranks" --ready ready --json \
        --policy "$policy" --timeout 120 > prefill.json 2> prefill.log &
    producer=$!
    waited=0
    while [ ! -e ready ] && [ $waited -lt 1200 ] && kill -0 $producer 2> /dev/null; do
        sleep 0.1
        waited=$((waited + 1))
    done
    if [ -e ready ]; then
        # shellcheck disable=SC2086
        timeout 240 $before "$home/pagelift" decode "$manifest" --backend "$to" --gpu "$d_gpu" --tp "$ranks" --from "$(cat ready)" \
            --json --policy "$policy" --timeout 120 --generate 20 > decode.json 2> decode.log
        decoded=$?
    else
        decoded=none
    fi
    # P has nothing to wait for where D has failed.
    [ "$decoded" = 0 ] || kill $producer 2> /dev/null
    wait $producer
    prefilled=$?
    if [ "$decoded" = 0 ] && [ $prefilled = 0 ]; then
        sum() { grep -o "\"$1\": [0-9]*" "$2" | awk '{ all += $2 } END { print all + 0 }'; }
        summary=$(cat decode.log decode.json | grep -o 'ERROR SUMMARY: .*' | head -1)
        said="verified: $(sum bytes_read decode.json) bytes read, digests of $(sum digests_compared decode.json) blocks compared"
        echo "$said${summary:+; $summary}" > result
    else
        echo "FAILED: P $prefilled ($(tail -1 prefill.log)), D $decoded ($(tail -1 decode.log 2> /dev/null))" > result
    fi
}

# begin WORDS P-BACKEND D-BACKEND MANIFEST RANKS POLICY: the same, beside others; `finish` awaits them.
begun=0
begin() {
    begun=$((begun + 1))
    hand "hand-$begun" "$@" &
}
finish() {
    wait
    one=0
    while [ $one -lt $begun ]; do
        one=$((one + 1))
        [ -e "hand-$one/result" ] || continue
        row "$(cat "hand-$one/what")" "$(cat "hand-$one/result")"
        name=$(tr -cs 'a-z0-9.\n' '-' < "hand-$one/what")
        for file in prefill.log decode.log; do
            # It may have failed before.
            rm -f "failed-$name$file"
            grep -q FAILED "hand-$one/result" && [ -e "hand-$one/$file" ] && cp "hand-$one/$file" "failed-$name$file"
        done
    done
    rm -rf hand-*
    begun=0
}

# Of two GPUs any lifts from the pool that any has pinned, whichever is the caller's, with and without access to each other's memory.
owners() {
    what="laws of two GPUs: pool's owner, lifting GPU and current device in every combination, peer access absent and present"
    known "$what" && return
    if ./laws --ignored --test-threads 1 --show-output two_gpus several_gpus > laws.log 2>&1 && ! grep -q '^skipped' laws.log; then
        row "$what" "$(grep '^test result' laws.log)"
    else
        row "$what" "FAILED: $(grep -E '^skipped|panicked|^test result' laws.log | head -1)"
    fi
}

# What UCX says of its transports, once: in probe.log. Of what is not run again, what it has said before stays there.
probe() {
    ./pagelift doctor > doctor.txt 2>&1
    UCX_LOG_LEVEL=info UCX_PROTO_INFO=y NIXL_LOG_LEVEL=INFO
    export UCX_LOG_LEVEL UCX_PROTO_INFO NIXL_LOG_LEVEL
    : > probe.new
    for how in cpu,cpu,lift cpu,cuda,lift cuda,cpu,lift cuda,cuda,lift cuda,cuda,direct; do
        from=${how%%,*} policy=${how##*,} to=${how#*,}
        begin "with a log" "$from" "${to%,*}" manifests/small/hybrid.json 1 "$policy"
        wait
        if [ -e "hand-$begun/result" ]; then
            { echo "== $how"; cat "hand-$begun/prefill.log" "hand-$begun/decode.log"; } >> probe.new 2> /dev/null
        else
            awk -v heading="== $how" '/^== / { own = $0 == heading } own' probe.log >> probe.new 2> /dev/null
        fi
    done
    mv probe.new probe.log
    finish
    unset UCX_LOG_LEVEL UCX_PROTO_INFO NIXL_LOG_LEVEL
}

# every MANIFEST...: each policy, on one rank and on two, six beside each other.
every() {
    for manifest in "$@"; do
        for policy in lift round-down direct; do
            for ranks in 1 2; do
                begin "20 tokens" cuda cuda "$manifest" $ranks $policy
            done
        done
        finish
    done
}

small() { every manifests/small/*.json; }
large() { every manifests/*.json; }

# each WORDS: one import of each policy.
each() {
    for policy in lift round-down direct; do
        begin "$1" cuda cuda manifests/small/hybrid.json 1 $policy
    done
    finish
}

memcheck() {
    if ! command -v compute-sanitizer > /dev/null; then
        row "D under memcheck" "skipped: compute-sanitizer is not installed"
        return
    fi
    before="compute-sanitizer --error-exitcode 9 --report-api-errors no"
    each "D under compute-sanitizer"
    before=
}

# Without the access of one GPU to the other's memory.
no_ipc() {
    UCX_TLS=^cuda_ipc
    export UCX_TLS
    each "without CUDA IPC"
    unset UCX_TLS
}

# ratio WORDS FROM INTO OPTION...: imports beside one large read.
ratio() {
    what="bf16 MLA in blocks of 128, $2 to $3, $1" from=$2 into=$3
    shift 3
    known "$what" && return
    if timeout 120 ./pagelift load --from "$from" --into "$into" --only mla-128 --pairs 1 --imports 100 --seconds 0 \
        "$@" > ratio.log 2>&1; then
        row "$what" "$(awk -F ' *┆ *' '
            /bf16 MLA/ { printf "one read %s, import %s, ratio %s; ", $6, $7, $8 }
            /NIXL.s calls, which/ { print "549 pieces are begun by calls of " $2 " µs" }' ratio.log)"
    else
        row "$what" "FAILED: $(tail -1 ratio.log)"
    fi
}

# What the size of UCX's segments over TCP makes of reads from a GPU into a host pool.
segments() {
    for size in 8k 64k 512k 4m; do
        ratio "segments of $size" device:0 "lift:$last" --parameter "engine_config=TCP_TX_SEG_SIZE=$size,TCP_RX_SEG_SIZE=$size"
    done
}

# What it makes of imports that NIXL's plugin begins their reads by several threads.
threads() {
    for count in 2 4 8; do
        for ends in host,host "device:0,lift:$last" "device:0,device:$last"; do
            ratio "$count threads" "${ends%,*}" "${ends#*,}" --parameter num_threads=$count --parameter split_batch_size=32
        done
    done
}

# most FROM TO: the most MiB in use of each GPU among lines FROM to TO of gpu.log.
most() {
    awk -F, -v from="$1" -v to="$2" -v gpus=$((last + 1)) '
        int((NR - 1) / gpus) >= from && int((NR - 1) / gpus) <= to && $2 > most[$1 + 0] { most[$1 + 0] = $2 + 0 }
        END { for (gpu = 0; gpu < gpus; gpu++) printf "%s%d", gpu ? " and " : "", most[gpu] }' gpu.log
}

# Imports beside one large read, and many at a time, for each policy: load-*.md, .json and .svg. LOAD_SECONDS are those of each.
load() {
    seconds=${LOAD_SECONDS:-60}
    for how in host,host device:0,lift:$last device:0,device:$last "device:0,lift:$last,--round-down"; do
        from=${how%%,*}
        rest=${how#*,}
        into=${rest%%,*}
        down=
        [ "$rest" = "$into" ] || down=${rest#*,}
        what="64 imports in flight for $seconds s: $from to $into${down:+, $down}"
        known "$what" && continue
        name=load-$(echo "$from-$into$down" | tr -d ':')
        nvidia-smi --query-gpu=index,memory.used --format=csv,noheader,nounits -l 1 > gpu.log &
        watch=$!
        sleep 3
        # shellcheck disable=SC2086
        if timeout 600 ./pagelift load --from "$from" --into "$into" $down --pairs 1 --seconds "$seconds" --aborts 10 --out "$name" \
            > "$name.log" 2>&1; then
            samples=$(($(wc -l < gpu.log) / (last + 1)))
            sleep 3
            said=$(grep -E 'landed|held at the end' "$name.log" | sed 's/[│┆]//g; s/  */ /g; s/^ //; s/ *$/;/' | tr '\n' ' ')
            third=$((seconds / 3))
            said="${said}MiB in use of each GPU: $(most 0 1) before, $(most $((samples - seconds)) $((samples - 2 * third))) in the first"
            said="$said third, $(most $((samples - third)) $((samples - 4))) in the last, $(most $((samples + 1)) $((samples + 9))) after"
        else
            said="FAILED: $(tail -1 "$name.log")"
        fi
        kill $watch
        wait $watch 2> /dev/null
        row "$what" "$said"
    done
}

# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $parts
for part in "$@"; do
    case $part in
        no-ipc) no_ipc ;;
        *) $part ;;
    esac
done
{
    printf '# Hand-offs\n\n%s\n\n| what | result |\n|---|---|\n' "$today"
    tail -n +2 rows.md
    for file in load-*.md; do
        [ -e "$file" ] && printf '\n' && sed -E "1s/.*/# ${file%.md}/; s/^#/##/" "$file"
    done
} > handoff.md
if grep -q "| FAILED: " rows.md; then
    echo "something failed: see handoff.md and failed-*"
    exit 1
fi
echo "all passed: see handoff.md"
