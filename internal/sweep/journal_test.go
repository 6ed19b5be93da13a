package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

func done(point string) *Entry {
	return &Entry{Point: point, Name: "p<" + point, Status: tables.StatusDone, Summary: &results.Summary{Throughput: results.Throughput{SimulatedS: 1.5}}}
}

// write makes a journal with the given points and returns its text.
func write(t *testing.T, dir string, points ...string) []byte {
	t.Helper()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		if err := j.record(done(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestJournalCutAnywhere cuts a journal around every line's end and between, as a crash may: the rest
// opens with exactly the whole lines, takes a new entry, and then has only whole lines.
func TestJournalCutAnywhere(t *testing.T) {
	whole := write(t, t.TempDir(), "a", "b", "c")
	dir := t.TempDir()
	path := filepath.Join(dir, journalName)
	for n := range len(whole) + 1 {
		if around := whole[max(n-3, 0):min(n+3, len(whole))]; n%31 != 0 && !bytes.Contains(around, []byte("\n")) {
			continue
		}
		if err := os.WriteFile(path, whole[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(dir)
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		lines := bytes.Count(whole[:n], []byte("\n"))
		if want := max(lines-1, 0); len(j.entries) != want || j.Damage().Count != 0 {
			t.Fatalf("cut at %d: %d entries and %d damaged lines, want %d and 0", n, len(j.entries), j.Damage().Count, want)
		}
		for i, p := range []string{"a", "b", "c"} {
			if (j.entry(p) != nil) != (i < lines-1) {
				t.Fatalf("cut at %d: entry %s", n, p)
			}
		}
		if err := errors.Join(j.record(done("d")), j.Close()); err != nil {
			t.Fatal(err)
		}
		entries, _, err := ReadJournal(dir)
		if err != nil || len(entries) != max(lines-1, 0)+1 || entries["d"] == nil {
			t.Fatalf("cut at %d, after one more: %d entries, %v", n, len(entries), err)
		}
		text, _ := os.ReadFile(path)
		if text[len(text)-1] != '\n' || bytes.Count(text, []byte("\n")) != len(entries)+1 {
			t.Fatalf("cut at %d: the file holds more than whole lines:\n%s", n, text)
		}
	}
}

// TestJournalDamagedLine: a damaged line costs only its own point.
func TestJournalDamagedLine(t *testing.T) {
	dir := t.TempDir()
	text := write(t, dir, "a", "b", "c")
	text[bytes.Index(text, []byte(`"point":"b"`))-1] = 0
	if err := os.WriteFile(filepath.Join(dir, journalName), text, 0o666); err != nil {
		t.Fatal(err)
	}
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if d := j.Damage(); d.Count != 1 || d.String() != filepath.Join(dir, journalName)+":3: damaged" || j.entry("a") == nil || j.entry("b") != nil || j.entry("c") == nil {
		t.Errorf("%v, entries %v", &d, j.entries)
	}
}

// TestJournalNameIsDurable: the folder of a new journal is synced after the first line and before
// the first point, and a failed sync is an error; for an existing journal this has been done.
func TestJournalNameIsDurable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, journalName)
	open := func(syncFolder func(string) error) error {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return (&Journal{dir: dir, file: f, entries: map[string]*Entry{}, syncFolder: syncFolder}).open(f, dir)
	}
	if err := open(func(string) error { return syscall.EIO }); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		synced := 0
		err := open(func(of string) error {
			synced++
			if text, err := os.ReadFile(path); err != nil || string(text) != headLine || of != dir {
				t.Errorf("%s is synced when the journal is %q, %v", of, text, err)
			}
			return nil
		})
		if err != nil || synced != 1-i {
			t.Errorf("time %d: synced %d times, %v", i+1, synced, err)
		}
	}
}

func TestJournalIsLocked(t *testing.T) {
	dir := t.TempDir()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(dir); err == nil || !strings.Contains(err.Error(), "in use by another sweep") {
		t.Errorf("opened twice: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenJournal(dir)
	if err != nil {
		t.Fatalf("after it was closed: %v", err)
	}
	again.Close()
	files, _ := os.ReadDir(dir)
	if len(files) != 1 {
		t.Errorf("%d files left, want the journal alone", len(files))
	}
}

// TestJournalLost: a journal whose folder is removed, moved or replaced takes no point, and its
// closing reports that, too.
func TestJournalLost(t *testing.T) {
	for how, lose := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+" elsewhere") },
		"replaced": func(dir string) error {
			path := filepath.Join(dir, journalName)
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte(headLine), 0o666))
		},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		j, err := OpenJournal(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(j.record(done("a")), j.Check()); err != nil {
			t.Fatal(err)
		}
		if err := lose(dir); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"recorded": j.record(done("b")), "recorded all": j.record(done("c"), done("d")), "checked": j.Check(), "closed": j.Close()} {
			if err == nil || !strings.Contains(err.Error(), "was removed or moved while it was in use") {
				t.Errorf("%s, and %s: %v", how, what, err)
			}
		}
		if len(j.entries) != 1 {
			t.Errorf("%s: %d entries", how, len(j.entries))
		}
	}
}

