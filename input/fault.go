package input

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"
)

// wrongPath are errors of the operating system that a path which the user wrote can
// cause. Package fs defines more of them.
var wrongPath = []syscall.Errno{syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EINVAL}

// IsSystemFault says whether err comes from the operating system and not from what
// the user wrote: a full disk, a volume that has gone or is read-only, no free file
// handle. Batch systems try again after a system fault, and not after wrong input.
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
