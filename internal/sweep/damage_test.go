package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestJournalChangedByte changes bytes of a journal: of the first line, ends and starts of lines and checksums all, of
// others some. Entries that are read are as recorded; at most two are lost, which one byte can join; and losses are counted
// unless the journal looks cut short.
func TestJournalChangedByte(t *testing.T) {
	points := []string{"a", "b", "c"}
	text := write(t, t.TempDir(), points...)
	want := map[string]*Entry{}
	read := func(text []byte, to map[string]*Entry) (*Journal, error) {
		j := &Journal{}
		_, err := j.read("journal", bytes.NewReader(text), func(e *Entry) error {
			to[e.Point] = e
			return nil
		})
		return j, err
	}
	if j, err := read(text, want); err != nil || len(want) != len(points) || j.damage.Count != 0 {
		t.Fatalf("%d entries, %v", len(want), err)
	}
	first := bytes.IndexByte(text, '\n')
	for at, old := range text {
		if around := text[max(at-32, 0):min(at+32, len(text))]; !deep.Case(at, 3) || at > first && at%deep.Of(113, 31, 1) != 0 && !bytes.Contains(around, []byte("\n")) {
			continue
		}
		for _, c := range []byte{old ^ 1, old ^ 2, old ^ 4, old ^ 8, old ^ 16, old ^ 32, old ^ 64, old ^ 128, 0, '\n', ' ', '"', '9', 'f', 0xff} {
			if c == old {
				continue
			}
			text[at] = c
			got := map[string]*Entry{}
			j, err := read(text, got)
			if err != nil {
				t.Fatalf("%q for %q at %d: %v", c, old, at, err)
			}
			for point, e := range got {
				if !reflect.DeepEqual(e, want[point]) {
					t.Fatalf("%q for %q at %d: read %+v", c, old, at, e)
				}
			}
			if lost := len(points) - len(got); lost > 2 || lost > 0 && j.damage.Count == 0 && j.size == int64(len(text)) {
				t.Fatalf("%q for %q at %d: %d lost, %v", c, old, at, lost, &j.damage)
			}
		}
		text[at] = old
	}
}

// TestDamageChangesNoResult changes one byte of a sweep's journal and runs the sweep again: lost
// points run again, and the table has the same bytes.
func TestDamageChangesNoResult(t *testing.T) {
	p := fake(plan(t, grid))
	whole := t.TempDir()
	j, err := OpenJournal(whole)
	if err != nil {
		t.Fatal(err)
	}
	want := csv(t, p, RunOptions{Journal: j})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(whole, journalName))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		changed := bytes.Clone(text)
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		changed[at] = rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("0123456789\n"))).Draw(t, "byte")
		if err := os.WriteFile(filepath.Join(dir, journalName), changed, 0o666); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		lost := len(p.Points) - len(j.entries)
		o, err := p.Run(context.Background(), RunOptions{Journal: j})
		if err != nil || o.Ran != lost || lost > 2 || changed[at] == text[at] && lost > 0 {
			t.Fatalf("%d lost, %+v, %v", lost, o, err)
		}
		if got := table(t, p, o); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestDamageString(t *testing.T) {
	d := Damage{File: "j"}
	for i, want := range map[int]string{1: "j:3: damaged", 2: "j:3: damaged, and line 4", 7: "j:3: damaged, and line 4, and line 5, and line 6, and line 7 and 2 more"} {
		d = Damage{File: "j"}
		for k := range i {
			d.add(3 + k)
		}
		if d.String() != want {
			t.Errorf("got %v, want %s", &d, want)
		}
	}
}

// TestMergeDamage: a changed line of a shard's journal is not a result. If no other folder has the
// point, the merge names the line; if one does, the merge equals that of whole shards, and still
// reports the line.
func TestMergeDamage(t *testing.T) {
	p := fake(plan(t, grid))
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for i, shard := range []int{0, 1, 1} {
		runShard(t, p, Shard{shard, 2}, dirs[i], -1)
	}
	good, err := Merge(dirs[:2])
	if err != nil || len(good.Damage) != 0 {
		t.Fatal(err, good)
	}
	path := filepath.Join(dirs[1], journalName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, []byte(`"simulated_s":`)) + len(`"simulated_s":`)
	text[at] = '1' + (text[at]-'0')%9 // another digit: the line still is JSON
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	damaged := fmt.Sprintf("%s:%d: damaged", path, 1+bytes.Count(text[:at], []byte("\n"))) // workers finish in any order
	_, err = Merge(dirs[:2])
	if incomplete := new(incompleteError); !errors.As(err, &incomplete) || !strings.Contains(err.Error(), "lacks 1 of its points") || !strings.HasSuffix(err.Error(), damaged) {
		t.Errorf("got %v, want one that ends with %s", err, damaged)
	}
	merged, err := Merge(dirs)
	if err != nil || len(merged.Damage) != 1 || merged.Damage[0].String() != damaged {
		t.Fatalf("%+v, %v", merged, err)
	}
	if got, want := table(t, merged.plan, merged.Outcome), table(t, good.plan, good.Outcome); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
