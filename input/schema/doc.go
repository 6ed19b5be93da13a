// Package schema describes the keys of configuration sections, and of whatever else
// has its keys in struct tags: names, types and fields (Walk, Of), text and TOML values
// (Parse, Convert, Text, Literal), the units that columns of results write quantities
// in (UnitOf), and where a TOML text has each key and what its comment says (Scan).
//
// It is the one place where text becomes a value: configuration files, --set, axes of
// sweeps and the headers of DRAM logs all read through Parse or Convert.
//
// Start at Of (schema.go), then value.go. Package configs builds the loader on it.
package schema
