package figure

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestLanes: the first lane is on top, and each bar begins where it should on the axis.
func TestLanes(t *testing.T) {
	l := &Lanes{Title: "T", X: "clocks", Lanes: []Lane{{Name: "upper", Bars: []Bar{{From: 0, To: 10, Label: "a"}}}, {Name: "lower", Bars: []Bar{{From: 90, To: 100, Label: "b"}}}}}
	var svg strings.Builder
	if err := l.Write(&svg, "svg"); err != nil {
		t.Fatal(err)
	}
	at := func(text string) (x, y float64) {
		m := regexp.MustCompile(`<text x="([-0-9.]+)" y="([-0-9.]+)"[^>]*>` + text + "<").FindStringSubmatch(svg.String())
		if m == nil {
			t.Fatalf("no %s in %s", text, svg.String())
		}
		fmt.Sscan(m[1], &x)
		fmt.Sscan(m[2], &y)
		return x, y
	}
	_, upper := at("upper")
	_, lower := at("lower")
	ax, a := at("a")
	bx, b := at("b")
	if (upper < lower) != (a < b) || upper-lower > -20 && upper-lower < 20 || upper > lower && !strings.Contains(svg.String(), "scale(1, -1)") {
		t.Errorf("upper at %g, lower at %g, its bars at %g and %g", upper, lower, a, b)
	}
	if upper-a > 5 || a-upper > 5 || bx-ax < 500 {
		t.Errorf("bars at %g,%g and %g,%g; the lane at %g", ax, a, bx, b, upper)
	}
}

// TestStepOfOne: the curve of one sample rises from 0 to 1.
func TestStepOfOne(t *testing.T) {
	d, err := Select(tableOf(t, "id,time_ms\n1,5\n"), Selection{Kind: "cdf", X: "time_ms"})
	if err != nil {
		t.Fatal(err)
	}
	var svg strings.Builder
	if err := d.Write(&svg, "svg", ""); err != nil {
		t.Fatal(err)
	}
	for _, path := range regexp.MustCompile(`<path d="M[-0-9.]+,([-0-9.]+)[^"]*?,([-0-9.]+)"[^>]*#0072B2`).FindAllStringSubmatch(svg.String(), -1) {
		var from, to float64
		fmt.Sscan(path[1], &from)
		if fmt.Sscan(path[2], &to); to-from > 100 || from-to > 100 {
			return
		}
	}
	t.Errorf("no curve rises:\n%s", svg.String())
}
