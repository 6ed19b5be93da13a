package sweep

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/l3sim/l3sim/results"
)

// pointFile is the form of Plan.fileNames.
var pointFile = regexp.MustCompile(`^[A-Za-z0-9=,.+_-]+(,seed=[0-9]+|-[0-9a-f]{16})\.json$`)

// removeStale removes from dir the regular files whose names are stale. It ignores a
// missing folder, and a file that somebody else has removed.
func removeStale(dir string, stale func(name string) bool) error {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		if !f.Type().IsRegular() || !stale(f.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeResults removes the table of an earlier plan from a sweep's folder: a reader could
// take it for the table of this plan, which is not yet complete. The journal holds all
// results of the removed table.
func removeResults(dir string) error {
	return removeStale(dir, func(name string) bool {
		return name == results.ResultsFile || name == results.ParquetFile || name == results.BaseFile || name == results.SearchFile
	})
}
