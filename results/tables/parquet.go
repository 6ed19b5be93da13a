package tables

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// ParquetFile is the name of the typed table in a Folder: the rows and columns of
// ResultsFile in the same order, for other tools. l3sim itself reads ResultsFile alone.
const ParquetFile = "results.parquet"

// ParquetSchema names the form of ParquetFile in its metadata. It changes when a column
// changes its meaning or type. A new column does not change it.
const ParquetSchema = "l3sim/results/2"

// The keys of a Parquet file's metadata that say where its rows come from. There
// is no date, machine or path among them: the same points give the same bytes.
const (
	MetaSchema  = "l3sim.schema"      // ParquetSchema
	MetaVersion = "l3sim.version"     // of the code that simulated
	MetaPlan    = "l3sim.plan_sha256" // of all that decides the rows; shards name their plan by it too
)

// parquetType returns the Go type that a column is stored as: BYTE_ARRAY with logical
// type STRING, INT64 (signed or unsigned), DOUBLE, BOOLEAN.
func parquetType(t reflect.Type) reflect.Type {
	switch v := reflect.Zero(t); {
	case v.CanInt():
		return reflect.TypeFor[int64]()
	case v.CanUint():
		return reflect.TypeFor[uint64]()
	case v.CanFloat():
		return reflect.TypeFor[float64]()
	case t.Kind() == reflect.Bool:
		return t
	}
	return reflect.TypeFor[string]()
}

// parquetSchema returns the table's columns in Parquet's terms. All are optional: a
// failed point has no metrics.
func (t *Table) parquetSchema(types []reflect.Type) *parquet.Schema {
	fields := make([]reflect.StructField, len(types))
	for i, name := range t.Columns {
		options := name + ",optional"
		if types[i].Kind() == reflect.String {
			options += ",dict"
		}
		fields[i] = reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: types[i], Tag: reflect.StructTag(fmt.Sprintf("parquet:%q", options))}
	}
	return parquet.NewSchema("results", parquet.SchemaOf(reflect.Zero(reflect.StructOf(fields)).Interface()))
}

// parquetValue returns a cell in Parquet's terms: null where it is empty, or is not of the column's type, as the
// key of a combination that is not valid may not be.
func parquetValue(kind reflect.Kind, cell Value) parquet.Value {
	number, isNumber := cell.Float()
	switch x := cell.v.(type) {
	case nil:
		return parquet.NullValue()
	case int64:
		switch {
		case kind == reflect.Int64:
			return parquet.Int64Value(x)
		case kind == reflect.Uint64 && x >= 0:
			return parquet.ValueOf(uint64(x))
		}
	case uint64:
		if kind == reflect.Uint64 {
			return parquet.ValueOf(x)
		}
	case bool:
		if kind == reflect.Bool {
			return parquet.BooleanValue(x)
		}
	}
	switch {
	case kind == reflect.String:
		return parquet.ValueOf(strings.ToValidUTF8(cell.String(), "\uFFFD"))
	case kind == reflect.Float64 && isNumber:
		return parquet.DoubleValue(number)
	}
	return parquet.NullValue()
}

const parquetBatch = 256 // the number of rows that are converted at a time

// WriteParquet writes the table as Parquet, the i-th column with values of the i-th
// type (text, whole numbers, reals, truth values), with metadata under the keys of provenance. The same arguments give the same
// bytes. Pages are compressed with Snappy, which every reader has.
func (t *Table) WriteParquet(w io.Writer, types []reflect.Type, provenance map[string]string) error {
	if len(types) != len(t.Columns) {
		return fmt.Errorf("%d types for %d columns", len(types), len(t.Columns))
	}
	stored := make([]reflect.Type, len(types))
	for i := range types {
		stored[i] = parquetType(types[i])
	}
	config, err := parquet.NewWriterConfig(t.parquetSchema(stored),
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
				v, level := parquetValue(stored[c].Kind(), cell), 1
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
