// Package whole compares measured servers of whole models, one table row per measurement, with the system gpu-only.
//
// Read the columns in read.go. A row that cannot be run is reported with the reason and not judged.
package whole
