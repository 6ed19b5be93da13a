package tables

import (
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/parquet-go/parquet-go"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
)

// ParquetFile is the name of the typed table in a Folder; readers prefer it to ResultsFile.
const ParquetFile = "results.parquet"

// ParquetSchema names the version of ParquetFile in its metadata. It changes when a column changes
// its meaning or type, not when a column is added.
const ParquetSchema = "l3sim/results/2"

// The keys of a Parquet file's metadata that give the origin of its rows. They hold no date,
// machine or path: the same points give the same bytes.
const (
	MetaSchema  = "l3sim.schema"      // ParquetSchema
	MetaVersion = "l3sim.version"     // of the code that simulated
	MetaPlan    = "l3sim.plan_sha256" // hash of all that determines the rows; shards name their plan by it, too
)

// kindsOfParquet are the kinds of columns by Parquet's types.
var kindsOfParquet = map[string]Kind{"STRING": Text, "INT(64,true)": Integer, "INT(64,false)": Unsigned, "DOUBLE": Real, "BOOLEAN": Truth}

// stored are the Go types in which columns are stored: BYTE_ARRAY with logical type STRING, INT64 (signed or
// unsigned), DOUBLE, BOOLEAN.
var stored = map[Kind]reflect.Type{
	Text: reflect.TypeFor[string](), Integer: reflect.TypeFor[int64](), Unsigned: reflect.TypeFor[uint64](),
	Real: reflect.TypeFor[float64](), Truth: reflect.TypeFor[bool](),
}

// parquetSchema returns the table's columns as a Parquet schema. All are optional: a failed point
// has no metrics.
func (t *Table) parquetSchema(kinds []Kind) *parquet.Schema {
	fields := make([]reflect.StructField, len(kinds))
	for i, name := range t.Columns {
		options := name + ",optional"
		if kinds[i] == Text {
			options += ",dict"
		}
		fields[i] = reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: stored[kinds[i]], Tag: reflect.StructTag(fmt.Sprintf("parquet:%q", options))}
	}
	return parquet.NewSchema("results", parquet.SchemaOf(reflect.Zero(reflect.StructOf(fields)).Interface()))
}

// parquetValue returns a cell as a Parquet value: null if it is empty or not of the column's kind, as a key of
// an invalid combination may be.
func parquetValue(kind Kind, cell Value) parquet.Value {
	number, isNumber := cell.Float()
	switch x := cell.v.(type) {
	case nil:
		return parquet.NullValue()
	case int64:
		if kind == Integer || kind == Unsigned && x >= 0 {
			return parquet.Int64Value(x)
		}
	case uint64:
		if kind == Unsigned {
			return parquet.ValueOf(x)
		}
	case bool:
		if kind == Truth {
			return parquet.BooleanValue(x)
		}
	}
	switch {
	case kind == Text:
		return parquet.ValueOf(cell.String())
	case kind == Real && isNumber:
		return parquet.DoubleValue(number)
	}
	return parquet.NullValue()
}

const parquetBatch = 256 // rows converted at a time

// WriteParquet writes the table as Parquet, with metadata under the keys of provenance. The same table and provenance give the
// same bytes. Pages are compressed with Snappy, which every reader has.
func (t *Table) WriteParquet(w io.Writer, provenance map[string]string) error {
	if err := t.given(); err != nil {
		return err
	}
	kinds := list.Map(indices(len(t.Columns)), t.Kind)
	config, err := parquet.NewWriterConfig(t.parquetSchema(kinds),
		parquet.Compression(&parquet.Snappy), parquet.CreatedBy("l3sim", provenance[MetaVersion], "parquet-go"))
	if err != nil {
		return err
	}
	config.KeyValueMetadata = provenance
	p := parquet.NewGenericWriter[any](w, config)
	rows := make([]parquet.Row, 0, parquetBatch)
	values := make([]parquet.Value, parquetBatch*len(kinds))
	for at := 0; at < len(t.Rows); at += len(rows) {
		rows = rows[:0]
		for r, cells := range t.Rows[at:min(at+parquetBatch, len(t.Rows))] {
			row := values[r*len(kinds) : (r+1)*len(kinds)]
			for c, cell := range cells {
				v, level := parquetValue(kinds[c], cell), 1
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

// readParquet reads what WriteParquet wrote.
func (t *Table) readParquet(f *os.File) (err error) {
	defer func() { // the library checks little of a file's own statements
		if fault := recover(); fault != nil {
			err = &input.Error{File: t.Name, Err: fmt.Errorf("not Parquet: %v", fault)}
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		return &input.Error{File: t.Name, Err: fmt.Errorf("not Parquet: %w", err)}
	}
	if schema, _ := p.Lookup(MetaSchema); schema != ParquetSchema {
		return &input.Error{File: t.Name, Key: MetaSchema, Value: fmt.Sprintf("%q", schema), Expected: ParquetSchema + "; another version of l3sim wrote the file: run its command again"}
	}
	t.Kinds = map[string]Kind{}
	for _, field := range p.Schema().Fields() {
		t.Columns, t.Kinds[field.Name()] = append(t.Columns, field.Name()), kindsOfParquet[field.Type().String()]
	}
	size := memory(int(p.NumRows()), len(t.Columns))
	rows := parquet.NewReader(p)
	defer rows.Close()
	batch := make([]parquet.Row, parquetBatch)
	for len(t.Rows) < int(p.NumRows()) {
		n, err := rows.ReadRows(batch)
		if n == 0 && err != nil {
			return &input.Error{File: t.Name, Err: err}
		}
		for _, values := range batch[:n] {
			row := make([]Value, len(t.Columns))
			for c, v := range values {
				row[c] = t.valueOf(c, v)
				if text, is := row[c].v.(string); is {
					size += len(text)
				}
			}
			t.Rows = append(t.Rows, row)
		}
		if size > maxTable {
			return t.tooLarge(0)
		}
	}
	return nil
}

func (t *Table) valueOf(column int, v parquet.Value) Value {
	switch kind := t.Kinds[t.Columns[column]]; {
	case v.IsNull():
		return Value{}
	case kind == Truth:
		return Of(v.Boolean())
	case kind == Real:
		return Of(v.Double())
	case kind == Unsigned:
		return Of(v.Uint64())
	case kind == Integer:
		return Of(v.Int64())
	}
	return Of(string(v.ByteArray()))
}
