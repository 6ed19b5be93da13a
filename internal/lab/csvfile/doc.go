// Package csvfile reads the CSV files of measurements: their rows, and those of a folder.
//
// Start at EachRow; Files picks the files of a folder. internal/lab/measure and internal/lab/service use it.
package csvfile
