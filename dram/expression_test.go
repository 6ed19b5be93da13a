package dram

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// evaluated returns the value of a text with a tCK in ps and x = 5, and the names in the text.
func evaluated(text, round string, tck int) (n float64, time bool, names []string, err error) {
	e, names, err := parseExpression(text)
	if err != nil {
		return 0, false, nil, err
	}
	s := &scope{tck: units.Duration(tck), round: roundings[round], lookup: func(name string) (float64, bool) { return 5, name == "x" }}
	q := e(s)
	return q.n, q.time, names, s.err
}

// TestExpressionsByHand: at 625 ps a clock a time of 7.5 ns is 12 clocks.
func TestExpressionsByHand(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		time bool
	}{
		{"3", 3, false}, {"1+2*3", 7, false}, {"(1+2)*3", 9, false}, {"10-4-3", 3, false}, {"8/4/2", 1, false}, {"2*3-8/4+1", 5, false}, {".5", 0.5, false}, {" 2 + x ", 7, false}, {"x*x", 25, false},
		{"max(4, 7.5ns)", 12, false}, {"min(4, 7.5ns)", 4, false}, {"max(1, 3, 2)", 3, false}, {"min(2, 1, 3)", 1, false}, {"max(min(7, 8), 2)", 7, false},
		{"7.5ns", 7500, true}, {"625ps", 625, true}, {"3.9us", 3.9e6, true}, {"2ms", 2e9, true}, {"0.0004ns", 0, true}, {"0.0006ns", 1, true}, {"(7.5ns)", 7500, true},
		{"7.5ns + 0", 12, false}, {"2*625ps", 2, false}, {"7.6ns + 0", 13, false}, {"7.6ns - 625ps", 12, false},
		{"floor(3.9us)", 6240, false}, {"floor(7.6ns)", 12, false}, {"floor(3.9)", 3, false}, {"floor(7.6ns / 2)", 6, false}, // 13 clocks, halved
		{"1e15", 1e15, false}, {"1000000000ns", 1e12, true},
	} {
		got, time, _, err := evaluated(c.text, "jedec", 625)
		if err != nil || got != c.want || time != c.time {
			t.Errorf("%s: %v, a time %t, %v; want %v, %t", c.text, got, time, err, c.want, c.time)
		}
	}
	if _, _, names, _ := evaluated("x + max(y, 2*x.z)", "up", 625); !slices.Equal(names, []string{"x", "y", "x.z"}) {
		t.Errorf("names %v", names)
	}
	for text, want := range map[string]string{
		"":             `column 1 of "": want a number, a time, a name or a parenthesis`,
		"1+":           `column 3 of "1+": want a number, a time, a name or a parenthesis`,
		"@":            `column 1 of "@": want a number, a time, a name or a parenthesis`,
		"(1":           `column 3 of "(1": want a closing parenthesis`,
		"1 2":          `column 3 of "1 2": want an operator`,
		"1)":           `column 2 of "1)": want an operator`,
		"max(1":        `column 6 of "max(1": want a comma or a closing parenthesis`,
		"max(1 2)":     `column 7 of "max(1 2)": want a comma or a closing parenthesis`,
		"mean(1)":      `column 8 of "mean(1)": want max, min or floor`,
		"floor(1, 2)":  `column 12 of "floor(1, 2)": want one value to round down`,
		"7.5xs":        `column 6 of "7.5xs": want a number, or a time such as 7.5ns`,
		"1.2.3":        `column 6 of "1.2.3": want a number, or a time such as 7.5ns`,
		"1.1e15":       `column 7 of "1.1e15": want a number, or a time such as 7.5ns`,
		"1000000001ns": `column 13 of "1000000001ns": want a number, or a time such as 7.5ns`,
		"1/0":          "division by 0",
		"1/(x-5)":      "division by 0",
		"y":            "no value of y",
		"y + z":        "no value of y", // the first name without a value
	} {
		if _, _, _, err := evaluated(text, "jedec", 625); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, _, _, err := evaluated("1ns + 1", "jedec", 0); err == nil || err.Error() != "a time before tCK is known" {
		t.Errorf("without a tCK: %v", err)
	}
	if got, _, _, err := evaluated("floor(1.5ns) + 1", "jedec", 0); err == nil || got != 1 {
		t.Errorf("without a tCK: %v, %v", got, err)
	}
}

// TestRoundingsByHand: 12 clocks of 625 ps are 7,500 ps. JESD79-4C ignores up to 2.5% of a clock: 12.0256 clocks become 12, 12.0272 become
// 13. JESD79-5 reduces the time by 0.3%: 7,522 ps become 11.99.. clocks, 7,523 ps 12.0007. The third rounding does neither.
func TestRoundingsByHand(t *testing.T) {
	for _, c := range []struct {
		round string
		ps    float64
		want  float64
	}{
		{"up", 7500, 12}, {"up", 7501, 13}, {"up", 1, 1}, {"up", 0, 0},
		{"jedec", 7500, 12}, {"jedec", 7516, 12}, {"jedec", 7517, 13}, {"jedec", 8125, 13}, {"jedec", 0, 0}, {"jedec", 16, 0}, {"jedec", 17, 1},
		{"jedec5", 7500, 12}, {"jedec5", 7522, 12}, {"jedec5", 7523, 13}, {"jedec5", 8124, 13}, {"jedec5", 0, 1},
	} {
		if got := roundings[c.round](c.ps, 625); got != c.want {
			t.Errorf("%s, %v ps: %v clocks, want %v", c.round, c.ps, got, c.want)
		}
	}
}
