//go:build unix

package input

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
)

// TestIsSystemFault: an error that another path would avoid is no fault of the system, however deeply it is wrapped.
func TestIsSystemFault(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		syscall.ENOTDIR: false, syscall.EEXIST: false, syscall.EACCES: false, syscall.EPERM: false, syscall.ENOENT: false, syscall.EISDIR: false,
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EROFS: true, syscall.EIO: true, syscall.ESTALE: true, syscall.EMFILE: true, syscall.ENFILE: true,
	} {
		err := fmt.Errorf("reading: %w", &Error{File: "a", Err: &os.PathError{Op: "open", Path: "a", Err: errno}})
		if got := IsSystemFault(err); got != want {
			t.Errorf("%v: %t", errno, got)
		}
	}
	if IsSystemFault(errors.New("no errno")) || IsSystemFault(nil) {
		t.Error("an error that is not the system's")
	}
}
