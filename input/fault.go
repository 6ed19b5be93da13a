package input

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"
)

// wrongPath are operating-system errors that a path written by the user can cause, in addition to those that package fs
// defines.
var wrongPath = []syscall.Errno{syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EINVAL}

// IsSystemFault reports whether err comes from the operating system and not from the user's input: a full disk, a volume that is
// gone or read-only, no free file handle. Batch systems retry after a system fault, and not after wrong input.
func IsSystemFault(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return false
	}
	for _, users := range []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission} {
		if errno.Is(users) {
			return false
		}
	}
	return !slices.Contains(wrongPath, errno)
}
