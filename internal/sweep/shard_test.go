package sweep

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
)

func TestParseShard(t *testing.T) {
	type environment map[string]string
	array := func(id, first, last, count string) environment {
		return environment{slurmID: id, slurmMin: first, slurmMax: last, slurmCount: count, k8sIndex: "1"}
	}
	for _, c := range []struct {
		text string
		environment
		want Shard
		key  string // of the error
	}{
		{"0/1", nil, Shard{0, 1}, ""},
		{"7/8", array("0", "0", "1", "2"), Shard{7, 8}, ""}, // the environment is not read
		{"8/8", nil, Shard{}, "--shard"},
		{"-1/8", nil, Shard{}, "--shard"},
		{"1/0", nil, Shard{}, "--shard"},
		{"1/1000000", nil, Shard{}, "--shard"},
		{"1", nil, Shard{}, "--shard"},
		{"", nil, Shard{}, "--shard"},
		{"1/2/3", nil, Shard{}, "--shard"},
		{"auto", array("0", "0", "3", "4"), Shard{0, 4}, ""},
		{"auto", array("13", "10", "13", "4"), Shard{3, 4}, ""},
		{"auto", array("8", "0", "8", "5"), Shard{}, slurmCount}, // --array=0-9:2
		{"auto", array("7", "3", "7", "2"), Shard{}, slurmCount}, // --array=3,7
		{"auto", array("4", "0", "3", "4"), Shard{}, slurmID},
		{"auto", array("", "0", "3", "4"), Shard{}, slurmID},
		{"auto", array("x", "0", "3", "4"), Shard{}, slurmID},
		{"auto", environment{k8sIndex: "1"}, Shard{}, slurmMin},
		{"auto/4", environment{k8sIndex: "3"}, Shard{3, 4}, ""},
		{"auto/4", environment{k8sIndex: "4"}, Shard{}, k8sIndex},
		{"auto/4", array("0", "0", "3", "4"), Shard{1, 4}, ""},
		{"auto/4", nil, Shard{}, k8sIndex},
		{"auto/", nil, Shard{}, "--shard"},
	} {
		got, err := ParseShard("--shard", c.text, func(name string) string {
			if c.text[0] != 'a' {
				t.Errorf("%s asks for %s", c.text, name)
			}
			return c.environment[name]
		})
		var bad *input.Error
		if errors.As(err, &bad) != (c.key != "") || bad != nil && bad.Key != c.key || err == nil && got != c.want {
			t.Errorf("%s with %v: got %v, %v", c.text, c.environment, got, err)
		}
	}
}

// TestDeal: each point is in one shard, points that share a run are together, shards differ by one
// run, and no shard exceeds the mean tokens by more than the longest point, however lengths vary
// over the axes.
func TestDeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, count := rapid.IntRange(1, 200).Draw(t, "points"), rapid.IntRange(1, 40).Draw(t, "shards")
		period := rapid.IntRange(1, 12).Draw(t, "period")
		p := &Plan{}
		for i := range n {
			hash := rapid.StringMatching(`[0-9a-f]{2}`).Draw(t, "hash")
			p.Points = append(p.Points, Point{Hash: hash})
			for j := range p.Points { // points with equal hashes have the same requests
				if p.Points[j].Hash == hash {
					p.Points[i].Tokens = p.Points[j].Tokens
					break
				}
			}
			if p.Points[i].Tokens == 0 {
				p.Points[i].Tokens = int64(1 + 1000*(i%period)*(i%period))
			}
		}
		runs, tokens, longest, total := make([]int, count), make([]int64, count), int64(0), int64(0)
		of, in := p.deal(count), map[string]int{}
		for i, shard := range of {
			point := &p.Points[i]
			if old, seen := in[point.Hash]; seen && old != shard {
				t.Fatalf("%s is in shards %d and %d", point.Hash, old, shard)
			} else if !seen {
				in[point.Hash] = shard
				runs[shard]++
				tokens[shard] += point.Tokens
				longest, total = max(longest, point.Tokens), total+point.Tokens
			}
		}
		if slices.Max(runs) > slices.Min(runs)+1 {
			t.Fatalf("points a shard: %v", runs)
		}
		if slices.Max(tokens)-total/int64(count) > longest {
			t.Fatalf("tokens a shard: %v, the longest point has %d", tokens, longest)
		}
		var parts []int
		for i := range count {
			parts = append(parts, p.Part(Shard{i, count}).index...)
		}
		if slices.Sort(parts); !slices.Equal(parts, firstIndices(n)) {
			t.Fatalf("points of all parts: %v", parts)
		}
	})
}

// FuzzParseShard: a shard is within its count; anything else is refused with an input.Error.
func FuzzParseShard(f *testing.F) {
	for _, text := range []string{"0/4", "3/4", "4/4", "auto", "auto/3", "-1/2", "1/", "0/99999999999999999999"} {
		f.Add(text, "1", "4")
	}
	f.Fuzz(func(t *testing.T, text, id, count string) {
		s, err := ParseShard("--shard", text, func(name string) string {
			switch name {
			case slurmMin:
				return "0"
			case slurmMax:
				return "3"
			case slurmCount:
				return count
			}
			return id
		})
		var bad *input.Error
		if err != nil && !errors.As(err, &bad) || err == nil && (s.Index < 0 || s.Index >= s.Count || s.Count > maxShards) {
			t.Fatalf("%q of %q: %+v, %v", text, id, s, err)
		}
	})
}
