package traces

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// csvColumns is a format with the positions of its columns in one file.
type csvColumns struct {
	table
	comma rune

	inputAt, outputAt, arrivalAt, sessionAt int // -1 if the file has no such column
}

// readCSV adds the rows of a CSV file with a header, until there are enough.
func (c *collector) readCSV(r *bufio.Reader) error {
	r = bufio.NewReaderSize(r, peeked)
	head, _ := r.Peek(peeked) // a read error is reported below
	if !bytes.Contains(head, []byte("\n")) && bytes.Contains(bytes.TrimSpace(head), []byte("\r")) {
		return &input.Error{File: c.file, Line: 1, Value: "lines that end in a carriage return alone",
			Expected: `line feeds; tr '\r' '\n' < FILE writes it so`}
	}
	comma := delimiter(head)
	reader := input.NewCSV(c.file, r)
	reader.ReuseRecord, reader.Comma, reader.Comment = true, comma, comment(head)
	header, err := reader.Read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	columns, err := c.findColumns(reader.Line(), header, csvSample(head, comma, len(head) < peeked), comma)
	if err != nil {
		return err
	}
	for !c.enough() {
		record, err := reader.Read()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = c.add(columns.row(c.file, reader.Line(), record))
		} else if reader.OneLine() {
			err = c.skip(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// delimiter returns the column separator of a file by its first line: the most frequent of commas, semicolons, tabs and bars; commas win
// ties.
func delimiter(head []byte) rune {
	line, rest, more := bytes.Cut(head, []byte("\n"))
	for ; more && comment(line) != 0; line, rest, more = bytes.Cut(rest, []byte("\n")) {
	}
	comma := ','
	for _, other := range ";\t|" {
		if bytes.Count(line, []byte(string(other))) > bytes.Count(line, []byte(string(comma))) {
			comma = other
		}
	}
	return comma
}

// comment returns the comment character if a file begins with a comment, else 0.
func comment(head []byte) rune {
	if bytes.HasPrefix(head, []byte("# ")) {
		return '#'
	}
	return 0
}

// csvSample returns the first rows of a file that begins with head, which may be all of it.
func csvSample(head []byte, comma rune, whole bool) *sample {
	if end := bytes.LastIndexByte(head, '\n'); !whole && end >= 0 {
		head = head[:end+1]
	}
	r := csv.NewReader(bytes.NewReader(head))
	r.Comma, r.Comment, r.LazyQuotes, r.FieldsPerRecord = comma, comment(head), true, -1
	s := &sample{values: map[string][]string{}}
	for row := 0; row <= sampleRows; row++ {
		record, err := r.Read()
		if err != nil {
			break
		}
		for i, text := range record {
			text = number(strings.TrimSpace(text), comma)
			if row == 0 {
				s.names = append(s.names, text)
			} else if i < len(s.names) {
				s.values[s.names[i]] = append(s.values[s.names[i]], text)
			}
		}
	}
	s.nested = s.names
	return s
}

func (c *collector) findColumns(line int, header []string, s *sample, comma rune) (*csvColumns, error) {
	names := make([]string, len(header))
	for i, name := range header {
		names[i] = strings.TrimSpace(name)
	}
	s.names, s.nested = names, names
	place := func(name string) int {
		if name == "" {
			return -1
		}
		return slices.Index(names, name)
	}
	f := c.understand(s, csvTables)
	if f == nil {
		bad := &input.Error{
			File: c.file, Line: line, Value: strconv.Quote(strings.Join(names, string(comma))),
			Expected: "a header with the columns of a known format, or their names in --columns", Details: knownNames(csvTables),
		}
		if !slices.ContainsFunc(names, func(name string) bool { return numbersIn([]string{name}) == nil && !datesIn([]string{name}) }) {
			bad.Expected = "a first line that names the columns, such as arrival_s,input_tokens,output_tokens"
		}
		if one := s.oneLength(); one != "" {
			bad.Expected = one
		} else if strings.HasPrefix(names[0], "sep=") {
			bad.Expected = "a header with the columns; sed 1d FILE leaves this line of Excel's out"
		}
		return nil, bad
	}
	if err := f.lacks(c.file, line, names); err != nil {
		return nil, err
	}
	for _, needed := range f.columns() {
		if first := place(needed); first >= 0 && slices.Contains(names[first+1:], needed) {
			return nil, &input.Error{File: c.file, Line: line, Key: needed, Expected: "one column of this name"}
		}
	}
	c.use(f, "csv")
	return &csvColumns{*f, comma, place(f.input), place(f.output), place(f.arrival), place(f.session)}, nil
}

func (c *csvColumns) row(file string, line int, record []string) (row, error) {
	cell := func(at int) string {
		if at < 0 {
			return ""
		}
		return strings.TrimSpace(record[at])
	}
	return c.table.row(file, line, &cells{
		input: cell(c.inputAt), output: cell(c.outputAt), arrival: number(cell(c.arrivalAt), c.comma), session: cell(c.sessionAt),
		hasArrival: c.arrivalAt >= 0, quoted: true,
	})
}
