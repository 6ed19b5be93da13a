package design

import (
	"go/constant"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/system"
)

func TestConditions(t *testing.T) {
	values := map[string]constant.Value{
		"node.ranksets": constant.MakeInt64(4), "node.channels": constant.MakeInt64(16),
		"node.memory_capacity": constant.MakeString("2TiB"), "run.model": constant.MakeString("opt-66b"),
		"scheduler.chunking": constant.MakeBool(true), "pcie.efficiency": constant.MakeFloat64(0.79),
	}
	for _, c := range []struct {
		text string
		want any // bool, or part of the error
	}{
		{"node.ranksets <= 4 && node.channels != 8", true},
		{"node.ranksets * node.channels == 64", true},
		{"node.channels / 3 > 5 && node.channels % 3 == 1", true}, // exact division, not integer division
		{"(node.ranksets + 1) - 5 == 0 || false", true},
		{`run.model == "opt-66b"`, true},
		{`run.model < "p"`, true},
		{`!(run.model == "gpt-175b")`, true},
		{`node.memory_capacity >= "512GiB"`, true}, // by size: as text "2" < "5"
		{`node.memory_capacity == "2048GiB"`, true},
		{`node.memory_capacity < "3TB"`, true},
		{"scheduler.chunking", true},
		{"scheduler.chunking == false", false},
		{"pcie.efficiency < 0.8 && -pcie.efficiency < 0", true},
		{"node.ranksets", "is 4, not true or false"},
		{`node.memory_capacity > 4`, "has no meaning"},
		{`run.model && true`, "has no meaning"},
		{"node.ranksets / 0 > 1", "4 / 0 has no value"},
		{"pcie.efficiency % 2 > 1", "has no meaning"},
		{"!node.ranksets", "has no meaning"},
		{"1 + scheduler.chunking > 1", "1 + true has no meaning"},
		{`run.model + 1 > 1`, "has no meaning"},
		{"node.ranksets << 4 > 1", "has no meaning"},
		{"scheduler.chunking > false", "has no meaning"},
	} {
		condition, bad := ParseCondition(system.Keys(), c.text)
		if bad != nil {
			t.Errorf("%s: %v", c.text, bad)
			continue
		}
		got, bad := condition.holds(func(key string) constant.Value { return values[key] })
		switch want := c.want.(type) {
		case bool:
			if bad != nil || got != want {
				t.Errorf("%s: got %t, %v", c.text, got, bad)
			}
		case string:
			if bad == nil || !strings.Contains(bad.Error(), want) {
				t.Errorf("%s: got %v, want %s", c.text, bad, want)
			}
		}
	}
	for text, want := range map[string]string{
		"node.ranksets <":          "expected operand",
		"f(node.ranksets)":         "expected keys, numbers",
		"node.rankset < 4":         `did you mean "node.ranksets"`,
		"node.ranksets[0] == 1":    "expected keys, numbers",
		"node < 4":                 "a key of the section",
		"node.ranksets == 'a' ; 2": "column",
	} {
		if _, bad := ParseCondition(system.Keys(), text); bad == nil || !strings.Contains(bad.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, bad, want)
		}
	}
}

func FuzzCondition(f *testing.F) {
	for _, text := range []string{"node.ranksets <= 4 && true", `run.model == "a" || !(1 + 2 * 3 / 4 % 5 > 6)`, "0x1p-2 == .25", "'a' == 1i"} {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		if c, bad := ParseCondition(system.Keys(), text); bad == nil {
			_, _ = c.holds(func(string) constant.Value { return constant.MakeInt64(3) })
		}
	})
}
