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
	"strings"
)

// File is a file to be written into a folder.
type File struct {
	Name  string
	Write func(io.Writer) error
}

// WriteFileAtomic replaces the file at path with what write writes. After an error or a crash the
// file is as before: it writes a temporary file in the same folder, syncs it, renames it and syncs
// the folder. It writes to a device or a pipe directly.
func WriteFileAtomic(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil {
		switch {
		case info.IsDir():
			return fmt.Errorf("%s is a folder", path)
		case !info.Mode().IsRegular():
			return writeDirect(path, write)
		}
		// Replace the target of a link, not the link.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	return WriteFiles(filepath.Dir(path), []File{{filepath.Base(path), write}})
}

// WriteFiles writes files into dir, and makes dir if it is missing. It writes all files before it
// renames the first, so that a write error leaves dir as it was. When it returns nil, the files
// survive a crash.
func WriteFiles(dir string, files []File) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return writeFiles(osFolder(dir), files)
}

// folder is the operations of a folder that WriteFiles needs.
type folder interface {
	// create makes a new file under a temporary name, to be renamed to name.
	create(name string) (folderFile, error)
	rename(from, to string) error
	remove(name string) error
	sync() error // makes names durable
}

// folderFile is the operations of a file that WriteFiles needs.
type folderFile interface {
	io.WriteCloser
	Name() string // as rename and remove take it
	Sync() error  // makes the content durable
}

func writeFiles(dir folder, files []File) (err error) {
	temporary := make([]string, 0, len(files))
	defer func() {
		for _, name := range temporary { // those not renamed
			err = errors.Join(err, dir.remove(name))
		}
	}()
	for _, file := range files {
		f, err := dir.create(file.Name)
		if err != nil {
			return err
		}
		temporary = append(temporary, f.Name())
		if err := fill(f, file.Write, f.Sync); err != nil {
			return err
		}
	}
	for _, file := range files {
		if err := dir.rename(temporary[0], file.Name); err != nil {
			return err
		}
		temporary = temporary[1:]
	}
	return dir.sync()
}

func fill(f io.WriteCloser, write func(io.Writer) error, sync func() error) error {
	b := bufio.NewWriterSize(f, 1<<16)
	err := write(b)
	if err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = sync()
	}
	return errors.Join(err, f.Close())
}

type osFolder string // a folder of the operating system, by its path

// Names of temporary files.
const (
	temporaryBegins = ".l3sim-"
	temporaryEnds   = ".tmp"
)

// IsTemporary says whether name is a temporary file's, which l3sim removes or renames before it
// ends.
func IsTemporary(name string) bool {
	return strings.HasPrefix(name, temporaryBegins) && strings.HasSuffix(name, temporaryEnds)
}

// create makes a new hidden file with the permissions of an ordinary new file
// (os.CreateTemp would let only the owner read it).
func (dir osFolder) create(name string) (folderFile, error) {
	for i := 0; ; i++ {
		path := filepath.Join(string(dir), fmt.Sprintf("%s%s.%d-%d%s", temporaryBegins, name, os.Getpid(), i, temporaryEnds))
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

func (dir osFolder) rename(from, to string) error {
	return os.Rename(from, filepath.Join(string(dir), to))
}
func (dir osFolder) remove(name string) error { return os.Remove(name) }
func (dir osFolder) sync() error              { return SyncFolder(string(dir)) }

func writeDirect(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return fill(f, write, func() error { return nil }) // a device needs no sync
}

// SyncFolder makes the names of the files in dir durable.
func SyncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync a folder, and journals renames
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
