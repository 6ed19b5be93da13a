package csvfile

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// EachRow calls header with the names of the columns of a CSV file, and then row with each record
// and the line on which it begins. It returns their first error, or an *input.Error of the file.
func EachRow(file string, text io.Reader, header func(columns []string) error, row func(line int, record []string) error) error {
	r := input.NewCSV(file, text)
	r.TrimLeadingSpace = true
	for first := true; ; first = false {
		record, err := r.Read()
		switch {
		case err == io.EOF && first:
			return &input.Error{File: file, Expected: "a header line"}
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case first:
			for i := range record {
				record[i] = strings.TrimSpace(strings.TrimPrefix(record[i], "\ufeff"))
			}
			err = header(record)
		default:
			err = row(r.Line(), record)
		}
		if err != nil {
			return err
		}
	}
}

// Files returns the paths of the CSV files of a folder, by name. A folder without one returns an
// *input.Error.
func Files(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, input.FileError(folder, err)
	}
	var paths []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".csv") {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, &input.Error{File: folder, Expected: "a folder with .csv files"}
	}
	return paths, nil
}
