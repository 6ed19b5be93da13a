//go:build unix

package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/system"
)

// TestReadFileWithoutHandles: a sweep file that cannot be opened for lack of file handles is not
// wrong input; a missing one is.
func TestReadFileWithoutHandles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sweep.toml")
	if err := os.WriteFile(path, []byte(small), 0o666); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Skip(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Skip(err)
	}
	_, fault := design.ReadFile(system.Configs(), path)
	_, folder := readShard(filepath.Dir(path), nil)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{fault, folder} {
		if bad := new(input.Error); !errors.Is(err, syscall.EMFILE) || errors.As(err, &bad) {
			t.Errorf("got %T: %v", err, err)
		}
	}
	if _, err := design.ReadFile(system.Configs(), path+"x"); !errors.As(err, new(*input.Error)) {
		t.Errorf("got %T: %v", err, err)
	}
}
