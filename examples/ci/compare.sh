#!/bin/sh
# Runs a sweep, compares it with a baseline, and fails on a rule: for any CI runner.
#
#   compare.sh SWEEP OUT [--baseline FOLDER | --base REF] [--rule RULE]... [--plot 'FLAGS']
#
# FOLDER is a stored sweep (of --out). REF is a commit of git, such as origin/main, whose own SWEEP is run; where neither has one, as
# in the first pull request, there is nothing to compare, and the results alone are shown. RULE is one of 'l3sim diff --fail-if',
# such as 'output_tokens_per_s<-2%'. FLAGS are those of 'l3sim plot'. OUT has new (the sweep), figure.svg and summary.md
# afterwards. The exit code is 1 where a rule fails, 2 where something is wrong. L3SIM names another program than l3sim.
set -eu
usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
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
mkdir -p "$out"

"$l3sim" sweep "$sweep" --out "$out/new" || exit 2
if [ -n "$base" ] && git rev-parse -q --verify "$base^{commit}" >/dev/null && git cat-file -e "$base:./$sweep" 2>/dev/null; then
	tree=$out/tree baseline=$out/base
	git worktree add -q --detach "$tree" "$base" || exit 2
	"$l3sim" sweep "$tree/$(git rev-parse --show-prefix)$sweep" --out "$baseline" || exit 2
fi
# shellcheck disable=SC2086 # flags, split at spaces
"$l3sim" plot "$out/new" $plot --out "$out/figure.svg" || exit 2

status=0
{
	printf '## %s\n\n' "$sweep"
	if [ -n "$baseline" ] && [ -d "$baseline" ]; then
		set -- diff "$baseline" "$out/new" --markdown
		while IFS= read -r rule; do
			set -- "$@" --fail-if "$rule"
		done <"$rules"
		"$l3sim" "$@" || status=$?
	else
		printf 'No baseline to compare with: these are the first results.\n\n'
		"$l3sim" table "$out/new" --format markdown || status=2
	fi
	printf '\n![%s](figure.svg)\n\n%s\n' "$sweep" "$("$l3sim" version | head -n 1)"
} >"$out/summary.md"
exit "$status"
