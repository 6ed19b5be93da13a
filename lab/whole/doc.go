// Package whole compares measured servers of whole models, one row of a table a measurement, with the system gpu-only.
//
// Read the columns in read.go. A row that cannot be run keeps the reason, and is reported without being judged.
package whole
