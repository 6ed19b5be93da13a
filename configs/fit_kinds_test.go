package configs

import (
	"strings"
	"testing"
)

// TestCheckFit: a fault in a user's [fit] is reported with its line.
func TestCheckFit(t *testing.T) {
	const ok = "[fit]\nsource = \"mine\"\nrows = 3\nbase = \"h200-sxm\"\n\n[fit.kinds]\n"
	for text, want := range map[string]string{
		ok + `gemm = {rows = 3, mean = 5, median = 4.0, p90 = 12.0, range = "m 1 to 8"}`: "",
		ok + `all_reduce = {from = "h200-sxm"}`:                                          "",
		"[gpu.gemm]\nridge = 1.0":                                                        "",
		ok + `gemm = {rows = "three"}`:                                                   "f.toml:7: fit.kinds.gemm.rows: expected a whole number, not a string",
		ok + `gemm = 3`:                                                                  "f.toml:7: fit.kinds.gemm: expected a table, not ",
		ok + `gemm = {median = "4%"}`:                                                    "f.toml:7: fit.kinds.gemm.median: expected a decimal number, not a string",
		ok + `gemm = {rows = -3}`:                                                        "f.toml:7: fit.kinds.gemm.rows = -3: expected 0 or more rows",
		ok + `gemm = {p90 = -1.0}`:                                                       "f.toml:7: fit.kinds.gemm.p90 = -1: expected an error in percent, 0 or more",
		ok + `gemm = {mean = nan}`:                                                       "f.toml:7: fit.kinds.gemm.mean = NaN: expected an error in percent, 0 or more",
		ok + `gemm = {from = "h200-sxn"}`:                                                `f.toml:7: fit.kinds.gemm.from = "h200-sxn": expected one of `,
		strings.Replace(ok, "h200-sxm", "h20", 1):                                        `f.toml:4: fit.base = "h20": expected one of `,
		strings.Replace(ok, "= 3", "= -3", 1):                                            "f.toml:3: fit.rows = -3: expected 0 or more rows",
		strings.Replace(ok, "3", "true", 1):                                              "f.toml:3: fit.rows: expected a whole number, not true or false",
	} {
		err := checkFit("f.toml", text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
	}
}
