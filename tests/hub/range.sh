#!/bin/sh
# The calls of fetch/fetch.h against the test hub: lists in pages, ranges through redirects, faults on the way.
. tests/hub/common.inc
range() { "$BUILD/tests/hub/range" "$@" 2> "$tmp/err"; }
part() { tail -c +$(($2 + 1)) "$1" | head -c "$3" | cksum; }
big=model-00003-of-00003.safetensors

got=$(range demo/bytes main $big 123 2000000 | cksum)
is "a range in the middle of a large file" "$got" "$(part "$many/$big" 123 2000000)"
got=$(range demo/tiny main "sub/a name with spaces & more.txt" 2 5)
is "a range of a small file whose name must be escaped" "$got" "small"
range demo/bytes main $big 3900000 4 > /dev/null
has "a range behind the end is refused" "$(cat "$tmp/err")" "has 3900003 bytes, 4 from 3900000 on were requested"

whole_after() { # NAME FAULTS [TRIES STALL]
    hub set "$2"
    got=$(range demo/bytes main $big 1000 3000000 $3 $4 | cksum)
    is "right bytes although $1" "$got" "$(part "$many/$big" 1000 3000000)"
}
whole_after "the connection ends early" '{"truncate": {"after": 700000, "times": 3}}'
whole_after "a connection stalls" '{"stall": {"after": 700000, "times": 1}}' 3 1
whole_after "the whole file comes for a range" '{"ignore": {"times": 1}}'
whole_after "another range comes" '{"shift": {"times": 1}}'
whole_after "more comes than was asked for" '{"extra": {}}'
whole_after "the hub is limited for a second" '{"limit": {"every": 1, "times": 1, "s": 1, "how": "RateLimit"}}'
whole_after "the second host has an error" '{"status": {"where": "bytes", "code": 503, "times": 2}}'
whole_after "the address is for another range" '{"unsigned": {"times": 1}}'
whole_after "the list comes in pages of one" '{"page": {"size": 1}}'

fails_with() { # NAME FAULTS SENTENCE
    hub set "$2"
    range demo/bytes main $big 1000 3000000 > /dev/null
    is "$1: the status says so" $? 1
    has "$1: a sentence" "$(cat "$tmp/err")" "$3"
}
fails_with "always the whole file" '{"ignore": {}}' "the hub sent the whole file"
fails_with "always another range" '{"shift": {}}' 'the hub sent "bytes 1001-3001000/3900003"'
fails_with "another commit" '{"commit": {}}' "changed while it was read"
fails_with "another hash" '{"etag": {}}' "changed while it was read"
fails_with "redirects in a circle" '{"loop": {}}' "redirects"
fails_with "a path out of the directory" '{"sneak": {"path": "../../.bashrc"}}' 'the file name "../../.bashrc"'
fails_with "an absolute path" '{"sneak": {"path": "/etc/passwd"}}' 'the file name "/etc/passwd"'
fails_with "no access" '{"token": {"is": "secret"}}' "needs an access token in HF_TOKEN"
fails_with "the hub is broken" '{"status": {"where": "list", "code": 500}}' "tried 3 times"

hub set '{"token": {"is": "secret"}}'
got=$(HF_TOKEN=secret range demo/bytes main $big 0 3900003 | cksum)
is "the token opens it" "$got" "$(cksum < "$many/$big")"
is "the second host was asked" "$([ "$(hub get bytes)" -gt 0 ] && echo yes)" yes
is "the second host never saw the token" "$(hub get tokens_elsewhere)" 0
printf 'secret\n' > "$tmp/token"
got=$(HF_TOKEN_PATH=$tmp/token range demo/bytes main $big 0 3900003 | cksum)
is "the token from its file opens it" "$got" "$(cksum < "$many/$big")"
hub set '{}'
range demo/none main x 0 1
has "a repository that is not there" "$(cat "$tmp/err")" "does not have demo/none"
range demo/bytes v9 x 0 1
has "a revision that is not there" "$(cat "$tmp/err")" "does not have demo/bytes, revision v9"
range ../x main x 0 1
has "a name that is none" "$(cat "$tmp/err")" "not the name of a repository"
HF_HUB_OFFLINE=1 range demo/bytes main x 0 1
has "offline and not there" "$(cat "$tmp/err")" "is not in $tmp/hf/hub/models--demo--bytes, and HF_HUB_OFFLINE is set"
exit $status
