package results

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// disk is a folder on a disk that can lose power. Content that was not synced is lost then; a name
// may be lost until the folder is synced, but not on an eager disk. It records the state after a
// crash at each operation, and one operation can fail.
type disk struct {
	names, durable map[string]*diskFile // as programs see them, and after a crash
	eager          bool
	fail           int // the operation that fails, from 1; 0: all succeed
	done           []string
	crashes        []map[string]string // after each operation
	open           int
}

type diskFile struct {
	disk             *disk
	name             string
	content, durable []byte
}

var errDisk = errors.New("input/output error")

// newDisk returns a disk that has held files for a long time.
func newDisk(files map[string]string) *disk {
	d := &disk{names: map[string]*diskFile{}}
	for name, text := range files {
		d.names[name] = &diskFile{d, name, []byte(text), []byte(text)}
	}
	d.durable = maps.Clone(d.names)
	return d
}

// do carries out an operation, or fails.
func (d *disk) do(operation string, change func()) error {
	d.done = append(d.done, operation)
	if len(d.done) == d.fail {
		return errDisk
	}
	change()
	if d.eager || operation == "sync folder" {
		d.durable = maps.Clone(d.names)
	}
	left := map[string]string{}
	for name, f := range d.durable {
		left[name] = string(f.durable)
	}
	d.crashes = append(d.crashes, left)
	return nil
}

func (d *disk) create(name string) (folderFile, error) {
	f := &diskFile{disk: d, name: fmt.Sprintf("%s.%d.tmp", name, len(d.done))}
	return f, d.do("create", func() { d.names[f.name] = f; d.open++ })
}

func (d *disk) rename(from, to string) error {
	return d.do("rename", func() { d.names[to] = d.names[from]; delete(d.names, from) })
}

func (d *disk) remove(name string) error {
	return d.do("remove", func() { delete(d.names, name) })
}

func (d *disk) sync() error { return d.do("sync folder", func() {}) }

func (f *diskFile) Name() string { return f.name }

func (f *diskFile) Write(p []byte) (int, error) {
	return len(p), f.disk.do("write", func() { f.content = append(f.content, p...) })
}

func (f *diskFile) Sync() error {
	return f.disk.do("sync", func() { f.durable = bytes.Clone(f.content) })
}

func (f *diskFile) Close() error {
	f.disk.open--
	return f.disk.do("close", func() {})
}

// seen returns the files as programs see them.
func (d *disk) seen() map[string]string {
	texts := map[string]string{}
	for name, f := range d.names {
		texts[name] = string(f.content)
	}
	return texts
}

// TestWriteFilesSurvivesCrashes: at any power loss each file has its old or its new content, and
// once the files are written they are new. A failed operation is reported, no file is left open,
// and only whole files remain; before the first rename the folder is unchanged.
func TestWriteFilesSurvivesCrashes(t *testing.T) {
	old := map[string]string{"a": "old a", "other": "x"}
	updated := map[string]string{"a": strings.Repeat("new a", 30_000), "b": "new b", "other": "x"}
	files := []File{{"a", text(updated["a"])}, {"b", text(updated["b"])}}
	for _, eager := range []bool{false, true} {
		whole := newDisk(old)
		whole.eager = eager
		if err := writeFiles(whole, files); err != nil {
			t.Fatal(err)
		}
		if last := whole.crashes[len(whole.crashes)-1]; !maps.Equal(last, updated) || !maps.Equal(whole.seen(), updated) || whole.open != 0 {
			t.Errorf("eager %t: a crash after %q leaves %d files, %d open", eager, whole.done, len(last), whole.open)
		}
		for i, left := range whole.crashes {
			for _, name := range []string{"a", "b", "other"} {
				if left[name] != old[name] && left[name] != updated[name] {
					t.Errorf("eager %t: a crash after %q leaves %s with %d bytes", eager, whole.done[:i+1], name, len(left[name]))
				}
			}
		}
		for fail := 1; fail <= len(whole.done); fail++ {
			d := newDisk(old)
			d.eager, d.fail = eager, fail
			err := writeFiles(d, files)
			if !errors.Is(err, errDisk) || d.open != 0 {
				t.Errorf("%s fails: %v, %d open", whole.done[fail-1], err, d.open)
			}
			renamed := false
			for _, operation := range whole.done[:fail-1] {
				renamed = renamed || operation == "rename"
			}
			for name, content := range d.seen() {
				if content != old[name] && (!renamed || content != updated[name]) {
					t.Errorf("%s fails: %s is there with %d bytes", whole.done[fail-1], name, len(content))
				}
			}
		}
	}
}
