#!/bin/sh
# The speed of another commit against that of this tree: both are built in folders of their own and run in turns, RUNS times (5).  It prints a line
# for each figure: the middle one of each build, and the middle one of the ratios of each turn, now over before.  Nothing here passes or fails.
#
#     [RUNS=5] [BACKEND=cuda] [SUBJECT="--synthetic 35b"] [THREADS=2] [OUT=DIR] sh tests/bench/compare.sh REV [PART...]
#
# Parts: answers (the demo model on the CPU, 0 to 3 drafts: seconds of CPU and seconds that passed, with loading the model; the ids must be the
# same), steps (`bench sweep --long` of SUBJECT, else of the 122B geometry: decode steps of 1, 2, 3, 4 and 8 rows at each context, and prompts).
# Without a part answers, with BACKEND=cuda steps.  Where others use the machine too, seconds of CPU say more than seconds that passed.
BUILD=${BUILD:-build} OUT=${OUT:-$BUILD/compare} RUNS=${RUNS:-5} BACKEND=${BACKEND:-cpu} SUBJECT=${SUBJECT:---synthetic 122b} THREADS=${THREADS:-2}
MODEL=${MODEL:-assets/demo}
[ $# -gt 0 ] || { sed -n '/^# The speed/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
rev=$(git rev-parse --verify --short "$1^{commit}") || exit 2
shift
cuda=$([ "$BACKEND" = cuda ] && echo 1 || echo 0)
mkdir -p "$OUT" && rm -f "$OUT"/*.times "$OUT"/*.figures || exit 1

build() {       # NAME DIR COMMIT
    ${MAKE:-make} -s -C "$2" -j"$(nproc)" all CUDA=$cuda ${CC:+"CC=$CC"} BUILD="$(realpath "$OUT")/$1" COMMIT="$3" > "$OUT/$1.log" 2>&1 ||
        { echo "$3 cannot be built, see $OUT/$1.log: $(tail -n 1 "$OUT/$1.log")" >&2; exit 1; }
}
[ -d "$OUT/$rev.tree" ] || {
    mkdir -p "$OUT/$rev.part" && git archive "$rev" | tar -x -C "$OUT/$rev.part" && mv "$OUT/$rev.part" "$OUT/$rev.tree"
} || exit 1
build "$rev" "$OUT/$rev.tree" "$rev"
build now . "$(git describe --always --dirty)"

# In odd turns the older build runs first, in even ones the newer one.
turn() { [ $(($1 % 2)) = 1 ] && echo "$rev now" || echo "now $rev"; }

# FIGURE BEFORE NOW, a line for each turn, becomes a line for each figure.
figures() {     # UNIT < LINES
    awk -v unit="$1" -v OFMT=%.6g -v CONVFMT=%.6g '
    function middle(list,   a, n, i, j, t) {
        n = split(list, a, " ")
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && a[j] + 0 < a[j - 1] + 0; j--) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t }
        least = a[1]; most = a[n]
        return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
    }
    { if (!($1 in turns)) order[++n] = $1; turns[$1]++; before[$1] = before[$1] " " $2; now[$1] = now[$1] " " $3; ratio[$1] = ratio[$1] " " $3 / $2 }
    END {
        for (i = 1; i <= n; i++) {
            f = order[i]; name = f; gsub("_", " ", name)
            m = middle(ratio[f]); from = least; to = most
            printf "%-40s %10.3f %10.3f %-5s now over before %.3f (%.3f to %.3f, %d turns)\n", name,
                middle(before[f]), middle(now[f]), unit, m, from, to, turns[f]
        }
    }'
}

# What is asked with D drafts, for `debug generate`.
questions() {   # D
    "$OUT/now/q35chat" debug render --model "$MODEL" << END | sed "s/}\$/, \"max_tokens\": 160, \"draft\": $1}/"
{"messages": [{"role": "user", "content": "Hello, who are you?"}]}
{"messages": [{"role": "user", "content": "What is 4821 + 3799?"}]}
{"messages": [{"role": "user", "content": "Give me a JSON object with the name Ann, the age 31 and the city Oslo."}]}
{"messages": [{"role": "user", "content": "Tell me a story of a river."}]}
END
}
# Writes the seconds of CPU and those that passed.
timed() {       # BUILD DRAFTS
    start=$(date +%s%N)
    sh -c '"$1" debug generate --model "$2" --head int8 --threads "$3" < "$4" > "$5" && times > "$6"' \
        sh "$OUT/$1/q35chat" "$MODEL" "$THREADS" "$OUT/questions.$2" "$OUT/$1.ids" "$OUT/$1.cpu" || return 1
    tail -n 1 "$OUT/$1.cpu" | tr ms '  ' | awk -v ns=$(($(date +%s%N) - start)) '{ print $1 * 60 + $2 + $3 * 60 + $4, ns / 1e9 }'
}
ids() { grep -o '"ids": \[[^]]*\]' "$OUT/$1.ids"; }
answers() {
    for drafts in 0 1 2 3; do
        questions $drafts > "$OUT/questions.$drafts"
        for i in $(seq "$RUNS"); do
            for b in $(turn "$i"); do timed "$b" $drafts > "$OUT/$b.times" || { echo "$b: debug generate failed" >&2; return 1; }; done
            [ "$(ids "$rev")" = "$(ids now)" ] || echo "$drafts drafts: the two builds say different ids: $OUT/$rev.ids, $OUT/now.ids"
            paste -d ' ' "$OUT/$rev.times" "$OUT/now.times" |
                awk -v d=$drafts '{ print "drafts_" d ":_CPU", $1, $3; print "drafts_" d ":_passed", $2, $4 }' >> "$OUT/answers.figures"
        done
    done
    figures s < "$OUT/answers.figures"
}

# The figures of a sweep: steps have ten columns, prompts five.
swept() {
    awk 'NF == 10 && $1 ~ /^[0-9]+$/ && $2 ~ /^[12348]$/ { print "step_of_" $2 (1 < $2 ? "_rows" : "_row") "_at_" $1, $3 }
         NF == 5 && $1 ~ /^[0-9]+$/ { print "prompt_of_" $1, $2 }' "$1" | sort
}
steps() {
    for i in $(seq "$RUNS"); do
        for b in $(turn "$i"); do
            "$OUT/$b/q35chat" bench sweep $SUBJECT --backend "$BACKEND" --threads "$THREADS" --long --depth 0 > "$OUT/$b.sweep" 2>&1 ||
                { echo "$b: bench sweep failed: $(tail -n 1 "$OUT/$b.sweep")" >&2; return 1; }
            swept "$OUT/$b.sweep" > "$OUT/$b.figures"
        done
        join "$OUT/$rev.figures" "$OUT/now.figures" >> "$OUT/steps.figures"
    done
    sort -s -V -k 1,1 "$OUT/steps.figures" | figures ms
}

[ $# -gt 0 ] || set -- "$([ "$BACKEND" = cuda ] && echo steps || echo answers)"
echo "== before $rev, now $(git describe --always --dirty), $BACKEND, $THREADS threads, load $(cut -d ' ' -f 1 /proc/loadavg)"
for part in "$@"; do
    case $part in
    answers | steps) $part || exit 1 ;;
    *) echo "there is no part '$part', only answers, steps" >&2; exit 2 ;;
    esac
done
