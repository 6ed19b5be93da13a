package sweep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// journalSchema names the form of the journal. It is in the journal's first line, in the checksum of each
// other line and in every point's address. A change in the meaning of a configuration or a summary must
// raise it: folders of another version are then refused, and their results never reused.
const journalSchema = "l3sim/sweep/4"

// headLine is the journal's first line.
const headLine = `{"schema":"` + journalSchema + "\"}\n"

const journalName = "journal.jsonl" // the journal's file in a sweep's folder

// Entry is one finished point in the journal.
type Entry struct {
	Point   string           `json:"point"` // Point.Hash
	Name    string           `json:"name"`
	Seed    uint64           `json:"seed"`
	Draw    int              `json:"draw,omitempty"` // its number, from 1; 0 for the point itself
	Status  string           `json:"status"`         // tables.StatusDone or tables.StatusFailed
	Error   string           `json:"error,omitempty"`
	Summary *results.Summary `json:"summary,omitempty"` // of a point that is done
	Value   json.RawMessage  `json:"value,omitempty"`   // of a result that is no point of a sweep
	Version string           `json:"version"`           // of the code
	Host    string           `json:"host"`
	Started time.Time        `json:"started"`
	WallS   float64          `json:"wall_s"`
}

// Journal is the append-only record of a sweep's finished points: a line of JSON each, after a
// first line that names the schema. record returns when its line is on disk. A crash or a full disk
// may cut the last line short: the next OpenJournal removes it. A checksum detects changes of a
// line: a changed line stays in the file, and its point runs again.
//
// An open journal is locked; a second process cannot open it. Its methods may be
// called from several goroutines at a time.
type Journal struct {
	mu    sync.Mutex
	dir   string
	file  journalFile
	lock  *flock.Flock // the kernel unlocks it when the process ends, however it ends
	there func() error // Check; nil: no check
	// syncFolder makes the name of a new journal durable.
	syncFolder func(dir string) error
	size       int64 // bytes that hold whole lines
	broken     error // the first write error; nothing is written after it
	entries    map[string]*Entry
	damage     Damage
}

// Damage is the lines of a journal that were changed after they were written.
type Damage struct {
	File  string
	Lines []int // numbers of the first damaged lines, from 1
	Count int
}

const maxDamageLines = 5 // the number of lines that a Damage names

func (d *Damage) add(line int) {
	if d.Count++; len(d.Lines) < maxDamageLines {
		d.Lines = append(d.Lines, line)
	}
}

// String returns "FILE:LINE: damaged" and the other lines.
func (d *Damage) String() string {
	var b strings.Builder
	for i, line := range d.Lines {
		if i == 0 {
			fmt.Fprintf(&b, "%s:%d: damaged", d.File, line)
			continue
		}
		fmt.Fprintf(&b, ", and line %d", line)
	}
	if more := d.Count - len(d.Lines); more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// journalFile is the methods of an *os.File, opened to append, that Journal uses.
type journalFile interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

// ErrInUse says that another process has the journal open.
var ErrInUse = errors.New("in use by another sweep")

// OpenJournal opens the journal in dir, and makes dir if it is missing.
func OpenJournal(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, journalName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, file: f, entries: map[string]*Entry{}, there: func() error { return inPlace(f) }, syncFolder: results.SyncFolder}
	if runtime.GOOS == "windows" {
		path += ".lock" // on some systems other handles cannot read a locked file
	}
	j.lock = flock.New(path, flock.SetFlag(os.O_RDWR|os.O_CREATE))
	free, err := j.lock.TryLock()
	if err == nil && !free {
		err = fmt.Errorf("%s is %w", dir, ErrInUse)
	}
	if err == nil {
		err = j.open(f, dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), j.lock.Close())
	}
	return j, nil
}

