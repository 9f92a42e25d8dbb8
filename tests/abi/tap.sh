# Sourced by the scripts here: prints test results in the Test Anything Protocol.
#   check NAME COMMAND...   runs COMMAND; its output is shown when it fails
#   skip NAME REASON
#   finish                  prints the plan; exits 1 when something failed
tap_count=0
tap_failed=0
tap_output=$(mktemp)

check() {
    local name=$1
    shift
    tap_count=$((tap_count + 1))
    if "$@" >"$tap_output" 2>&1; then
        echo "ok $tap_count - $name"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $name"
        sed 's/^/# /' "$tap_output" | awk '{ line[NR] = $0 }
            END { for (i = 1; i <= NR; i++) if (i <= 30 || i > NR - 30) print line[i]; else if (i == 31) print "# ..." }'
    fi
}

skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

finish() {
    rm -f "$tap_output"
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
    exit
}
