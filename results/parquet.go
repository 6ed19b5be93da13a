package results

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// ParquetFile is the name of the typed table in a sweep's folder: the rows and
// columns of ResultsFile in the same order, for other tools. l3sim itself reads
// ResultsFile alone.
const ParquetFile = "results.parquet"

// ParquetSchema names the form of ParquetFile in its metadata. It changes when a
// column changes its meaning or type; new columns may join without.
const ParquetSchema = "l3sim/results/1"

// The keys of a Parquet file's metadata that say where its rows come from. There
// is no date, machine or path among them: the same points give the same bytes.
const (
	MetaSchema  = "l3sim.schema"      // ParquetSchema
	MetaVersion = "l3sim.version"     // of the code that simulated
	MetaPlan    = "l3sim.plan_sha256" // of all that decides the rows; shards name their plan by it too
)

// ColumnType is how a column's cells are stored in a Parquet file.
type ColumnType int

// The types of columns. An empty cell is null in any of them.
const (
	Text     ColumnType = iota // BYTE_ARRAY, logical type STRING
	Integer                    // INT64, logical type INTEGER(64, signed)
	Unsigned                   // INT64, logical type INTEGER(64, unsigned)
	Real                       // DOUBLE
	Boolean                    // BOOLEAN; "true" and "false" in text
)

// ColumnTypeOf returns the type of a column with values of a Go type.
func ColumnTypeOf(t reflect.Type) ColumnType {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Integer
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Unsigned
	case reflect.Float32, reflect.Float64:
		return Real
	case reflect.Bool:
		return Boolean
	}
	return Text
}

// node returns the type in Parquet's terms. All columns are optional: a failed
// point has no metrics.
func (c ColumnType) node() parquet.Node {
	switch c {
	case Integer:
		return parquet.Optional(parquet.Leaf(parquet.Int64Type))
	case Unsigned:
		return parquet.Optional(parquet.Uint(64))
	case Real:
		return parquet.Optional(parquet.Leaf(parquet.DoubleType))
	case Boolean:
		return parquet.Optional(parquet.Leaf(parquet.BooleanType))
	}
	return parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary))
}

// value returns a cell in Parquet's terms: null where it is empty, or where it
// does not read as the column's type, as the key of a combination that is no
// configuration may not.
func (c ColumnType) value(cell string) parquet.Value {
	var v parquet.Value
	var err error
	switch c {
	case Integer:
		var n int64
		n, err = strconv.ParseInt(cell, 10, 64)
		v = parquet.Int64Value(n)
	case Unsigned:
		var n uint64
		n, err = strconv.ParseUint(cell, 10, 64)
		v = parquet.Int64Value(int64(n)) // the bits; the logical type says how to read them
	case Real:
		var x float64
		x, err = strconv.ParseFloat(cell, 64)
		v = parquet.DoubleValue(x)
	case Boolean:
		var b bool
		b, err = strconv.ParseBool(cell)
		v = parquet.BooleanValue(b)
	default:
		v = parquet.ByteArrayValue([]byte(strings.ToValidUTF8(cell, "\uFFFD")))
	}
	if cell == "" || err != nil {
		return parquet.NullValue()
	}
	return v
}

// orderedGroup is a group whose fields keep their order; a parquet.Group sorts
// them by name.
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

// Fields implements parquet.Node.
func (g orderedGroup) Fields() []parquet.Field { return g.fields }

// groupField is a column of an orderedGroup.
type groupField struct {
	parquet.Node
	name string
}

// Name implements parquet.Field.
func (f groupField) Name() string { return f.name }

// Value implements parquet.Field for rows that are maps. Rows are written as
// parquet.Row, which does not come by here.
func (f groupField) Value(row reflect.Value) reflect.Value {
	return row.MapIndex(reflect.ValueOf(f.name))
}

// parquetBatch is the number of rows that are converted at a time.
const parquetBatch = 256

// WriteParquet writes the table as Parquet, the i-th column with the i-th type,
// with metadata under the keys of provenance. The same arguments give the same
// bytes. Pages are compressed with Snappy, which every reader has.
func (t *Table) WriteParquet(w io.Writer, types []ColumnType, provenance map[string]string) error {
	if len(types) != len(t.Columns) {
		return fmt.Errorf("%d types for %d columns", len(types), len(t.Columns))
	}
	root := orderedGroup{Group: parquet.Group{}}
	for i, name := range t.Columns {
		node := types[i].node()
		root.Group[name] = node
		root.fields = append(root.fields, groupField{node, name})
	}
	config, err := parquet.NewWriterConfig(parquet.NewSchema("results", root),
		parquet.Compression(&parquet.Snappy), parquet.CreatedBy("l3sim", provenance[MetaVersion], "parquet-go"))
	if err != nil {
		return err
	}
	config.KeyValueMetadata = provenance
	p := parquet.NewGenericWriter[any](w, config)
	rows := make([]parquet.Row, 0, parquetBatch)
	values := make([]parquet.Value, parquetBatch*len(types))
	for at := 0; at < len(t.Rows); at += len(rows) {
		rows = rows[:0]
		for r, cells := range t.Rows[at:min(at+parquetBatch, len(t.Rows))] {
			row := values[r*len(types) : (r+1)*len(types)]
			for c, cell := range cells {
				v, level := types[c].value(cell), 1
				if v.IsNull() {
					level = 0
				}
				row[c] = v.Level(0, level, c)
			}
			rows = append(rows, row)
		}
		if _, err := p.WriteRows(rows); err != nil {
			return err
		}
	}
	return p.Close()
}