// open reads f and prepares it for appending.
func (j *Journal) open(f *os.File, dir string) error {
	total, err := j.read(f.Name(), f, func(e *Entry) error {
		j.entries[e.Point] = e // the later of two entries of a point counts
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
	if err := j.write([]byte(headLine)); err != nil {
		return err
	}
	return j.syncFolder(dir)
}

// ReadJournal returns the finished points of the journal in dir, by hash, without locking it; none
// without a journal.
func ReadJournal(dir string) (map[string]*Entry, Damage, error) {
	entries := map[string]*Entry{}
	damage, err := eachEntry(dir, func(e *Entry) error {
		entries[e.Point] = e
		return nil
	})
	return entries, damage, err
}

func eachEntry(dir string, do func(*Entry) error) (Damage, error) {
	f, err := os.Open(filepath.Join(dir, journalName))
	if errors.Is(err, os.ErrNotExist) {
		return Damage{}, nil
	}
	if err != nil {
		return Damage{}, err
	}
	defer f.Close()
	j := &Journal{}
	_, err = j.read(f.Name(), f, do)
	return j.damage, err
}

// read calls do for each entry and returns the number of bytes. j.size becomes the end of the last
// whole line. It counts and skips damaged lines; their points run again. A wrong first line is also
// damage if an entry follows, because only this program writes entries.
func (j *Journal) read(name string, r io.Reader, do func(*Entry) error) (total int64, err error) {
	j.damage.File = name
	b := bufio.NewReaderSize(r, 1<<16)
	ours, head := false, ""
	for number := 1; ; number++ {
		line, err := input.ReadLine(b)
		total += int64(len(line))
		for err == input.ErrLongLine { // skipped in parts: no entry is this long
			if number == 1 {
				return total, notJournal(name, "")
			}
			line, err = input.ReadLine(b)
			total += int64(len(line))
			line = nil
		}
		if number == 1 { // the head, possibly cut short or with another line end
			head = strings.TrimSpace(string(line))
			ours = strings.HasPrefix(head, strings.TrimSpace(headLine)) || strings.HasPrefix(headLine, string(line))
		}
		if err == io.EOF { // a line that was cut short, or nothing
			if !ours {
				return total, notJournal(name, head)
			}
			return total, nil
		}
		if err != nil {
			return total, err
		}
		j.size = total
		if number == 1 && string(line) == headLine {
			continue
		}
		e := parseEntry(line)
		if e == nil {
			j.damage.add(number)
			continue
		}
		ours = true
		if err := do(e); err != nil {
			return total, err
		}
	}
}

// notJournal is the error for a file that this version did not write and must not change. head is
// its first line.
func notJournal(name, head string) error {
	var of struct{ Schema string }
	if json.Unmarshal([]byte(head), &of) == nil && strings.HasPrefix(of.Schema, "l3sim/sweep/") {
		return &input.Error{File: name, Line: 1, Key: "schema", Value: of.Schema,
			Expected: journalSchema + "; another version of l3sim wrote this folder, and only that one goes on with it: choose another folder"}
	}
	return &input.Error{File: name, Line: 1, Expected: strings.TrimSpace(headLine) + ", the first line of a sweep's journal; this file is none"}
}

// A line ends with the CRC-32C (RFC 3720, appendix B.4) of the line before it and of the schema:
// "...,"crc32c":"0123abcd"}". It detects every change of up to four bytes in a row.
const (
	sumBegins = `,"crc32c":"`
	sumEnds   = "\"}\n"
	sumDigits = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(begins []byte) string {
	seed := crc32.Checksum([]byte(journalSchema), castagnoli)
	return fmt.Sprintf("%0*x", sumDigits, crc32.Update(seed, castagnoli, begins))
}

func encodeEntry(to *bytes.Buffer, e *Entry) error {
	start := to.Len()
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return err
	}
	to.Truncate(to.Len() - len("}\n"))
	sum := checksum(to.Bytes()[start:])
	to.WriteString(sumBegins + sum + sumEnds)
	return nil
}

// parseEntry returns the entry of a line, nil if the line is damaged.
func parseEntry(line []byte) *Entry {
	at := len(line) - len(sumBegins) - sumDigits - len(sumEnds)
	if at < 0 || string(line[at:]) != sumBegins+checksum(line[:at])+sumEnds {
		return nil
	}
	var e Entry
	if json.Unmarshal(line, &e) != nil {
		return nil
	}
	return &e
}

// Damage returns the damaged lines of the journal.
func (j *Journal) Damage() Damage { return j.damage }

// Get reads into value what Put recorded at an address, and says whether it is there. A nil journal holds nothing.
func (j *Journal) Get(address string, value any) bool {
	if j == nil {
		return false
	}
	e := j.entry(address)
	return e != nil && json.Unmarshal(e.Value, value) == nil
}

// Put records a value, other than a point's result, at an address. When it returns nil, the value survives a
// crash.
func (j *Journal) Put(address, name, version string, value any) error {
	if j == nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return j.record(&Entry{Point: address, Name: name, Status: tables.StatusDone, Value: text, Version: version})
}

// entry returns the finished point of an address, nil if there is none.
func (j *Journal) entry(hash string) *Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.entries[hash]
}

func (j *Journal) empty() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries) == 0
}

// record adds finished points. When it returns nil, the entries survive a crash. After an error it
// records nothing more. Many entries, copied from another journal, are synced a megabyte at a time.
func (j *Journal) record(entries ...*Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines bytes.Buffer
	for i, e := range entries {
		if err := encodeEntry(&lines, e); err != nil {
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

// write appends whole lines and syncs them. On an error it removes the part that was written, so
// that a later run finds whole lines even after a full disk.
func (j *Journal) write(lines []byte) error {
	if j.broken != nil {
		return j.broken
	}
	n, err := j.file.Write(lines)
	if err == nil {
		err = j.file.Sync()
	}
	if err == nil {
		err = j.Check()
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

// Check returns an error if the journal is no longer in its folder: somebody removed or moved the
// folder while the sweep runs, and records would be lost.
func (j *Journal) Check() error {
	if j.there == nil {
		return nil
	}
	return j.there()
}

// inPlace returns an error if the path of f no longer names the file.
func inPlace(f *os.File) error {
	open, err := f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(f.Name())
	if err == nil && os.SameFile(open, now) {
		return nil
	}
	if err == nil {
		err = errors.New("another file is there")
	}
	return fmt.Errorf("%s was removed or moved while it was in use; its records are lost: %v", f.Name(), err)
}

// Close closes the journal so that others can open it. Its error may be Check's.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	return errors.Join(j.Check(), j.file.Close(), j.lock.Close())
}