// TestJournalLeavesOthersAlone: a file that this version did not write is refused, whole or without a line
// end, and not changed. The error about another version names that version's schema.
func TestJournalLeavesOthersAlone(t *testing.T) {
	// As versions 2 (with checksum) and 1 wrote it.
	const two = `{"point":"a","name":"a","seed":1,"status":"failed","error":"x","version":"v","host":"h","started":"2025-11-02T10:00:00Z","wall_s":1,"crc32c":"9c6f4647"}`
	const one = `{"point":"a","name":"a","seed":1,"status":"failed","error":"x"}`
	const another = "; another version of l3sim wrote this folder"
	for text, want := range map[string]string{
		"my notes\n": "this file is none", "my notes": "this file is none", "my notes\nand more\n": "this file is none",
		`{"schema":"l3sim/run/3"}` + "\n":                "this file is none",
		`{"schema":"l3sim/sweep/9"}` + "\n":              "schema = l3sim/sweep/9: expected l3sim/sweep/4" + another,
		`{"schema":"l3sim/sweep/3"}` + "\n":              "schema = l3sim/sweep/3: expected l3sim/sweep/4" + another,
		`{"schema":"l3sim/sweep/2"}` + "\n" + two + "\n": "schema = l3sim/sweep/2: expected l3sim/sweep/4" + another,
		`{"schema":"l3sim/sweep/1"}` + "\n" + one + "\n": "schema = l3sim/sweep/1: expected l3sim/sweep/4" + another,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, journalName)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		_, opened := OpenJournal(dir)
		_, _, read := ReadJournal(dir)
		for _, err := range []error{opened, read} {
			if !errors.As(err, new(*input.Error)) || !strings.Contains(err.Error(), "journal.jsonl:1: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", text, err)
			}
		}
		if after, _ := os.ReadFile(path); string(after) != text {
			t.Errorf("%q became %q", text, after)
		}
	}
}

// fullDisk is a file on a disk with a number of bytes left.
type fullDisk struct {
	text     []byte
	left     int
	failSync bool
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.left)
	d.text = append(d.text, p[:n]...)
	if d.left -= n; n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (d *fullDisk) Sync() error {
	if d.failSync {
		return syscall.EIO
	}
	return nil
}
func (d *fullDisk) Truncate(size int64) error { d.text = d.text[:size]; return nil }
func (d *fullDisk) Close() error              { return nil }

// TestJournalOnFullDisk: wherever the disk fills up, the file has whole lines, including all
// recorded ones; nothing is written after the error, even if there is room again.
func TestJournalOnFullDisk(t *testing.T) {
	for room := range 1200 {
		disk := &fullDisk{left: room}
		j := &Journal{file: disk, entries: map[string]*Entry{}}
		recorded := 0
		var failure error
		for i := range 4 {
			if failure = j.record(done(fmt.Sprint(i))); failure != nil {
				break
			}
			recorded++
		}
		if failure == nil {
			if recorded != 4 {
				t.Fatal("no error, but not all recorded")
			}
			continue
		}
		if !errors.Is(failure, syscall.ENOSPC) {
			t.Fatal(failure)
		}
		disk.left = 1 << 20
		if err := j.record(done("late")); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("room %d: recorded after an error: %v", room, err)
		}
		if n := bytes.Count(disk.text, []byte("\n")); n != recorded || n > 0 && !bytes.HasSuffix(disk.text, []byte("\n")) || len(j.entries) != n {
			t.Fatalf("room %d: %d whole lines, %d recorded: %q", room, n, recorded, disk.text)
		}
	}
	disk := &fullDisk{left: 1 << 20, failSync: true}
	j := &Journal{file: disk, entries: map[string]*Entry{}}
	if err := j.record(done("a")); !errors.Is(err, syscall.EIO) || len(disk.text) != 0 || j.entry("a") != nil {
		t.Errorf("sync failed: %v, %q", err, disk.text)
	}
}

func FuzzReadJournal(f *testing.F) {
	f.Add([]byte(headLine))
	var entry bytes.Buffer
	if err := encodeEntry(&entry, done("a")); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(headLine + entry.String() + "{\"point\""))
	f.Add([]byte("{\n" + entry.String() + headLine + "\x00\x00\n" + entry.String()))
	f.Fuzz(func(t *testing.T, text []byte) {
		j := &Journal{entries: map[string]*Entry{}}
		total, err := j.read("journal", bytes.NewReader(text), func(e *Entry) error {
			j.entries[e.Point] = e
			return nil
		})
		if err != nil {
			return
		}
		if total != int64(len(text)) || j.size > total || j.size > 0 && text[j.size-1] != '\n' {
			t.Fatalf("%d of %d bytes in whole lines, of %d", j.size, total, len(text))
		}
		for p, e := range j.entries {
			if e.Point != p || e.Status == tables.StatusDone && e.Summary == nil {
				t.Fatalf("entry %+v", e)
			}
		}
	})
}
