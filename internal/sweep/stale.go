package sweep

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/l3sim/l3sim/results"
)

var (
	// pointFile is the form of Plan.fileNames.
	pointFile = regexp.MustCompile(`^[A-Za-z0-9=,.+_-]+(,seed=[0-9]+|-[0-9a-f]{16})\.json$`)
	// temporaryFile is the form of the files that results.WriteFiles renames when they
	// are whole, for a point and for the folder's own.
	temporaryFile = regexp.MustCompile(`^\.(.+)\.[0-9]+-[0-9]+\.tmp$`)
	// probeFile is the empty file by which a command tries whether it can write to its
	// folder.
	probeFile = regexp.MustCompile(`^\.l3sim-[0-9]+\.tmp$`)
)

// removeStale removes from dir the regular files that stale names. A folder that
// is not there has none, and a file that has gone meanwhile is removed.
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

// cutShort says that a file is what a process that was killed left of one of ours.
// As only the holder of the journal's lock writes them, it has ended; a process
// that still holds its probe does not need the name.
func cutShort(name string) bool {
	if probeFile.MatchString(name) {
		return true
	}
	m := temporaryFile.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	switch m[1] {
	case results.ResultsFile, results.ParquetFile, shardName:
		return true
	}
	return pointFile.MatchString(m[1])
}

// removeResults removes the table of an earlier plan from a sweep's folder, which
// would pass for this one's until this one is complete. The journal holds all that
// it was written from.
func removeResults(dir string) error {
	return removeStale(dir, func(name string) bool {
		return name == results.ResultsFile || name == results.ParquetFile
	})
}
