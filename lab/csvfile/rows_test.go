package csvfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// TestEachRow: a byte-order mark and spaces around column names are removed, line numbers are those
// of the file, and the first error ends the reading.
func TestEachRow(t *testing.T) {
	read := func(text string, stop int) (got []string, err error) {
		err = EachRow("f", strings.NewReader(text), func(columns []string) error {
			got = append(got, fmt.Sprintf("%q", columns))
			return nil
		}, func(line int, record []string) error {
			if got = append(got, fmt.Sprintf("%d %q", line, record)); line == stop {
				return errors.New("stop")
			}
			return nil
		})
		return got, err
	}
	got, err := read("\ufeffa, b \n1, 2\n\n\"3\n\",4\n5,6\n", 4)
	if want := []string{`["a" "b"]`, `2 ["1" "2"]`, `4 ["3\n" "4"]`}; !slices.Equal(got, want) || err == nil || err.Error() != "stop" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := read("", 0); err == nil || err.Error() != "f: expected a header line" {
		t.Error(err)
	}
	if _, err := read("a,b\n1\n", 0); err == nil || !strings.HasPrefix(err.Error(), "f:2: ") {
		t.Error(err)
	}
}

// TestFiles: files in order of name, without folders and other files.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Files(dir); err == nil || err.Error() != dir+": expected a folder with .csv files" {
		t.Error(err)
	}
	for _, name := range []string{"b.csv", "a.csv", "c.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d.csv"), 0o777); err != nil {
		t.Fatal(err)
	}
	if got, err := Files(dir); err != nil || !slices.Equal(got, []string{filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")}) {
		t.Error(got, err)
	}
	if _, err := Files(filepath.Join(dir, "e")); !errors.As(err, new(*input.Error)) {
		t.Error(err)
	}
}
