package sweep

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestRemoveStale: only regular files with the given names are removed. A missing folder, or a file
// that vanishes meanwhile, is not an error.
func TestRemoveStale(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(path("stale"), nil, 0o666), os.WriteFile(path("kept"), nil, 0o666), os.WriteFile(path("vanishes"), nil, 0o666),
		os.Mkdir(path("stale folder"), 0o777), os.Symlink("kept", path("stale link")))
	if err != nil {
		t.Fatal(err)
	}
	stale := func(name string) bool {
		if name == "vanishes" {
			if err := os.Remove(path(name)); err != nil {
				t.Error(err)
			}
		}
		return name != "kept"
	}
	if err := removeStale(dir, stale); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]bool{"stale": false, "vanishes": false, "kept": true, "stale folder": true, "stale link": true} {
		if _, err := os.Lstat(path(name)); (err == nil) != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := removeStale(path("nowhere"), stale); err != nil {
		t.Errorf("no folder: %v", err)
	}
	if err := removeStale(path("kept"), stale); err == nil {
		t.Error("a file was taken for a folder")
	}
}
