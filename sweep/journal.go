package sweep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// journalSchema names the form of the journal; it is its first line and part of
// every point's address.
const journalSchema = "l3sim/sweep/1"

// headLine is the journal's first line.
const headLine = `{"schema":"` + journalSchema + "\"}\n"

// journalName is the journal's file in a sweep's folder.
const journalName = "journal.jsonl"

// Entry is one finished point in the journal.
type Entry struct {
	Point   string           `json:"point"` // Point.Hash
	Name    string           `json:"name"`
	Seed    uint64           `json:"seed"`
	Status  string           `json:"status"` // results.StatusDone or results.StatusFailed
	Error   string           `json:"error,omitempty"`
	Summary *results.Summary `json:"summary,omitempty"` // of a point that is done
	Version string           `json:"version"`           // of the code
	Host    string           `json:"host"`
	Started time.Time        `json:"started"`
	WallS   float64          `json:"wall_s"`
}

// Journal is the append-only record of a sweep's finished points: a line of
// JSON each, after a first line that names the schema. Record returns when its
// line is on disk. A line that a crash or a full disk cut short is no line: the
// next OpenJournal takes it off the file's end.
//
// An open journal is locked; a second process cannot open it. Its methods may be
// called from several goroutines at a time.
type Journal struct {
	mu      sync.Mutex
	dir     string
	file    journalFile
	size    int64 // bytes that hold whole lines
	broken  error // the write error after which nothing is written any more
	entries map[string]*Entry
	damaged int
}

// journalFile is what Journal needs of an *os.File that was opened to append.
type journalFile interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

// OpenJournal opens the journal in dir, which it makes where it is missing.
func OpenJournal(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, journalName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, file: f, entries: map[string]*Entry{}}
	if err := j.open(f, dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// open locks f, reads it and makes it ready to append to.
func (j *Journal) open(f *os.File, dir string) error {
	free, err := lock(f)
	if err != nil {
		return err
	}
	if !free {
		return fmt.Errorf("%s is in use by another sweep", dir)
	}
	total, err := j.read(f.Name(), f, func(e *Entry) error {
		j.entries[e.Point] = e // of two entries of a point the later counts
		return nil
	})
	if err != nil {
		return err
	}
	if total > j.size {
		if err := f.Truncate(j.size); err != nil {
			return err
		}
	}
	if j.size > 0 {
		return nil
	}
	if err := j.append(map[string]string{"schema": journalSchema}); err != nil {
		return err
	}
	return results.SyncFolder(dir)
}

// ReadJournal returns the finished points that the journal in dir holds, by
// hash, without locking it; none where there is no journal.
func ReadJournal(dir string) (map[string]*Entry, error) {
	entries := map[string]*Entry{}
	err := eachEntry(dir, func(e *Entry) error {
		entries[e.Point] = e
		return nil
	})
	return entries, err
}

// eachEntry calls do for each entry of the journal in dir, in its order.
func eachEntry(dir string, do func(*Entry) error) error {
	f, err := os.Open(filepath.Join(dir, journalName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = (&Journal{}).read(f.Name(), f, do)
	return err
}

// read calls do for each entry and returns how many bytes there are; j.size
// becomes the end of the last whole line. Lines in between that are none, as a
// failing disk may leave, are counted and passed over: their points run again.
func (j *Journal) read(name string, r io.Reader, do func(*Entry) error) (total int64, err error) {
	b := bufio.NewReaderSize(r, 1<<16)
	for number := 1; ; number++ {
		line, err := b.ReadBytes('\n')
		total += int64(len(line))
		if err == io.EOF { // what is left of a line that was cut short, if anything
			if number == 1 && !strings.HasPrefix(headLine, string(line)) {
				return total, notJournal(name)
			}
			return total, nil
		}
		if err != nil {
			return total, err
		}
		if number == 1 {
			if string(line) != headLine {
				return total, notJournal(name)
			}
		} else if e := parseEntry(line); e != nil {
			if err := do(e); err != nil {
				return total, err
			}
		} else {
			j.damaged++
		}
		j.size = total
	}
}

// notJournal is the error for a file that this program did not write, and must
// not touch.
func notJournal(name string) error {
	return &input.InputError{File: name, Line: 1, Expected: strings.TrimSpace(headLine)}
}

// parseEntry returns the entry of a line, nil where it holds none.
func parseEntry(line []byte) *Entry {
	var e Entry
	if json.Unmarshal(line, &e) != nil || e.Point == "" {
		return nil
	}
	if e.Status == results.StatusDone && e.Summary == nil || e.Status != results.StatusDone && e.Status != results.StatusFailed {
		return nil
	}
	return &e
}

// Damaged returns the number of lines that could not be read.
func (j *Journal) Damaged() int { return j.damaged }

// Entry returns the finished point of an address, nil where it is not there.
func (j *Journal) Entry(hash string) *Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.entries[hash]
}

// empty says that there is no finished point.
func (j *Journal) empty() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries) == 0
}

// Record adds a finished point; when it returns nil, the entry survives a crash.
// After an error nothing is recorded any more.
func (j *Journal) Record(e *Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.append(e); err != nil {
		return err
	}
	j.entries[e.Point] = e
	return nil
}

// RecordAll is Record for points that are on disk elsewhere: they are synced a
// megabyte at a time.
func (j *Journal) RecordAll(entries []*Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines bytes.Buffer
	for i, e := range entries {
		if err := encodeLine(&lines, e); err != nil {
			return err
		}
		if lines.Len() < 1<<20 && i < len(entries)-1 {
			continue
		}
		if err := j.write(lines.Bytes()); err != nil {
			return err
		}
		lines.Reset()
	}
	for _, e := range entries {
		j.entries[e.Point] = e
	}
	return nil
}

// append writes v as one line and syncs it.
func (j *Journal) append(v any) error {
	var line bytes.Buffer
	if err := encodeLine(&line, v); err != nil {
		return err
	}
	return j.write(line.Bytes())
}

// encodeLine adds v as a line of JSON.
func encodeLine(to *bytes.Buffer, v any) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// write appends whole lines and syncs them. Where that fails it takes off what
// was written of them, so that a later run finds whole lines even on a disk that
// is full.
func (j *Journal) write(lines []byte) error {
	if j.broken != nil {
		return j.broken
	}
	n, err := j.file.Write(lines)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		j.broken = fmt.Errorf("journal: %w", err)
		if n > 0 {
			if err := j.file.Truncate(j.size); err != nil {
				j.broken = errors.Join(j.broken, err)
			}
		}
		return j.broken
	}
	j.size += int64(n)
	return nil
}

// Close ends the use of the journal and lets others open it.
func (j *Journal) Close() error { return j.file.Close() }
