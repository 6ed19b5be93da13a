package configs_test

import (
	"testing"

	. "github.com/l3sim/l3sim/configs"
)

// BenchmarkLoad is the cost of one point of a sweep before it runs.
func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(Options{Sets: []string{"node.ranksets=8", "run.seed=7"}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSHA256 hashes a configuration, as a sweep does for each of its points.
func BenchmarkSHA256(b *testing.B) {
	c, err := Load(Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.SHA256(); err != nil {
			b.Fatal(err)
		}
	}
}
