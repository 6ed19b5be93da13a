#!/bin/sh
# Runs a sweep, compares it with a baseline, and fails on a rule: for any CI runner.
#
#   compare.sh SWEEP OUT [--baseline FOLDER | --base REF] [--rule RULE]... [--plot 'FLAGS']
#
# FOLDER is a stored sweep (of --out). REF is a commit of git, such as origin/main, whose own SWEEP is run. If FOLDER does not
# exist yet or REF has no SWEEP, as in the first pull request, there is nothing to compare: the results alone are shown, and rules
# are only checked for mistakes. RULE is one of 'l3sim diff --fail-if', such as 'output_tokens_per_s<-2%'. FLAGS are those of
# 'l3sim plot'. OUT has new (the sweep), figure.svg and summary.md afterwards. The exit code is 1 where a rule fails, 2 where
# something is wrong. A point without results trips every rule unless it had none in the baseline. L3SIM names another program
# than l3sim.
set -eu
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
sweep=$1 out=$2
shift 2
l3sim=${L3SIM:-l3sim} baseline='' base='' plot='--kind pareto --x tbt_p99_ms --y output_tokens_per_s'
rules=$(mktemp)
tree=''
cleanup() {
	rm -f "$rules"
	[ -z "$tree" ] || git worktree remove --force "$tree"
}
trap cleanup EXIT
while [ $# -gt 0 ]; do
	[ $# -ge 2 ] || usage
	case $1 in
	--baseline) baseline=$2 ;;
	--base) base=$2 ;;
	--rule) printf '%s\n' "$2" >>"$rules" ;;
	--plot) plot=$2 ;;
	*) usage ;;
	esac
	shift 2
done
[ -z "$baseline" ] || [ -z "$base" ] || usage
[ -f "$sweep" ] || { printf '%s: expected a sweep file, as of docs/sweep.md\n' "$sweep" >&2; exit 2; }
[ ! -e "$out" ] || { printf '%s: it exists already: remove it, or choose another folder\n' "$out" >&2; exit 2; }
command -v "$l3sim" >/dev/null || { printf '%s: no such program: install it, or set L3SIM to its path\n' "$l3sim" >&2; exit 2; }
if [ -n "$base" ] && ! git rev-parse -q --verify "$base^{commit}" >/dev/null; then
	printf '%s: expected a commit of this repository: fetch it first (actions/checkout with fetch-depth: 0)\n' "$base" >&2
	exit 2
fi
case $base$sweep in
"$base"/*) [ -z "$base" ] || { printf '%s: with --base, expected a path from here, as in the repository\n' "$sweep" >&2; exit 2; } ;;
esac
mkdir -p "$out"

# 1 is the exit code of a sweep some of whose points failed: they are compared, too.
sweep() { "$l3sim" sweep "$1" --out "$2" || [ $? -eq 1 ] || exit 2; }
sweep "$sweep" "$out/new"
if [ -n "$base" ] && git cat-file -e "$base:./$sweep" 2>/dev/null; then
	tree=$out/tree baseline=$out/base
	git worktree add -q --detach "$tree" "$base" || exit 2
	sweep "$tree/$(git rev-parse --show-prefix)$sweep" "$baseline"
fi
first=''
if [ -z "$baseline" ] || [ ! -d "$baseline" ]; then first=$out/new; fi
set -- diff "${first:-$baseline}" "$out/new" --markdown
while IFS= read -r rule; do
	set -- "$@" --fail-if "$rule"
done <"$rules"
status=0
if [ -n "$first" ]; then # compared with themselves, results show mistakes in rules
	message=$("$l3sim" "$@" 2>&1 >/dev/null) || [ $? -eq 1 ] || { printf '%s\n' "$message" >&2; exit 2; }
else
	changes=$("$l3sim" "$@") || status=$?
	[ "$status" -le 1 ] || exit 2
fi
# shellcheck disable=SC2086 # flags, split at spaces
"$l3sim" plot "$out/new" $plot --out "$out/figure.svg" || exit 2

{
	printf '## %s\n\n' "$sweep"
	if [ -n "$first" ]; then
		printf 'No baseline to compare with%s: these are the first results.\n\n' "${baseline:+ in $baseline}"
		"$l3sim" table "$out/new" --format markdown || status=2
	else
		printf '%s\n' "$changes"
	fi
	printf '\n![%s](figure.svg)\n\n%s\n' "$sweep" "$("$l3sim" version | head -n 1)"
} >"$out/summary.md"
exit "$status"
