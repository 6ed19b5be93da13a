package results

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// File is a file to be written into a folder.
type File struct {
	Name  string
	Write func(io.Writer) error
}

// WriteFileAtomic writes the file at path so that it holds either all that
// write gives or, after an error or a crash, what it held before: it writes a
// temporary file in the same folder, syncs it, renames it and syncs the folder.
// A device or a pipe is written to directly.
func WriteFileAtomic(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil {
		switch {
		case info.IsDir():
			return fmt.Errorf("%s is a folder", path)
		case !info.Mode().IsRegular():
			return writeDirect(path, write)
		}
		// Replace what a link points to, not the link.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	return WriteFiles(filepath.Dir(path), []File{{filepath.Base(path), write}})
}

// WriteFiles writes files into dir, which it makes where it is missing. None
// is put in place before all are written, so that an error in any of them
// leaves dir as it was.
func WriteFiles(dir string, files []File) (err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	temporary := make([]string, 0, len(files))
	defer func() {
		for _, name := range temporary { // those not renamed
			err = errors.Join(err, os.Remove(name))
		}
	}()
	for _, file := range files {
		f, err := createTemporary(dir, file.Name)
		if err != nil {
			return err
		}
		temporary = append(temporary, f.Name())
		if err := fill(f, file.Write); err != nil {
			return err
		}
	}
	for _, file := range files {
		if err := os.Rename(temporary[0], filepath.Join(dir, file.Name)); err != nil {
			return err
		}
		temporary = temporary[1:]
	}
	return SyncFolder(dir)
}

// createTemporary makes a new hidden file for name in dir, with the
// permissions of an ordinary new file (os.CreateTemp would let none but the
// owner read it).
func createTemporary(dir, name string) (*os.File, error) {
	for i := 0; ; i++ {
		path := filepath.Join(dir, fmt.Sprintf(".%s.%d-%d.tmp", name, os.Getpid(), i))
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// fill writes, syncs and closes f.
func fill(f *os.File, write func(io.Writer) error) error {
	b := bufio.NewWriterSize(f, 1<<16)
	err := write(b)
	if err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// writeDirect writes to what is already at path.
func writeDirect(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(f)
	err = write(b)
	if err == nil {
		err = b.Flush()
	}
	return errors.Join(err, f.Close())
}

// SyncFolder makes the names of the files in dir durable.
func SyncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // has no such operation, and renames are journalled
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
