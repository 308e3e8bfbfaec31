#!/bin/sh
# Runs one suite: `timed.sh NAME TABLE PYTEST-ARGUMENTS…`. Notes name, result and wall time in TABLE; ends with the suite's exit code.
set -u
name=$1
table=$2
shift 2

started=$(date +%s)
echo "== $name =="
"$@"
code=$?
seconds=$(($(date +%s) - started))
result=passed
[ "$code" -eq 0 ] || result="FAILED ($code)"
printf '%-22s %-12s %5d s\n' "$name" "$result" "$seconds" >> "$table"
exit "$code"
