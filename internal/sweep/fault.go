package sweep

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"
)

// wrongPath are the operating system's errors that a path as the user wrote it
// can be the cause of, besides those that package fs names.
var wrongPath = []syscall.Errno{syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EINVAL}

// IsSystemFault says that err is the operating system's and no fault of what the
// user wrote: no room on a disk, a volume that has gone or cannot be written to, no
// free file handle. Whoever reports it as wrong input keeps a batch system from
// trying again.
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

// unreadableError is an input that cannot be read although what the user wrote is
// right: a file that was there for the plan and is not for the run, or changed in
// between, or a fault of the system. It says nothing about a point, so it ends
// planning or the run and is recorded nowhere. It does not unwrap, as its cause
// may be an *input.InputError, which this is not.
type unreadableError struct{ cause error }

func (e *unreadableError) Error() string { return e.cause.Error() }
