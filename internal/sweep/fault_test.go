//go:build unix

package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// TestIsSystemFault: what the user can mend by another path is no fault of the
// system, however deep it is wrapped.
func TestIsSystemFault(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		syscall.ENOTDIR: false, syscall.EEXIST: false, syscall.EACCES: false, syscall.EPERM: false, syscall.ENOENT: false, syscall.EISDIR: false,
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EROFS: true, syscall.EIO: true, syscall.ESTALE: true, syscall.EMFILE: true, syscall.ENFILE: true,
	} {
		err := fmt.Errorf("reading: %w", &input.Error{File: "a", Err: &os.PathError{Op: "open", Path: "a", Err: errno}})
		if got := IsSystemFault(err); got != want {
			t.Errorf("%v: %t", errno, got)
		}
	}
	if IsSystemFault(errors.New("no errno")) || IsSystemFault(nil) {
		t.Error("an error that is not the system's")
	}
}

// TestReadFileWithoutHandles: a sweep file that cannot be opened as the process
// has no file handle left is not wrong input, and one that is not there is.
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
	_, fault := ReadFile(path)
	_, folder := readShard(filepath.Dir(path), nil)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{fault, folder} {
		if bad := new(input.Error); !errors.Is(err, syscall.EMFILE) || errors.As(err, &bad) {
			t.Errorf("got %T: %v", err, err)
		}
	}
	if _, err := ReadFile(path + "x"); !errors.As(err, new(*input.Error)) {
		t.Errorf("got %T: %v", err, err)
	}
}
