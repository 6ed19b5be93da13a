package results

import (
	"encoding/json"
	"io"
)

// tableSchema names the form of a table's JSON.
const tableSchema = "l3sim/table/1"

// WriteJSON writes the table as one JSON object: the names of the columns, and the
// rows as arrays. A cell is a number where all cells of its column are numbers or
// empty, else a string; an empty cell of a column of numbers is null.
func (t *Table) WriteJSON(w io.Writer) error {
	number := make([]bool, len(t.Columns))
	for i := range t.Columns {
		for _, row := range t.Rows {
			if number[i] = row[i] == "" || isJSONNumber(row[i]); !number[i] {
				break
			}
		}
	}
	out := struct {
		Schema  string   `json:"schema"`
		Columns []string `json:"columns"`
		Rows    [][]any  `json:"rows"`
	}{tableSchema, t.Columns, make([][]any, len(t.Rows))}
	for r, row := range t.Rows {
		cells := make([]any, len(row))
		for i, cell := range row {
			switch {
			case !number[i]:
				cells[i] = cell
			case cell != "":
				cells[i] = json.Number(cell)
			}
		}
		out.Rows[r] = cells
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

// isJSONNumber says that a text is a number as JSON writes it.
func isJSONNumber(text string) bool {
	first := text[0]
	return (first == '-' || first >= '0' && first <= '9') && json.Valid([]byte(text))
}
