package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShardFile: the first line of a shard's file and each of its points, at and beyond their limits, with the line and what was expected.
func TestShardFile(t *testing.T) {
	dir := t.TempDir()
	head := func(shard, of, points int) string {
		return fmt.Sprintf(`{"schema":"l3sim/shard/2","shard":%d,"of":%d,"points":%d,"columns":["a","b"]}`, shard, of, points)
	}
	point := func(index int, hash, cells string) string {
		return fmt.Sprintf(`{"index":%d,"point":%q,"cells":[%s]}`, index, hash, cells)
	}
	const schema, shards, cells = `{"schema":"l3sim/shard/2",...}`, "a shard of 1 to 100000 of a plan with that many points at most", "a point with an index below points and a cell a column"
	for _, c := range []struct {
		lines []string
		want  string // in the error, "" for none
	}{
		{[]string{head(0, 1, 0)}, ""}, {[]string{head(99999, 100000, 100000)}, ""}, {[]string{head(0, 1, 2), point(0, "x", "1,2"), point(1, "y", `"a",null`)}, ""},
		{[]string{head(-1, 1, 0)}, ":1: expected " + shards}, {[]string{head(1, 1, 0)}, ":1: expected " + shards}, {[]string{head(0, 0, 0)}, ":1: expected " + shards}, {[]string{head(0, 100001, 0)}, ":1: expected " + shards},
		{[]string{head(0, 1, -1)}, ":1: expected " + shards}, {[]string{head(0, 1, 100001)}, ":1: expected " + shards},
		{[]string{strings.Replace(head(0, 1, 0), "/2", "/1", 1)}, ":1: expected " + schema}, {[]string{"x"}, "expected " + schema}, {[]string{""}, "expected " + schema},
		{[]string{head(0, 1, 2), point(2, "x", "1,2")}, ":2: expected " + cells}, {[]string{head(0, 1, 2), point(-1, "x", "1,2")}, ":2: expected " + cells}, {[]string{head(0, 1, 2), point(0, "", "1,2")}, ":2: expected " + cells},
		{[]string{head(0, 1, 2), point(0, "x", "1")}, ":2: expected " + cells}, {[]string{head(0, 1, 2), point(0, "x", "1,2,3")}, ":2: expected " + cells}, {[]string{head(0, 1, 2), point(0, "x", "1,2"), "{"}, ":3: "},
	} {
		if err := os.WriteFile(filepath.Join(dir, shardName), []byte(strings.Join(c.lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		got, err := readShard(dir, func(p *pointLine) error {
			if p.Index != n {
				t.Errorf("point %d comes as number %d", p.Index, n)
			}
			n++
			return nil
		})
		if c.want == "" && (err != nil || n != len(c.lines)-1 || len(got.Columns) != 2) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.200s: %d points, %v, want %q", strings.Join(c.lines, "\n"), n, err, c.want)
		}
	}
	// Without a reader of points the first line suffices; an error of the reader ends it.
	if err := os.WriteFile(filepath.Join(dir, shardName), []byte(head(3, 7, 2)+"\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readShard(dir, nil); err != nil || got.Shard != 3 || got.Of != 7 || got.Points != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, shardName), []byte(head(0, 1, 2)+"\n"+point(0, "x", "1,2")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := errors.New("own")
	if _, err := readShard(dir, func(*pointLine) error { return own }); !errors.Is(err, own) {
		t.Errorf("got %v", err)
	}
	if _, err := readShard(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "expected the folder of a sweep with --shard") {
		t.Errorf("an empty folder: %v", err)
	}
}
