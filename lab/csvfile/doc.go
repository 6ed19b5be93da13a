// Package csvfile reads the CSV files of measurements: their rows, and those of a folder.
//
// Start at EachRow; Files picks the files of a folder. lab/measure and lab/service use it.
package csvfile
